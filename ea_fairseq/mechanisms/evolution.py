"""What evolves in which attention: the options of evolving attention and what they mean for each attention."""

import argparse
from dataclasses import dataclass, field, fields

from ea_fairseq.user_error import UserError


@dataclass(frozen=True)
class Window:
    """Which neighbours of an entry (query row t, key column s) a convolution of radius r reads.

    In units of r: columns s - left*r .. s + right*r and rows t - above*r .. t + below*r. Where a later row is a
    later target word, the window never reaches below row t.
    """

    left: int
    right: int
    above: int
    below: int

    def margins(self, kernel_size: int) -> tuple[int, int, int, int]:
        """Number of columns to the left and right and of rows above and below that a kernel reads beyond its entry."""
        radius = (kernel_size - 1) // 2
        return self.left * radius, self.right * radius, self.above * radius, self.below * radius


ENCODER_WINDOW = Window(left=1, right=1, above=1, below=1)
DECODER_WINDOW = Window(left=2, right=0, above=2, below=0)  # shifted one down and one right
CROSS_WINDOW = Window(left=1, right=1, above=2, below=0)  # shifted along the target axis

STARTS = ("auto", "identity", "random")
METAVARS = {int: "N", float: "F", str: "START"}


@dataclass(frozen=True)
class Evolution:
    """How the logits of one attention evolve.

    Args:
        window: what a tap of the convolution may see.
        alpha: weight of the previous layer's logits; 0 means no skip connection.
        beta: weight of the convolution's output; 0 means no convolution.
        kernel_size: odd size of the square kernel.
        identity: whether the convolution starts as one that changes no probability, instead of at random.
    """

    window: Window
    alpha: float
    beta: float
    kernel_size: int
    identity: bool = False

    @property
    def is_off(self) -> bool:
        return self.alpha == 0 and self.beta == 0


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


def start(text: str) -> str:
    """Returns the name of an initialisation; raises ValueError for any other text."""
    if text not in STARTS:
        raise ValueError(text)
    return text


def option(default, parse, description: str, wanted: str = ""):
    return field(default=default, metadata={"parse": parse, "help": description, "wanted": wanted})


@dataclass(frozen=True)
class EvolutionOptions:
    """The command-line options of evolving attention; defaults are those of the papers' base model.

    Raises:
        UserError: naming the flag, when a value is out of range.
    """

    ea_alpha: float = option(
        0.5, fraction, "weight of the previous layer's logits in the skip connection", "a number from 0 to 1"
    )
    ea_beta: float = option(0.1, fraction, "weight of the convolved logits", "a number from 0 to 1")
    ea_kernel_size: int = option(3, odd, "size of the convolution's square kernel", "an odd number from 1 up")
    ea_init: str = option(
        "auto",
        start,
        "how the convolutions start: at random, as the identity, or (auto) as the identity where the checkpoint of a "
        "plain Transformer is loaded and at random otherwise",
        "auto, identity or random",
    )
    no_encoder_conv: bool = option(False, bool, "no convolution in the encoder's self-attention")
    no_decoder_conv: bool = option(False, bool, "no convolution in the decoder's self-attention")
    no_cross_conv: bool = option(False, bool, "no convolution in the encoder-decoder attention")
    no_encoder_skip: bool = option(False, bool, "no skip connection in the encoder's self-attention")
    decoder_skip: bool = option(False, bool, "skip connection in the decoder's self-attention, too")
    cross_skip: bool = option(False, bool, "skip connection in the encoder-decoder attention, too")

    def __post_init__(self):
        for opt in fields(self):
            object.__setattr__(self, opt.name, check(opt, getattr(self, opt.name)))

    @classmethod
    def from_namespace(cls, args) -> "EvolutionOptions":
        """Reads the options from fairseq's parsed arguments or model configuration."""
        return cls(**{opt.name: getattr(args, opt.name) for opt in fields(cls) if hasattr(args, opt.name)})

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser):
        """Adds a flag for each option, without a default, so that the architecture's defaults count."""
        for opt in fields(cls):
            if opt.type is bool:
                kind = {"action": "store_true"}
            else:
                kind = {"type": argument_type(opt), "metavar": METAVARS[opt.type]}
            parser.add_argument(flag(opt), default=argparse.SUPPRESS, help=opt.metadata["help"], **kind)

    @property
    def encoder(self) -> Evolution:
        return self._evolution(ENCODER_WINDOW, not self.no_encoder_skip, not self.no_encoder_conv)

    @property
    def decoder(self) -> Evolution:
        return self._evolution(DECODER_WINDOW, self.decoder_skip, not self.no_decoder_conv)

    @property
    def cross(self) -> Evolution:
        return self._evolution(CROSS_WINDOW, self.cross_skip, not self.no_cross_conv)

    def _evolution(self, window: Window, skip: bool, convolution: bool) -> Evolution:
        return Evolution(
            window,
            alpha=self.ea_alpha if skip else 0.0,
            beta=self.ea_beta if convolution else 0.0,
            kernel_size=self.ea_kernel_size,
            identity=self.ea_init == "identity",
        )


def flag(opt) -> str:
    return "--" + opt.name.replace("_", "-")


def check(opt, value):
    """Returns the parsed value of one option; raises UserError with a sentence that names its flag."""
    try:
        return opt.metadata["parse"](value)
    except (OverflowError, TypeError, ValueError):
        raise UserError(f"{flag(opt)} must be {opt.metadata['wanted']}, not {value!r}") from None


def argument_type(opt):
    """The same check in the form argparse asks for."""

    def parse(text):
        try:
            return check(opt, text)
        except UserError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse
