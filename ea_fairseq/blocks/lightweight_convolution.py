"""A lightweight convolution branch: Wu et al., Lite Transformer with Long-Short Range Attention, 2020.

The convolution is that of Wu et al., Pay Less Attention with Lightweight and Dynamic Convolutions, ICLR 2019.
"""

import torch
from fairseq.modules.lightweight_convolution import LightweightConv1dTBC
from torch import Tensor, nn

from ea_fairseq.blocks.branch import Branch
from ea_fairseq.kernels.masks import AttentionMasks


class LightweightConvolution(LightweightConv1dTBC):
    """fairseq's lightweight convolution, computed as one matrix product per head; its graph compiles for all lengths.

    out[t] = sum_k softmax(weight)[h, k] x[t + k - padding_l], the channels of a head h sharing its weights.
    """

    def forward(self, x: Tensor, incremental_state: dict | None = None) -> Tensor:
        """(T, B, C') -> (T, B, C'); decoding steps use fairseq's code, which caches earlier tokens for each beam."""
        if incremental_state is not None:
            return super().forward(x, incremental_state)
        length, sentences, _ = x.shape
        # Group the channels by head, (H, T, B R).
        by_head = x.unflatten(2, (self.num_heads, -1)).permute(2, 0, 1, 3).flatten(2)
        # Weighted sum of the tokens, and back to (T, B, C').
        mixed = self.weight_dropout_module(self.matrix(length)).type_as(x) @ by_head
        return mixed.unflatten(2, (sentences, -1)).permute(1, 2, 0, 3).flatten(2)

    def matrix(self, length: int) -> Tensor:
        """Returns the convolution as matrices (H, T, T), from input tokens to output tokens."""
        dtype = torch.float64 if self.weight.dtype is torch.float64 else torch.float32
        weight = self.weight.squeeze(1).softmax(dim=-1, dtype=dtype)
        positions = torch.arange(length, device=weight.device)
        taps = positions - positions.unsqueeze(1) + self.padding_l
        return weight[:, taps.clamp(0, self.kernel_size - 1)].where((taps >= 0) & (taps < self.kernel_size), 0.0)


class LightweightBranch(Branch):
    """Projection, gated linear unit, lightweight convolution, projection: C' to C' channels.

    Args:
        kernel: the number of tokens that the convolution reads.
        later: how many of them come after the current token.
        heads: K, the number of groups of channels that share weights.
        dropout: dropout of the convolution's weights.
    """

    def __init__(self, width: int, kernel: int, later: int, heads: int, dropout: float):
        super().__init__(width)
        self.linear_in = nn.Linear(width, 2 * width)
        self.conv = LightweightConvolution(
            width, kernel, kernel - 1 - later, heads, weight_dropout=dropout, weight_softmax=True
        )
        self.linear_out = nn.Linear(width, width)
        for layer in (self.linear_in, self.linear_out):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, masks: AttentionMasks, incremental_state: dict | None = None) -> Tensor:
        """(T, B, C') -> (T, B, C'); the convolution reads zeros at padding."""
        # Gated linear unit, convolution, projection.
        gated = nn.functional.glu(self.linear_in(x), dim=-1)
        return self.linear_out(self.conv(masks.cleared_tokens(gated), incremental_state))
