"""Depthwise convolutions inside self-attention: Chang et al., Convolutions and Self-Attention, ACL 2021 ("COMP")."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.projection import is_exactly
from ea_fairseq.kernels.attend import join_heads
from ea_fairseq.kernels.masks import AttentionMasks


class DepthwiseConvolution(nn.Conv1d):
    """y_t,c = sum of weight_r,c x_(t+r),c over tokens up to ``REACH`` before t, and as many after it or none.

    Args:
        width: C channels.
        later: whether it reads tokens after t.
        bias: whether bias_c is added to y_t,c.
    """

    REACH = 8  # COMP, section 3.2: kernels of 17 tokens

    def __init__(self, width: int, later: bool, bias: bool = False):
        self.after = self.REACH if later else 0
        super().__init__(width, width, self.REACH + 1 + self.after, groups=width, bias=bias)

    def forward(self, x: Tensor, before: Tensor | None = None) -> Tensor:
        """(T, B, C) -> (T, B, C)

        Args:
            before: up to ``REACH`` tokens before x, (n, B, C); earlier tokens are zeros.
        """
        missing = self.REACH
        if before is not None:
            x, missing = torch.cat([before, x]), missing - len(before)
        return super().forward(F.pad(x.permute(1, 2, 0), (missing, self.after))).permute(2, 0, 1)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Adds a bias of zeros to an older checkpoint, which has none."""
        if self.bias is not None and f"{name}.weight" in state_dict:
            state_dict.setdefault(f"{name}.bias", torch.zeros_like(self.bias))


class Convolutions(nn.ModuleDict):
    """The depthwise convolutions of one self-attention, by their place.

    ``q``, ``k`` and ``v`` convolve the tokens that the first half of the heads project to queries, keys and values,
    with a bias (COMP, section 5). ``depthwise`` convolves the values and is added to the output of attention (COMP,
    section 4). Padding is read as zeros.
    """

    def act_on(self, parts: str) -> bool:
        """Whether any of queries, keys and values, by the letters q, k and v, is projected from convolved tokens."""
        return any(part in self for part in parts)

    def project(self, x: Tensor, layers: Mapping[str, nn.Module], inputs: Inputs) -> Tensor:
        """Projects tokens to queries, keys and values, side by side, (T, B, n C).

        Args:
            x: (T, B, C).
            layers: n projections by the letters q, k and v.
        """
        tokens = inputs.masks.cleared_tokens(x)
        before = inputs.vectors_before("convolved", tokens, DepthwiseConvolution.REACH)
        projected = (
            separable(layer, self[part](tokens, before), x) if part in self else layer(x)
            for part, layer in layers.items()
        )
        return torch.cat([*projected], dim=-1)

    def of_values(self, inputs: Inputs) -> Tensor:
        """Returns the convolved values to add to the output, (T, B, C)  (COMP eq. 7, after the softmax, footnote 3)."""
        *_, queries, keys = inputs.size
        first, padded = max(0, keys - queries - DepthwiseConvolution.REACH), inputs.masks.padded_keys
        recent = AttentionMasks(None if padded is None else padded[:, first:])
        values = recent.cleared_tokens(join_heads(inputs.v[:, :, first:]))
        earlier = keys - first - queries
        return self["depthwise"](values[earlier:], values[:earlier] if earlier else None)


def separable(layer: nn.Module, convolved: Tensor, x: Tensor) -> Tensor:
    """Projects to (T, B, C), the first half from convolved vectors (T, B, C), the second half from x."""
    if not isinstance(layer, nn.Linear) or not is_exactly(layer):  # such as with quantization noise
        return torch.cat([layer(convolved).chunk(2, dim=-1)[0], layer(x).chunk(2, dim=-1)[1]], dim=-1)
    weights, biases = layer.weight.chunk(2), (None, None) if layer.bias is None else layer.bias.chunk(2)
    return torch.cat([*map(F.linear, (convolved, x), weights, biases)], dim=-1)
