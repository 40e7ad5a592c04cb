"""Options of native search, which fairseq's commands and ``model.translate`` take beside fairseq's of generation."""

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


class Choose(Action):
    """An option of the command line, for fairseq's configuration has no place for those that it does not know.

    Attributes:
        chosen: what the command line says, by the names of options.
    """

    chosen: ClassVar[dict[str, str | bool]] = {}

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: str | None = None
    ) -> None:
        Choose.chosen[self.dest] = values if self.nargs is None else True


def patch_options() -> None:
    """Gives the options to fairseq's commands that generate, and to what a task builds for them."""
    options.add_generation_args = add_generation_args
    FairseqTask.build_generator = build_generator


def add_generation_args(parser: ArgumentParser) -> Any:
    """Adds fairseq's options of generation and ours."""
    group = fairseq_generation_args(parser)
    Choose.chosen = {}
    about = "which target words translate which source words, of ea-fairseq shortlist: choose among these alone"
    group.add_argument("--shortlist", action=Choose, metavar="FILE", help=about)
    about = "native code computes linear layers in bfloat16 if the processor, which must have it, is faster then"
    group.add_argument("--native-bf16", action=Choose, nargs=0, help=about)
    return group


def build_generator(self: FairseqTask, models: list, args: Any, *more: Any, **options: Any) -> Any:
    """Builds a generator as fairseq does, with what the arguments or the command line say of native search.

    Raises:
        UserError: where there is no such shortlist, or the processor has no bfloat16.
    """
    generator = fairseq_build_generator(self, models, args, *more, **options)
    if isinstance(generator, SequenceGenerator):
        if path := choice(args, "shortlist"):
            generator.shortlist = Shortlist.of_task(path, self)
        if choice(args, "native_bf16"):
            require_bfloat16("--native-bf16")
            generator.native_bf16 = True
    return generator


def choice(args: Any, name: str) -> Any:
    """What arguments or, else, the command line say of an option."""
    return getattr(args, name, None) or Choose.chosen.get(name)


def require_bfloat16(flag: str) -> None:
    """Raises UserError, naming a flag, where native code cannot compute in bfloat16."""
    if not native_library.has_bfloat16():
        raise UserError(f"{flag}: this processor, or what compiled the native code, has no bfloat16: leave it out")
