"""The options of native search, which fairseq's commands and ``model.translate`` accept beside fairseq's own."""

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any, ClassVar

from fairseq import options
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import FairseqTask

from ea_fairseq.errors import UserError
from ea_fairseq.kernels.cpu import native_library
from ea_fairseq.plain.flags import flag_of
from ea_fairseq.plain.precisions import PRECISIONS, about_precision
from ea_fairseq.search.shortlist import Shortlist

fairseq_build_generator = FairseqTask.build_generator
fairseq_generation_args = options.add_generation_args


class StoreSearchOption(Action):
    """Stores an option outside of the namespace, because fairseq drops options that its configuration does not list.

    Attributes:
        values: the options given on the command line, by name.
    """

    values: ClassVar[dict[str, str | bool]] = {}

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: str | None = None
    ) -> None:
        StoreSearchOption.values[self.dest] = values if self.nargs is None else True


def patch_options() -> None:
    """Adds the options to fairseq's commands that generate, and passes them to the generators that a task builds."""
    options.add_generation_args = add_generation_args
    FairseqTask.build_generator = build_generator


def add_generation_args(parser: ArgumentParser) -> Any:
    """Adds fairseq's generation options and those of native search."""
    group = fairseq_generation_args(parser)
    StoreSearchOption.values = {}
    about = "restrict the search to the translations that this file of ea-fairseq shortlist lists for the source tokens"
    group.add_argument("--shortlist", action=StoreSearchOption, metavar="FILE", help=about)
    for name in PRECISIONS:
        group.add_argument(flag_of(name), action=StoreSearchOption, nargs=0, help=about_precision(name))
    return group


def build_generator(self: FairseqTask, models: list, args: Any, *more: Any, **options: Any) -> Any:
    """Builds a generator as fairseq does, and sets the options of native search on it.

    Raises:
        UserError: if the shortlist cannot be read, or for the precisions that :func:`requested_precisions` refuses.
    """
    generator = fairseq_build_generator(self, models, args, *more, **options)
    if isinstance(generator, SequenceGenerator):
        if path := search_option(args, "shortlist"):
            generator.shortlist = Shortlist.of_task(path, self)
        generator.precisions = requested_precisions(lambda name: search_option(args, name))
        if search_option(args, "native_fast"):
            generator.measured = getattr(models[0], "checkpoint_path", None)
    return generator


def search_option(args: Any, name: str) -> Any:
    """The value of an option in ``args`` or, failing that, on the command line; None if it is not given."""
    return getattr(args, name, None) or StoreSearchOption.values.get(name)


def requested_precisions(option: Callable[[str], Any]) -> tuple[str, ...]:
    """The precisions from which native search takes the fastest, beside float32, given the values of options.

    Raises:
        UserError: if two options are given, or the only precision is not supported.
    """
    given = [name for name in PRECISIONS if option(name)]
    if len(given) > 1:
        raise UserError(f"{' and '.join(map(flag_of, given))} exclude each other: give one of them.")
    precisions = PRECISIONS[given[0]] if given else ()
    supported = tuple(filter(native_library.reduced_instruction_set, precisions))
    if len(precisions) == 1 and not supported:
        raise UserError(
            f"{flag_of(given[0])}: this processor, or the compiler of the native code, does not support "
            f"{precisions[0]}: leave it out"
        )
    return supported
