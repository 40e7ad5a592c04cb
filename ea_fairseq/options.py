"""Command-line options as fields of a dataclass, each with a parser that checks its values."""

import argparse
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from typing import Any, Self

from ea_fairseq.errors import UserError
from ea_fairseq.plain.flags import flag_of


@dataclass(frozen=True)
class Values:
    """The values that an option may have.

    Args:
        parse: returns the parsed value, and raises ValueError for any other.
        wanted: these values in words, for error messages.
        metavar: stands for the value in the list of flags.
    """

    parse: Callable[[Any], Any]
    wanted: str
    metavar: str = ""


def option(default: Any, values: Values, description: str, alone: str | None = None) -> Any:
    """Returns a dataclass field for a flag with a value.

    Args:
        description: the help text.
        alone: the value of the flag without one, if it may be given alone.
    """
    return field(default=default, metadata={"values": values, "help": description, "alone": alone})


def switch(description: str) -> Any:
    """Returns a dataclass field for a flag without a value, which is off by default; ``description`` is its help."""
    return option(False, Values(bool, "true or false"), description)


def whole(lowest: int, highest: int | None = None) -> Values:
    """Returns whole numbers in [lowest, highest]."""

    def parse(text: str) -> int:
        number = int(text)
        if number != float(text) or number < lowest or (highest is not None and number > highest):
            raise ValueError(text)
        return number

    span = "" if (lowest, highest) == (0, None) else f" from {lowest}" + (f" to {highest:,}" if highest else " up")
    return Values(parse, f"a whole number{span}", "N")


def one_of(*names: str, metavar: str = "NAME") -> Values:
    """Returns names to choose from."""

    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(text)
        return text

    return Values(parse, " or ".join(names) if len(names) < 3 else f"one of {', '.join(names)}", metavar)


def fraction(text: str) -> float:
    """Parses a number in [0, 1]; raises ValueError otherwise."""
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError(text)
    return number


def odd(text: str) -> int:
    """Parses an odd whole number of 1 or more; raises ValueError otherwise."""
    number = int(text)
    if number != float(text) or number < 1 or number % 2 == 0:
        raise ValueError(text)
    return number


FRACTION, ODD = Values(fraction, "a number from 0 to 1", "F"), Values(odd, "an odd number from 1 up", "N")
SIZE, DEPTH = whole(1, 1 << 16), whole(1, 1000)  # channels, heads; and layers that a model may have


@dataclass(frozen=True)
class Options:
    """Options as flags; this class has none.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    def __post_init__(self) -> None:
        for opt in fields(self):
            object.__setattr__(self, opt.name, check(opt, getattr(self, opt.name)))

    @classmethod
    def from_namespace(cls, args: Any) -> Self:
        """Reads the options from fairseq's parsed arguments or model configuration."""
        return cls(**{opt.name: getattr(args, opt.name) for opt in fields(cls) if hasattr(args, opt.name)})

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        """Adds a flag for each option, without a default, so that the architecture's defaults apply."""
        for opt in fields(cls):
            kind: dict[str, Any]
            if opt.type is bool:
                kind = {"action": "store_true"}
            else:
                kind = {"type": argument_type(opt), "metavar": opt.metadata["values"].metavar}
                if opt.metadata["alone"]:
                    kind |= {"nargs": "?", "const": opt.metadata["alone"]}
            parser.add_argument(flag_of(opt.name), default=argparse.SUPPRESS, help=opt.metadata["help"], **kind)


def require_defaults(options: Options, reason: str, names: tuple[str, ...] | None = None) -> None:
    """Raises UserError if an option (by default any) does not have its default value."""
    for opt in fields(options):
        if (names is None or opt.name in names) and getattr(options, opt.name) != opt.default:
            raise UserError(f"{reason} for {flag_of(opt.name)} to act on")


def check(opt: Field, value: Any) -> Any:
    """Returns the parsed value of one option; raises UserError with a sentence that names its flag."""
    try:
        return opt.metadata["values"].parse(value)
    except (OverflowError, TypeError, ValueError):
        raise UserError(f"{flag_of(opt.name)} must be {opt.metadata['values'].wanted}, not {value!r}") from None


def argument_type(opt: Field) -> Callable[[str], Any]:
    """Returns a parser with the same check that raises argparse's error."""

    def parse(text: str) -> Any:
        try:
            return check(opt, text)
        except UserError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse
