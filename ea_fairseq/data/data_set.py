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
    """A data set that ``ea-fairseq prepare`` knows.

    Args:
        name: its name on the command line.
        summary: its line in the list of data sets.
        description: the text of its help.
        examples: example arguments after its name.
        asks: names of its positional arguments.
        shared: the names of those options that it shares with other data sets.
        own: its other options.
        defaults: defaults of options that differ from those of most data sets.
        counts: known counts of the full data, such as the pairs of train.
        counts_of_others: counts that others may have computed differently, so that a difference is no error.
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
        """The name that its folders record for what made them."""
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
        """Returns the default options."""
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
        """Prepares the data, or prints the plan."""
        raise NotImplementedError

    def output_folder(self, path: str | Path, part: str = "") -> OutputFolder:
        """Returns the folder for the output; ``part`` is the part of the data set, if there is a choice.

        Raises:
            UserError: if the folder cannot be used.
        """
        return OutputFolder(Path(path), self.maker, f"{self.maker} {part}".rstrip())

    def carry_out(self, plan: Plan, folder: OutputFolder, options: Namespace, strict: bool = False) -> None:
        """Shows the plan or runs it, and checks the counts of the data.

        Args:
            strict: whether this makes the full data, so that counts other than the known ones are an error.

        Raises:
            UserError: if a step fails.
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
