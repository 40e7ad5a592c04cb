"""Command-line options as fields of a dataclass, each with the check that its values have to pass."""

import argparse
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from typing import Any, Self

from torch import Tensor

from ea_fairseq.errors import UserError


def option(
    default: Any, parse: Callable[[Any], Any], description: str, wanted: str = "", metavar: str | None = None
) -> Any:
    """A field for one flag.

    Args:
        parse: returns the value, and raises ValueError for one that is out of range.
        wanted: what a value must be, in words, for the error.
    """
    return field(default=default, metadata={"parse": parse, "help": description, "wanted": wanted, "metavar": metavar})


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


def whole(lowest: int, highest: int | None = None) -> Callable[[str], int]:
    """A parser that returns a whole number in [lowest, highest] and raises ValueError for any other."""

    def parse(text: str) -> int:
        number = int(text)
        if number != float(text) or number < lowest or (highest is not None and number > highest):
            raise ValueError(text)
        return number

    return parse


def one_of(*names: str) -> Callable[[str], str]:
    """A parser that returns a text that is among the names and raises ValueError for any other."""

    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(text)
        return text

    return parse


@dataclass(frozen=True)
class Options:
    """The flags of an attention mechanism; this one has none.

    Raises:
        UserError: naming the flag, when a value is out of range.
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
        """Adds a flag for each option, without a default, so that the architecture's defaults count."""
        for opt in fields(cls):
            kind: dict[str, Any]
            if opt.type is bool:
                kind = {"action": "store_true"}
            else:
                kind = {"type": argument_type(opt), "metavar": opt.metadata["metavar"]}
            parser.add_argument(flag(opt), default=argparse.SUPPRESS, help=opt.metadata["help"], **kind)

    @classmethod
    def limits(cls, parameters: dict[str, Tensor]) -> dict[str, int]:
        """The largest value of options that sizes depend on, given a checkpoint's parameters: none by default."""
        return {}


def flag(opt: Field) -> str:
    """The flag of an option."""
    return name_of_flag(opt.name)


def name_of_flag(name: str) -> str:
    """``ea_alpha`` -> ``--ea-alpha``"""
    return "--" + name.replace("_", "-")


def check(opt: Field, value: Any) -> Any:
    """Returns the parsed value of one option; raises UserError with a sentence that names its flag."""
    try:
        return opt.metadata["parse"](value)
    except (OverflowError, TypeError, ValueError):
        raise UserError(f"{flag(opt)} must be {opt.metadata['wanted']}, not {value!r}") from None


def argument_type(opt: Field) -> Callable[[str], Any]:
    """The same check in the form argparse asks for."""

    def parse(text: str) -> Any:
        try:
            return check(opt, text)
        except UserError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse
