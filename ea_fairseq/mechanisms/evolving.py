"""Evolving attention: Wang et al., Evolving Attention with Residual Convolutions, ICML 2021 ("EA").

logits_i = beta * ReLU(conv(mix)) + (1 - beta) * mix,  mix = alpha * logits_{i-1} + (1 - alpha) * scores_i  (EA eq. 4)
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import Inputs, Passed
from ea_fairseq.attention.learned_weights import LearnedWeights
from ea_fairseq.attention.map_convolution import channels_last, norm, pad_map
from ea_fairseq.attention.mechanism import LayerContext, Measure
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.attend import is_exactly
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.kernels.window import WINDOWS, Window
from ea_fairseq.options import Options, fraction, name_of_flag, odd, one_of, option, whole

STARTS = ("auto", "identity", "random")
DEFAULTS: dict[str, dict[str, object]] = {
    "base": {"ea_alpha": 0.5, "ea_beta": 0.1},
    "lite": {"ea_alpha": 0.1, "ea_beta": 0.1},
    "encoder": {"ea_alpha": 0.2, "ea_beta": 0.1},
    "time_series": {"ea_alpha": 0.5, "ea_beta": 0.3},
    "graph": {"ea_kernel_size": 1},
    "vit": {"ea_alpha": 0.1, "ea_beta": 0.3},
    "aa_resnet": {"ea_alpha": 0.5, "ea_beta": 1.0},
    "conv_image": {"ea_alpha": 0.1, "ea_beta": 0.3},
}


def learned(value: object) -> str:
    """Parses what ``--ea-learned`` learns by; checkpoints may have True or False, its former values."""
    return one_of("no", "head", "input")({False: "no", True: "head"}.get(value, value))  # type: ignore[call-overload]


@dataclass(frozen=True)
class Evolution:
    """How the logits of one attention evolve.

    Args:
        window: the receptive field of the convolution.
        alpha: weight of the previous layer's logits; 0 means no skip connection.
        beta: weight of the convolution's output; 0 means no convolution.
        kernel_size: odd size of the square kernel.
        identity: whether the convolution starts as one that changes no probability, instead of at random.
        warmup_updates: over which alpha and beta grow from 0 in a training; 0: they are what they are from the first.
        learned: whether alpha and beta are parameters, for each head, which start at these.
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
        """What it is after so many updates of a training: alpha and beta grow linearly (in no paper)."""
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
        UserError: naming the flag, when a value is out of range.
    """

    ea_alpha: float = option(
        0.5, fraction, "weight of the previous layer's logits in the skip connection", "a number from 0 to 1", "F"
    )
    ea_beta: float = option(0.1, fraction, "weight of the convolved logits", "a number from 0 to 1", "F")
    ea_kernel_size: int = option(3, odd, "size of the convolution's square kernel", "an odd number from 1 up", "N")
    ea_init: str = option(
        "auto",
        one_of(*STARTS),
        "how the convolutions start: at random, as the identity, or (auto) as the identity where the checkpoint of a "
        "plain Transformer is loaded and at random otherwise",
        "auto, identity or random",
        "START",
    )
    ea_warmup_updates: int = option(
        0,
        whole(0),
        "updates over which --ea-alpha and --ea-beta grow linearly from 0, so that a trained model changes gradually "
        "(an experiment of ours, in no paper); 0: none",
        "a whole number",
        "N",
    )
    ea_learned: str = option(
        "no",
        learned,
        "learn alpha and beta: each layer and head has its own, which start at --ea-alpha and --ea-beta; with input, "
        "they also depend on the query's word (in no paper)",
        "no, head (as without a value) or input",
        "BY",
        alone="head",
    )
    ea_start: str = option(
        "conv",
        one_of("conv", "plain"),
        "whether the first attention of a stack has a convolution, as in the papers' equation (conv), or passes on its "
        "own scores, as in the authors' code for images and time series (plain)",
        "conv or plain",
        "START",
    )
    no_encoder_conv: bool = option(False, bool, "no convolution in the encoder's self-attention")
    no_decoder_conv: bool = option(False, bool, "no convolution in the decoder's self-attention")
    no_cross_conv: bool = option(False, bool, "no convolution in the encoder-decoder attention")
    no_encoder_skip: bool = option(False, bool, "no skip connection in the encoder's self-attention")
    decoder_skip: bool = option(False, bool, "skip connection in the decoder's self-attention, too")
    cross_skip: bool = option(False, bool, "skip connection in the encoder-decoder attention, too")

    def __post_init__(self) -> None:
        super().__post_init__()
        learns = self.ea_learned != "no"
        if learns and self.ea_warmup_updates:
            raise UserError("--ea-learned and --ea-warmup-updates do not go together")
        for name in ("ea_alpha", "ea_beta") if learns else ():
            if torch.tensor(getattr(self, name)) == 1:  # as float32 rounds it
                raise UserError(f"{name_of_flag(name)} must be below 1 with --ea-learned, which starts there")

    def of(self, kind: str, layer: int = 1) -> Evolution:
        """What becomes of the logits of an attention of a kind: ``encoder``, ``decoder`` or ``cross``."""
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

    @classmethod
    def limits(cls, parameters: dict[str, Tensor]) -> dict[str, int]:
        """The largest kernel in a checkpoint, or 99 where it has none."""
        kernels = [tensor.size(-1) for name, tensor in parameters.items() if name.endswith("_attn.conv.weight")]
        return {"ea_kernel_size": max(kernels, default=99)}


@register_mechanism("ea_transformer", classifier={"ea_alpha": 0.2, "ea_beta": 0.1}, **DEFAULTS)
class EvolvingAttention(Attention):
    """Attention whose logits continue the previous layer's and pass through a convolution.

    Parameters are fairseq's plus ``conv`` (a K x K convolution with bias) where the evolution has one. With the
    evolution off this is fairseq's attention itself.
    """

    options: ClassVar[type[Options]] = EvolutionOptions
    title = "evolving attention"
    adds = "convolutions"
    IDENTITY_SHIFT = 20.0

    def __init__(self, embed_dim: int, num_heads: int, evolution: Evolution, **kwargs: Any):
        super().__init__(embed_dim, num_heads, **kwargs)
        self.conv = nn.Conv2d(num_heads, num_heads, evolution.kernel_size) if evolution.beta > 0 else None
        self.passes_logits, self.full_evolution = evolution.alpha > 0, evolution
        self.learned = None
        if evolution.learned and not evolution.is_off:
            channels = embed_dim if evolution.by_input else 0
            self.learned = LearnedWeights(num_heads, evolution.alpha, evolution.beta, channels)
        self.evolve_by(evolution)
        if self.conv is not None and evolution.identity:
            self.start_as_identity()
        if self.conv is None and evolution.alpha > 0:
            # Marks the checkpoint: a plain Transformer would otherwise load it silently, without the skip connection.
            self.register_buffer("skip", torch.empty(0))

    @classmethod
    def build(
        cls, options: EvolutionOptions, context: LayerContext, embed_dim: int, num_heads: int, **kwargs: Any
    ) -> Attention:
        """The attention of a place in a stack, from the options."""
        return cls(embed_dim, num_heads, options.of(context.kind, context.layer), **kwargs)

    @classmethod
    def is_entrywise(cls, options: EvolutionOptions) -> bool:
        """Whether the convolution reads no neighbours, and no word is read beside the map."""
        return options.ea_kernel_size == 1 and options.ea_learned != "input"

    def evolve_by(self, evolution: Evolution) -> None:
        """Sets what the steps below and kernels compute by."""
        self.evolution = evolution
        self.is_plain = type(self) is EvolvingAttention and evolution.is_off and self.has_no_extra_terms
        self.is_growing = evolution != self.full_evolution
        self.fused_logits = FusedLogits(
            1 - evolution.alpha, evolution.alpha, self.conv, evolution.window, evolution.beta
        )

    @property
    def fused(self) -> FusedLogits | None:  # type: ignore[override]  # computed, not set
        """What kernels may compute; None where ``conv`` is replaced or has hooks, as pruning gives it, and where
        weights depend on words.

        It is also None in a compiled graph while alpha and beta grow: the weights that kernels take are constants of a
        graph, which would be compiled again for each update.
        """
        own = self.conv is self.fused_logits.conv and (self.conv is None or is_exactly(self.conv, nn.Conv2d))
        by_input = self.learned is not None and self.learned.by_input
        if not own or by_input or (self.is_growing and torch.compiler.is_compiling()):
            return None
        return self.fused_logits if self.learned is None else self.learned.fused(self.fused_logits)

    def set_num_updates(self, updates: int) -> None:
        """Sets alpha and beta by the number of updates so far; fairseq calls this before each update, and on loading.

        Before the first call, a model has its full alpha and beta.
        """
        evolution = self.full_evolution.after(updates)
        if evolution != self.evolution:
            self.evolve_by(evolution)

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None, Passed]:
        """Calls :meth:`Attention.forward`, and makes gradients of unused parameters zero instead of None.

        Unused are a convolution whose weight is currently 0, and alpha in the first layer.
        """
        output, weights, passed = super().forward(*args, **kwargs)
        if self.training and (unread := self.maybe_unread()):  # distributed training waits for all gradients
            output = output + sum(0.0 * parameter.sum() for parameter in unread)
        return output, weights, passed

    def maybe_unread(self) -> list[nn.Parameter]:
        """Returns the parameters that the forward may not have used."""
        found = list(self.conv.parameters()) if self.is_plain and self.conv is not None else []
        return found if self.learned is None else [*found, *self.learned.of("alpha")]

    def combine(self, scores: Tensor, inputs: Inputs) -> Tensor:
        """The skip connection (EA eq. 4)."""
        return (
            scores
            if inputs.previous is None
            else torch.lerp(scores, inputs.previous, self.weight("alpha", scores, inputs))
        )

    def transform(self, logits: Tensor, inputs: Inputs) -> Tensor:
        """The residual convolution (EA eq. 4)."""
        if self.conv is None:
            return logits
        # The convolution reads zeros where entries are masked.
        logits = channels_last(inputs.masks.cleared(logits))
        # beta * ReLU(conv(mix)) + (1 - beta) * mix.
        return torch.lerp(logits, F.relu(self.convolve(logits, inputs)), self.weight("beta", logits, inputs))

    def weight(self, name: str, maps: Tensor, inputs: Inputs) -> float | Tensor:
        """Returns alpha or beta: a float or, if learned, a tensor (K, 1, 1) or (B, K, T, 1) of the maps' dtype."""
        if self.learned is None:
            return getattr(self.evolution, name)
        return self.learned.weight(name, inputs.x).to(maps.dtype)

    def convolve(self, logits: Tensor, inputs: Inputs) -> Tensor:
        """Convolves maps (B, K, T, S), padded with zeros or, above, with the rows of earlier decoding steps."""
        assert self.conv is not None
        padding = self.evolution.window.padding(self.evolution.kernel_size)
        if len(set(padding)) == 1 and is_exactly(self.conv, nn.Conv2d):  # the same on all sides
            return F.conv2d(logits, self.conv.weight, self.conv.bias, padding=padding[0])
        return self.conv(pad_map(logits, inputs, *padding))

    @torch.no_grad()
    def start_as_identity(self) -> None:
        """Initializes ``conv`` so that each head copies its own entry and adds a constant c.

        beta * ReLU(x + c) + (1 - beta) * x = x + beta * c if x > -c, and the softmax is invariant to a constant added
        to a row: initially, the probabilities are those without the convolution.
        """
        left, _, above, _ = self.evolution.window.padding(self.evolution.kernel_size)
        assert self.conv is not None and self.conv.bias is not None
        self.conv.weight.zero_()
        self.conv.weight[:, :, above, left].fill_diagonal_(1.0)
        self.conv.bias.fill_(self.IDENTITY_SHIFT)

    def start_from_plain(self, options: EvolutionOptions) -> str:
        """Initializes the convolution as the identity, which changes no probability, unless ``--ea-init`` is random."""
        if options.ea_init == "random":
            return "at random"
        if self.conv is not None:
            self.start_as_identity()
        return "as the identity"

    def metrics(self, name: str, kind: str) -> dict[str, Measure]:
        """Returns alpha and beta, or the means of learned ones, and the norm of the convolution's kernels."""
        if self.learned is None:
            found = {f"ea_alpha/{kind}": lambda: self.evolution.alpha, f"ea_beta/{kind}": lambda: self.evolution.beta}
        else:
            found = {f"ea_{weight}/{name}": mean for weight, mean in self.learned.means().items()}
        return found if self.conv is None else {**found, f"ea_conv_norm/{name}": partial(norm, self.conv.weight)}
