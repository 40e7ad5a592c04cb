"""A data set: its options in ``ea-fairseq prepare``, and how its plan is carried out."""

from argparse import SUPPRESS, Namespace
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ea_fairseq.data.manifest import check_counts
from ea_fairseq.data.options import DEFAULTS, Option, add_options
from ea_fairseq.data.plan import Plan
from ea_fairseq.errors import UserError
from ea_fairseq.plain.commands import Parser
from ea_fairseq.plain.output_folder import OutputFolder


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """What is known of a data set.

    Args:
        name: after ``ea-fairseq prepare``.
        summary: of the list of data sets.
        description: of its help.
        examples: what may be typed after its name.
        asks: for what stands on its command line beside options.
        shared: the names of its options among those that data sets share.
        own: its other options.
        defaults: of options, where they are other than those of most data sets.
        counts: known of the full data, such as the pairs of train.
        counts_of_others: those that others may have counted otherwise, so that a difference is no error.
    """

    name: str
    summary: str
    description: str
    examples: tuple[str, ...]
    asks: tuple[str, ...] = ("OUT_DIR",)
    shared: Collection[str] = ()
    own: tuple[Option, ...] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    counts_of_others: Mapping[str, int] = field(default_factory=dict)

    @property
    def maker(self) -> str:
        """What makes its folders, as they note it."""
        return f"prepare-{self.name}"

    def parser(self) -> Parser:
        """A parser of its options."""
        lines = [f"ea-fairseq prepare {self.name} {example}" for example in self.examples]
        usage = f"%(prog)s [options] {' '.join(self.asks)}"
        parser = Parser(f"prepare {self.name}", self.description, "\n  ".join(lines), usage=usage)
        parser.set_defaults(**vars(self.default_options()))
        for option in self.own:
            option.add_to(parser)
        add_options(parser, self.shared)
        parser.add_argument("given", nargs="*", help=SUPPRESS)
        return parser

    def default_options(self) -> Namespace:
        """The options of a command line without any."""
        own = {option.name: option.default for option in self.own}
        return Namespace(**DEFAULTS | own | dict(self.defaults))

    def options(self, arguments: list[str]) -> Namespace:
        """Parses a command line; ``given`` are its positional arguments."""
        options = self.parser().parse_intermixed_args(arguments)
        if len(options.given) != len(self.asks):
            asked = " and ".join(self.asks)
            raise UserError(f"give {asked}, not {len(options.given)} words: see --help for an example.")
        if not all(options.given):
            raise UserError("the name of a folder is empty: see --help for an example.")
        return options

    def prepare(self, options: Namespace) -> None:
        """Makes its data, or shows what there is to make."""
        raise NotImplementedError

    def output_folder(self, path: str | Path, part: str = "") -> OutputFolder:
        """The folder for the output; ``part`` is what of the data set it is for, if there is a choice.

        Raises:
            UserError: where it will not do.
        """
        return OutputFolder(Path(path), self.maker, f"{self.maker} {part}".rstrip())

    def carry_out(self, plan: Plan, folder: OutputFolder, options: Namespace, strict: bool = False) -> None:
        """Shows the plan or runs it, and compares the counts of the data.

        Args:
            strict: whether this makes the full data, so that other counts than the known ones are an error.

        Raises:
            UserError: where a step fails.
        """
        if options.dry_run:
            plan.show(folder, options.remove_intermediate)
            return
        with folder.opened():
            plan.run(folder, options.remove_intermediate)
            data = folder.path / "data-bin"
            if self.counts:
                check_counts(data, self.counts, self.counts_of_others, strict and not options.accept)
            folder.say(f"done: {data}")
