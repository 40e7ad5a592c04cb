"""Multi-token attention: Golovneva et al., Multi-Token Attention, 2025 (arXiv 2504.00927, "MTA").

logits_h = conv_h(own_h), over queries and keys, in some of the layers; then the softmax, heads mixed within groups, and
each head's output normalized. Where the paper is silent, this follows its code (facebookresearch/RAM, projects/mta).
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.analysis.count import Count
from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.map_convolution import channels_last, norm, with_margins
from ea_fairseq.attention.mechanism import Measure, Place
from ea_fairseq.mechanisms.talking_heads import mix_heads
from ea_fairseq.models.transformer import register_mechanism
from ea_fairseq.options import Options, odd, option, whole
from ea_fairseq.user_error import UserError

POSITIVE = "a whole number from 1 up"


@dataclass(frozen=True)
class MultiTokenOptions(Options):
    """The flags of multi-token attention; defaults are those of the paper's language models.

    Raises:
        UserError: naming the flag, when a value is out of range.
    """

    mta_query_kernel: int = option(6, whole(1), "queries that the convolution of logits reads", POSITIVE, "N")
    mta_key_kernel: int = option(
        11, odd, "keys that the convolution of logits reads, around each", "an odd number from 1 up", "N"
    )
    mta_head_kernel: int = option(
        2, whole(1), "heads of a group, whose probabilities are mixed; 1: none are", POSITIVE, "N"
    )
    mta_every: int = option(
        4,
        whole(1),
        "one layer in so many has the convolution: of 4, the third, the seventh and so on",
        POSITIVE,
        "N",
    )
    no_mta_norm: bool = option(False, bool, "no normalization of what each head attends to")

    @classmethod
    def limits(cls, parameters: dict[str, Tensor]) -> dict[str, int]:
        """The largest kernel in a checkpoint, or 99 where it has none."""
        sizes = [tensor.shape for name, tensor in parameters.items() if name.endswith("_attn.conv.weight")]
        kernels = [size for size in sizes if len(size) == 4]
        return {
            "mta_query_kernel": max((size[2] for size in kernels), default=99),
            "mta_key_kernel": max((size[3] for size in kernels), default=99),
        }


@register_mechanism("mta_transformer")
class MultiTokenAttention(Attention):
    """Attention whose probabilities depend on the logits of neighbouring queries and keys, and of other heads.

    Parameters are fairseq's plus ``conv``, a kernel for each head without bias, in the layers that have it;
    ``head_mixing`` (groups, heads of a group, heads of a group); and ``head_norm`` (d), the norm's weight, which heads
    share. Convolution and mixing start as the identity.
    """

    options = MultiTokenOptions
    title = "multi-token attention"
    adds = "convolutions, head mixtures and norms"
    keeps = ", and the convolution's input with its margins, and mixed probabilities beside those of the softmax"
    EPSILON = 1e-5

    def __init__(self, embed_dim: int, num_heads: int, options: MultiTokenOptions, place: Place, **kwargs):
        super().__init__(embed_dim, num_heads, **kwargs)
        queries, keys, group = options.mta_query_kernel, options.mta_key_kernel, options.mta_head_kernel
        self.above, self.below = queries - 1, 0  # rows that the convolution reads beside its own
        if place.kind == "encoder":
            self.above, self.below = (queries - 1) // 2, queries // 2
        self.beside = keys // 2
        has_conv = place.layer % options.mta_every == options.mta_every // 2
        self.conv = nn.Conv2d(num_heads, num_heads, (queries, keys), groups=num_heads, bias=False) if has_conv else None
        self.head_mixing = nn.Parameter(torch.empty(num_heads // group, group, group)) if group > 1 else None
        self.head_norm = None if options.no_mta_norm else nn.Parameter(torch.ones(self.head_dim))
        self.depth_scale = 0.2 + 0.6 * math.exp(-0.3 * place.layer)
        self.is_plain = self.is_bare and self.conv is self.head_mixing is self.head_norm is None
        self.start_as_identity()

    @classmethod
    def build(cls, options: MultiTokenOptions, place: Place, embed_dim: int, num_heads: int, **kwargs):
        """The attention of a place in a stack, from the options.

        Raises:
            UserError: where heads cannot be grouped as the options ask for.
        """
        if num_heads % options.mta_head_kernel:
            raise UserError(
                f"--mta-head-kernel must divide the number of heads, and {options.mta_head_kernel} is no divisor of "
                f"{num_heads}"
            )
        return cls(embed_dim, num_heads, options, place, **kwargs)

    @classmethod
    def may_renumber(cls, kind: str, layers: list[int]) -> bool:
        """A layer's number says how its output is scaled and whether it has a convolution."""
        return layers == [*range(len(layers))]

    def transform(self, logits: Tensor, inputs: Inputs) -> Tensor:
        """The key-query convolution of the paper, which reads zeros where a key is masked; the softmax masks again."""
        if self.conv is None:
            return logits
        logits = channels_last(inputs.masks.cleared(logits))
        return self.conv(with_margins(logits, inputs, self.beside, self.beside, self.above, self.below))

    def reweigh(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """The head mixing convolution of the paper, after the softmax, within groups of heads."""
        return weights if self.head_mixing is None else mix_heads(self.head_mixing, weights)

    def values(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """What each head attends to, (B, K, T, d), normalized and scaled by depth, as in its code."""
        output = super().values(weights, inputs)
        if self.head_norm is None:
            return output
        scale = self.head_norm * self.depth_scale
        return F.rms_norm(output, (self.head_dim,), scale.type_as(output), self.EPSILON)

    @torch.no_grad()
    def start_as_identity(self) -> None:
        """Lets each head's convolution copy its own entry, and each head keep its own probabilities."""
        if self.conv is not None:
            self.conv.weight.zero_()[:, 0, self.above, self.beside] = 1.0
        if self.head_mixing is not None:
            self.head_mixing.copy_(torch.eye(self.head_mixing.size(-1)).expand_as(self.head_mixing))

    def start_from_plain(self, options: MultiTokenOptions) -> str:
        """As the identity, but for the norm, which changes what a head's output is multiplied by."""
        self.start_as_identity()
        return "as the identity" + ("" if options.no_mta_norm else ", but for the norms of heads")

    def extra_cost(self, queries: int, keys: int) -> Count:
        """The convolution, a head to itself, margins of zeros included, the mixing of heads, and the norm's weight."""
        found, entries = Count(), self.num_heads * queries * keys
        if self.conv is not None:
            found += Count(self.conv.weight.numel(), self.conv.weight[0].numel() * entries)
        if self.head_mixing is not None:
            found += Count(self.head_mixing.numel(), self.head_mixing.size(-1) * entries)
        return found if self.head_norm is None else found + Count(parameters=self.head_dim)

    def element_wise(self, queries: int, keys: int) -> int:
        """The norm's weight, scaled by depth."""
        return 0 if self.head_norm is None else self.head_dim

    def extra_kept(self, queries: int, keys: int, number: int) -> int:
        """The convolution's input with its margins, and mixed probabilities; see ``TalkingHeadsAttention``."""
        entries = 0
        if self.conv is not None:
            entries += (queries + self.above + self.below) * (keys + 2 * self.beside)
        if self.head_mixing is not None and number == 4:
            entries += queries * keys
        return self.num_heads * entries * number

    def metrics(self, name: str, kind: str) -> dict[str, Measure]:
        """The norm of the convolution's kernels."""
        return {} if self.conv is None else {f"mta_conv_norm/{name}": partial(norm, self.conv.weight)}
