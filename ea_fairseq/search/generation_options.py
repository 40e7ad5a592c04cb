"""The options of native search, which fairseq's commands and ``model.translate`` accept beside fairseq's own."""

from argparse import Action, ArgumentParser, Namespace
from typing import Any, ClassVar

from fairseq import options
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import FairseqTask

from ea_fairseq.errors import UserError
from ea_fairseq.kernels.cpu import native_library
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
    about = "let native code compute linear layers in bfloat16 where that is faster; needs a processor with bfloat16"
    group.add_argument("--native-bf16", action=StoreSearchOption, nargs=0, help=about)
    return group


def build_generator(self: FairseqTask, models: list, args: Any, *more: Any, **options: Any) -> Any:
    """Builds a generator as fairseq does, and sets the options of native search on it.

    Raises:
        UserError: if the shortlist cannot be read, or the processor does not support bfloat16.
    """
    generator = fairseq_build_generator(self, models, args, *more, **options)
    if isinstance(generator, SequenceGenerator):
        if path := search_option(args, "shortlist"):
            generator.shortlist = Shortlist.of_task(path, self)
        if search_option(args, "native_bf16"):
            require_bfloat16("--native-bf16")
            generator.native_bf16 = True
    return generator


def search_option(args: Any, name: str) -> Any:
    """The value of an option in ``args`` or, failing that, on the command line; None if it is not given."""
    return getattr(args, name, None) or StoreSearchOption.values.get(name)


def require_bfloat16(flag: str) -> None:
    """Raises UserError, which names the flag, if native code cannot compute in bfloat16."""
    if not native_library.has_bfloat16():
        raise UserError(
            f"{flag}: this processor, or the compiler of the native code, does not support bfloat16: leave it out"
        )
