"""Multi-token attention: Golovneva et al., Multi-Token Attention, 2025 (arXiv 2504.00927, "MTA").

logits_h = conv_h(scores_h), over queries and keys, in some of the layers; then the softmax, heads mixed within groups,
and each head's output normalized and scaled by depth: the paper's first version. Flags add further parts of its code
(facebookresearch/RAM, projects/mta): heads mixed before the softmax, a second convolution after it, and gates.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.map_convolution import channels_last, norm, pad_map
from ea_fairseq.attention.mechanism import LayerContext, Measure
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.errors import UserError
from ea_fairseq.mechanisms.talking_heads import mix_heads
from ea_fairseq.options import ODD, Options, option, switch, whole


@dataclass(frozen=True)
class MultiTokenOptions(Options):
    """The flags of multi-token attention; defaults are those of the paper's first version.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    mta_query_kernel: int = option(6, whole(1), "queries that the convolution of logits reads")
    mta_key_kernel: int = option(11, ODD, "keys that the convolution of logits reads, around each")
    mta_head_kernel: int = option(2, whole(1), "heads in a group, whose probabilities are mixed; 1: no mixing")
    mta_every: int = option(4, whole(1), "one layer in N has the convolution: with 4, the third, the seventh and so on")
    mta_mix_logits: bool = switch("all heads are mixed before the softmax, too")
    mta_second_conv: bool = switch("layers that convolve logits also convolve probabilities")
    no_mta_norm: bool = switch("no normalization of each head's output")
    no_mta_depth_scale: bool = switch("normalized outputs of heads are not scaled by depth")
    mta_gate: bool = switch("each head's output is multiplied by a gate between 0 and 1 computed from it")


