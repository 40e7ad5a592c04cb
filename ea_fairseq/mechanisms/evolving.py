"""Evolving attention: Wang et al., Evolving Attention with Residual Convolutions, ICML 2021 ("EA").

logits_i = beta * ReLU(conv(mix)) + (1 - beta) * mix,  mix = alpha * logits_{i-1} + (1 - alpha) * scores_i  (EA eq. 4)
"""

from functools import partial
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.evolution import Evolution, EvolutionOptions
from ea_fairseq.attention.inputs import Inputs, Passed
from ea_fairseq.attention.learned_weights import LearnedWeights
from ea_fairseq.attention.map_convolution import channels_last, norm, pad_map
from ea_fairseq.attention.mechanism import LayerContext, Measure
from ea_fairseq.attention.projection import is_exactly
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.options import Options

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


@register_mechanism("ea_transformer", classifier={"ea_alpha": 0.2, "ea_beta": 0.1}, **DEFAULTS)
class EvolvingAttention(Attention):
    """Attention whose logits continue the previous layer's and pass through a convolution.

    Parameters are fairseq's plus ``conv`` (a K x K convolution with bias) if the evolution has one. With the
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
    def arguments(cls, options: EvolutionOptions, context: LayerContext) -> dict[str, Any]:
        """The constructor's arguments that options and layer decide."""
        return {**super().arguments(options, context), "evolution": options.of(context.kind, context.layer)}

    @classmethod
    def is_entrywise(cls, options: EvolutionOptions) -> bool:
        """Whether the convolution reads no neighbours, and alpha and beta do not depend on words."""
        return options.ea_kernel_size == 1 and options.ea_learned != "input"

    def evolve_by(self, evolution: Evolution) -> None:
        """Sets the alpha and beta of the steps below and of kernels."""
        self.evolution = evolution
        self.is_plain = type(self) is EvolvingAttention and evolution.is_off and self.fairseq_can_compute
        self.is_growing = evolution != self.full_evolution
        self.fused_logits = FusedLogits(
            1 - evolution.alpha, evolution.alpha, self.conv, evolution.window, evolution.beta
        )

    @property
    def fused(self) -> FusedLogits | None:  # type: ignore[override]  # computed, not set
        """What kernels may compute, without what words add to alpha and beta; None if ``conv`` is replaced or has
        hooks, such as those of pruning.

        It is also None in a compiled graph while alpha and beta grow: they are constants of a graph with kernels, which
        would be recompiled at each update.
        """
        own = self.conv is self.fused_logits.conv and (self.conv is None or is_exactly(self.conv, nn.Conv2d))
        if not own or (self.is_growing and torch.compiler.is_compiling()):
            return None
        return self.fused_logits if self.learned is None else self.learned.fused(self.fused_logits)

    def fused_of(self, inputs: Inputs) -> FusedLogits | None:
        """What kernels may compute of these inputs, with the alpha and beta of their words."""
        fused = self.fused
        if fused is None or self.learned is None or not self.learned.by_input:
            return fused
        return self.learned.fused(self.fused_logits, inputs.x)

    def set_num_updates(self, updates: int) -> None:
        """Sets alpha and beta by the number of updates so far; fairseq calls this before each update, and on loading.

        Before the first call, a model has its full alpha and beta.
        """
        evolution = self.full_evolution.after(updates)
        if evolution != self.evolution:
            self.evolve_by(evolution)

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None, Passed]:
        """Calls :meth:`Attention.forward`, and makes gradients of unused parameters zero instead of None.

        Unused parameters are a convolution whose weight is currently 0, and alpha in the first layer.
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
        if inputs.previous is None:
            return scores
        return torch.lerp(scores, inputs.previous, self.weight("alpha", scores, inputs))

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
