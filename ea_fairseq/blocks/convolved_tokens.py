"""A convolution over words in place of self-attention: Predictive Attention Transformer ("PA"), the rival CNN."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from ea_fairseq.attention.inputs import NOTHING, Passed
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.blocks.token_convolution import TokenConvolution
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.masks import AttentionMasks
from ea_fairseq.options import Options


class ConvolvedTokens(TokenConvolution):
    """A convolution over three words and a projection, C to C, which layers take for their self-attention."""

    options = Options
    title = "convolution"
    adds = "kernels"

    def __init__(self, width: int):
        super().__init__(width)
        self.out_proj = nn.Linear(width, width)

    @classmethod
    def build_branch(cls, options: Options, context: LayerContext, embed_dim: int, num_heads: int) -> None:
        """Nothing is beside it."""

    @classmethod
    def width_of_heads(cls, options: Options, embed_dim: int, num_heads: int) -> int:
        """There are none."""
        return embed_dim

    @classmethod
    def build(
        cls,
        options: Options,
        context: LayerContext,
        embed_dim: int,
        num_heads: int,
        terms: Sequence[nn.Module] = (),
        convolutions: nn.Module | None = None,
        **kwargs: Any,
    ) -> "ConvolvedTokens":
        """
        Raises:
            UserError: where there are terms or convolutions of an attention.
        """
        if terms or convolutions is not None:
            raise UserError("--arch cnn_classifier has no attention for the flags of scores and projections to act on")
        return cls(embed_dim)

    @classmethod
    def may_renumber(cls, kind: str, layers: list[int]) -> bool:
        """A layer's number changes nothing."""
        return True

    def forward(  # type: ignore[override]  # an attention's arguments, not a branch's
        self, query: Tensor, *memory: Tensor, masks: AttentionMasks, **kwargs: Any
    ) -> tuple[Tensor, None, Passed]:
        """(T, B, C) -> (T, B, C), without probabilities, and nothing for the next layer."""
        return self.out_proj(super().forward(query, masks)), None, NOTHING