@register_mechanism("mta_transformer")
class MultiTokenAttention(Attention):
    """Attention whose probabilities depend on the logits of neighbouring queries and keys, and of other heads.

    Parameters are fairseq's plus ``conv`` and ``second_conv``, a kernel for each head without bias, in the layers that
    have them; ``mix_logits`` (K, K); ``head_mixing`` (groups, heads of a group, heads of a group); and, shared by
    heads, ``head_norm`` (d), the norm's weight, and ``gate``, from d elements to one. Convolutions and mixings start
    as the identity, gates around a half.
    """

    options = MultiTokenOptions
    title = "multi-token attention"
    adds = "convolutions, head mixtures and norms"
    EPSILON = 1e-5

    def __init__(
        self, embed_dim: int, num_heads: int, options: MultiTokenOptions, context: LayerContext, **kwargs: Any
    ):
        super().__init__(embed_dim, num_heads, **kwargs)
        queries, keys, group = options.mta_query_kernel, options.mta_key_kernel, options.mta_head_kernel
        self.above, self.below = queries - 1, 0  # rows that the convolution reads above and below its own
        if context.kind == "encoder":
            self.above, self.below = (queries - 1) // 2, queries // 2
        self.beside = keys // 2
        has_conv = context.layer % options.mta_every == options.mta_every // 2
        shape = num_heads, num_heads, (queries, keys)
        self.conv = nn.Conv2d(*shape, groups=num_heads, bias=False) if has_conv else None
        has_second = has_conv and options.mta_second_conv
        self.second_conv = nn.Conv2d(*shape, groups=num_heads, bias=False) if has_second else None
        self.mix_logits = nn.Parameter(torch.empty(num_heads, num_heads)) if options.mta_mix_logits else None
        self.head_mixing = nn.Parameter(torch.empty(num_heads // group, group, group)) if group > 1 else None
        self.head_norm = None if options.no_mta_norm else nn.Parameter(torch.ones(self.head_dim))
        self.depth_scale = 1.0 if options.no_mta_depth_scale else 0.2 + 0.6 * math.exp(-0.3 * context.layer)
        self.gate = nn.Linear(self.head_dim, 1) if options.mta_gate else None
        added = self.mixings or self.convs or self.head_norm is not None or self.gate is not None
        self.is_plain = self.fairseq_can_compute and not added
        self.start_as_identity()
        if self.gate is not None:
            std = embed_dim**-0.5  # as in the authors' code, truncated at three standard deviations
            nn.init.trunc_normal_(self.gate.weight, std=std, a=-3 * std, b=3 * std)
            nn.init.zeros_(self.gate.bias)

    @classmethod
    def build(
        cls, options: MultiTokenOptions, context: LayerContext, embed_dim: int, num_heads: int, **kwargs: Any
    ) -> Attention:
        """Builds the attention of a layer from the options.

        Raises:
            UserError: if heads cannot be grouped as the options ask.
        """
        if num_heads % options.mta_head_kernel:
            raise UserError(
                f"--mta-head-kernel must divide the number of heads, and {options.mta_head_kernel} is no divisor of "
                f"{num_heads}"
            )
        return cls(embed_dim, num_heads, options, context, **kwargs)

    @classmethod
    def may_renumber(cls, kind: str, layers: list[int]) -> bool:
        """Whether layers keep their index, which determines the scale of the output and the convolution."""
        return layers == [*range(len(layers))]

    @property
    def convs(self) -> dict[str, nn.Conv2d]:
        """The layer's convolutions, by their names."""
        convs = {"conv": self.conv, "second_conv": self.second_conv}
        return {name: conv for name, conv in convs.items() if conv is not None}

    @property
    def mixings(self) -> list[nn.Parameter]:
        """The layer's matrices that mix heads, before and after the softmax."""
        return [mixing for mixing in (self.mix_logits, self.head_mixing) if mixing is not None]

    def transform(self, logits: Tensor, inputs: Inputs) -> Tensor:
        """Applies the paper's key-query convolution and mixes heads before the softmax, which masks again."""
        # Convolve over queries and keys, each head by itself.
        if self.conv is not None:
            logits = self.convolve(self.conv, logits, inputs, "conv_inputs")
        # Mix all heads.
        return logits if self.mix_logits is None else mix_heads(self.mix_logits, logits)

    def reweigh(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """Convolves after the softmax, masks again, and mixes heads within groups, as in the paper."""
        # Convolve over queries and keys, each head by itself, and mask again.
        if self.second_conv is not None:
            weights = inputs.masks.cleared(self.convolve(self.second_conv, weights, inputs, "second_conv_inputs"))
        # Mix the heads of each group.
        return weights if self.head_mixing is None else mix_heads(self.head_mixing, weights)

    def convolve(self, conv: nn.Conv2d, maps: Tensor, inputs: Inputs, name: str) -> Tensor:
        """Convolves each head's map of (B, K, T, S), with zeros at masked entries; steps cache rows by name."""
        maps = channels_last(inputs.masks.cleared(maps))
        maps = pad_map(maps, inputs, self.beside, self.beside, self.above, self.below, name)
        return F.conv2d(maps, conv.weight.type_as(maps), groups=self.num_heads)

    def values(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """Returns each head's output (B, K, T, d), normalized, scaled by depth and gated, as in the authors' code."""
        # Weighted sum of the values.
        output = super().values(weights, inputs)
        # Normalize each head, scale by depth.
        if self.head_norm is not None:
            scale = self.head_norm * self.depth_scale
            output = F.rms_norm(output, (self.head_dim,), scale.type_as(output), self.EPSILON)
        # Gate each head.
        return output if self.gate is None else output * self.gate(output).sigmoid()

    @torch.no_grad()
    def start_as_identity(self) -> None:
        """Initializes convolutions so that they copy each entry, and mixtures so that heads are not mixed."""
        for conv in self.convs.values():
            conv.weight.zero_()[:, 0, self.above, self.beside] = 1.0
        for mixing in self.mixings:
            mixing.copy_(torch.eye(mixing.size(-1)).expand_as(mixing))

    def start_from_plain(self, options: MultiTokenOptions) -> str:
        """Initializes all but norm and gate, which scale a head's output, as the identity."""
        self.start_as_identity()
        changed = ["norms"] * (not options.no_mta_norm) + ["gates"] * options.mta_gate
        return "as the identity" + (f", but for the {' and '.join(changed)} of heads" if changed else "")

    def metrics(self, name: str, kind: str) -> dict[str, Measure]:
        """Returns the norms of the convolutions' kernels."""
        return {f"mta_{part}_norm/{name}": partial(norm, conv.weight) for part, conv in self.convs.items()}
