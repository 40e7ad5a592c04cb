"""How logits evolve, and the flags of evolving attention."""

from dataclasses import dataclass, replace

import torch

from ea_fairseq.errors import UserError
from ea_fairseq.kernels.window import WINDOWS, Window
from ea_fairseq.options import FRACTION, ODD, Options, Values, one_of, option, switch, whole
from ea_fairseq.plain.flags import flag_of

STARTS = ("auto", "identity", "random")
LEARNED = one_of("no", "head", "input")


def learned(value: object) -> str:
    """Parses the value of ``--ea-learned``; old checkpoints may have its former values True and False."""
    return LEARNED.parse({False: "no", True: "head"}.get(value, value))  # type: ignore[call-overload]


@dataclass(frozen=True)
class Evolution:
    """How the logits of one attention evolve.

    Args:
        window: the receptive field of the convolution.
        alpha: weight of the previous layer's logits; 0 means no skip connection.
        beta: weight of the convolution's output; 0 means no convolution.
        kernel_size: odd size of the square kernel.
        identity: whether the convolution starts as one that changes no probability, instead of at random.
        warmup_updates: updates of a training over which alpha and beta grow from 0; 0: no warm-up.
        learned: whether alpha and beta are parameters, for each head, which start at these values.
        by_input: whether learned ones also depend on the query's word.
    """

    window: Window
    alpha: float
    beta: float
    kernel_size: int
    identity: bool = False
    warmup_updates: int = 0
    learned: bool = False
    by_input: bool = False

    def after(self, updates: int) -> "Evolution":
        """Returns the evolution after so many updates of a training: alpha and beta grow linearly (in no paper)."""
        if updates >= self.warmup_updates:
            return self
        grown = updates / self.warmup_updates
        return replace(self, alpha=grown * self.alpha, beta=grown * self.beta)

    @property
    def is_off(self) -> bool:
        """Whether there is neither skip connection nor convolution."""
        return self.alpha == 0 and self.beta == 0


@dataclass(frozen=True)
class EvolutionOptions(Options):
    """The flags of evolving attention; defaults are those of the papers' base model.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    ea_alpha: float = option(0.5, FRACTION, "weight of the previous layer's logits in the skip connection")
    ea_beta: float = option(0.1, FRACTION, "weight of the convolved logits")
    ea_kernel_size: int = option(3, ODD, "size of the convolution's square kernel")
    ea_init: str = option(
        "auto",
        one_of(*STARTS, metavar="START"),
        "how the convolutions start: at random, as the identity, or (auto) as the identity if the checkpoint of a "
        "plain Transformer is loaded and at random otherwise",
    )
    ea_warmup_updates: int = option(
        0,
        whole(0),
        "updates over which --ea-alpha and --ea-beta grow linearly from 0, so that a trained model changes gradually "
        "(an experiment of ours, in no paper); 0: none",
    )
    ea_learned: str = option(
        "no",
        Values(learned, "no, head (as without a value) or input", "BY"),
        "learn alpha and beta: each layer and head has its own, which start at --ea-alpha and --ea-beta; with input, "
        "they also depend on the query's word (in no paper)",
        alone="head",
    )
    ea_start: str = option(
        "conv",
        one_of("conv", "plain", metavar="START"),
        "whether the first attention of a stack has a convolution, as in the papers' equation (conv), or passes on its "
        "own scores, as in the authors' code for images and time series (plain)",
    )
    no_encoder_conv: bool = switch("no convolution in the encoder's self-attention")
    no_decoder_conv: bool = switch("no convolution in the decoder's self-attention")
    no_cross_conv: bool = switch("no convolution in the encoder-decoder attention")
    no_encoder_skip: bool = switch("no skip connection in the encoder's self-attention")
    decoder_skip: bool = switch("skip connection in the decoder's self-attention, too")
    cross_skip: bool = switch("skip connection in the encoder-decoder attention, too")

    def __post_init__(self) -> None:
        super().__post_init__()
        learns = self.ea_learned != "no"
        if learns and self.ea_warmup_updates:
            raise UserError("--ea-learned and --ea-warmup-updates cannot be combined: leave out one of them")
        for name in ("ea_alpha", "ea_beta") if learns else ():
            if torch.tensor(getattr(self, name)) == 1:  # as float32 rounds it
                raise UserError(f"{flag_of(name)} must be below 1 with --ea-learned, which starts there")

    def of(self, kind: str, layer: int = 1) -> Evolution:
        """Returns how the logits of an attention of a kind evolve: ``encoder``, ``decoder`` or ``cross``."""
        is_plain = getattr(self, f"no_{kind}_conv") or (layer == 0 and self.ea_start == "plain")
        skips = {"encoder": not self.no_encoder_skip, "decoder": self.decoder_skip, "cross": self.cross_skip}
        return Evolution(
            WINDOWS[kind],
            alpha=self.ea_alpha if skips[kind] else 0.0,
            beta=0.0 if is_plain else self.ea_beta,
            kernel_size=self.ea_kernel_size,
            identity=self.ea_init == "identity",
            warmup_updates=self.ea_warmup_updates,
            learned=self.ea_learned != "no",
            by_input=self.ea_learned == "input",
        )
