"""Attention whose heads read whole tokens: Cordonnier et al., On the Relationship between Self-Attention and
Convolutional Layers, ICLR 2020 ("CONV-SA"), section 3, where D_h = D_in.

If scores do not depend on the tokens, a map is the same for all images, so it has no batch (1, K, T, S).
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.convolution_options import ConvolutionOptions
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term_options import TermOptions
from ea_fairseq.attention.widened import read_channels
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.attend import split_heads
from ea_fairseq.kernels.masks import AttentionMasks
from ea_fairseq.options import require_defaults
from ea_fairseq.terms.image_positions import SeparableTerm

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
READ_AS_THEY_ARE = "and the heads of this model read tokens as they are"


class PixelAttention(nn.Module):
    """Self-attention with the steps of a mechanism; values are the tokens themselves, for all heads.

    Args:
        kind: the mechanism's class.
        args: the model's options.
        width: D, channels of a token, of a query and of a key.
        heads: K.

    Raises:
        UserError: if the mechanism or a flag changes values, which are the tokens here.
    """

    def __init__(self, kind: type[Attention], args: Any, context: LayerContext, width: int, heads: int):
        super().__init__()
        terms = TermOptions.from_namespace(args).build(context, width * heads, heads)
        if kind.changes_values():
            raise UserError(f"{kind.title} changes values, {READ_AS_THEY_ARE}")
        if any(term.has_values for term in terms):
            raise UserError(f"--shaw-values changes values, {READ_AS_THEY_ARE}")
        require_defaults(ConvolutionOptions.from_namespace(args), "attention as convolution leaves nothing")
        options = kind.options.from_namespace(args)
        self.width, self.heads, self.dropout = width, heads, nn.Dropout(args.attention_dropout)
        self.mechanism = kind.build(options, context, heads, heads, terms=terms)
        self.mechanism.grid, self.mechanism.key_dim, self.mechanism.scaling = context.grid, width, width**-0.5
        for name in PROJECTIONS:
            setattr(self.mechanism, name, None)
        projected = self.mechanism.projected
        self.q_proj, self.k_proj = (nn.Linear(width, heads * width) if part in projected else None for part in "qk")
        self.reads_tokens = read_channels(self.mechanism, width) or projected != "v"
        # W_h of each head and their bias, then another linear layer, as in the authors' code.
        bound = (heads * width) ** -0.5
        self.weight = nn.Parameter(torch.empty(heads, width, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(width))
        self.out_proj = nn.Linear(width, width)

    @property
    def is_separable(self) -> bool:
        """Whether each probability is the product of a row's probability and a column's."""
        terms, fused = self.mechanism.terms, self.mechanism.fused
        return len(terms) == 1 and isinstance(terms[0], SeparableTerm) and fused is not None and fused.is_plain

    def forward(self, x: Tensor, previous: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """(T, B, D) -> (T, B, D), and logits for the layer above, or None if the mechanism passes none on.

        Args:
            previous: logits (1 or B, K, T, S) of the layer below.
        """
        drops_out, logits = self.training and self.dropout.p > 0, None
        if self.is_separable and not drops_out and self.mechanism.recorded is None:
            attended = self.by_rows_and_columns(x)
        else:
            weights, logits = self.maps(x, previous)
            attended = by_pairs(self.dropout(weights.type_as(x)), x)
        # sum_h P_h X W_h, head by head: all heads at once would need K times the memory.
        output: Tensor = self.bias
        for tokens, weight in zip(attended, self.weight, strict=True):
            output = torch.addmm(output, tokens.reshape(-1, self.width), weight)
        output = self.out_proj(output.view_as(x))
        # Distributed training waits for gradients of all parameters.
        unread = self.mechanism.maybe_unread() if self.training else []
        return sum((0.0 * parameter.sum() for parameter in unread), output), logits

    def by_rows_and_columns(self, x: Tensor) -> Iterator[Tensor]:
        """Yields P_h X of each head, (T, B, D), if probabilities are products of a row's and a column's.

        Rows are summed first, then columns: 2 S sqrt(S) products for each channel instead of S^2.
        """
        (term,) = self.mechanism.terms
        assert isinstance(term, SeparableTerm)
        for rows, columns in zip(*(scores.softmax(-1).type_as(x) for scores in term.along()), strict=True):
            summed = rows @ x.reshape(len(rows), -1)
            summed = summed.view(len(rows), len(columns), -1)
            yield columns.expand(len(rows), -1, -1).bmm(summed)  # matmul would transpose all of it

    def maps(self, x: Tensor, previous: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Returns probabilities (1 or B, K, T, S), and logits for the layer above."""
        mechanism, tokens = self.mechanism, x if self.reads_tokens else x[:, :1]
        inputs = Inputs(tokens, tokens, AttentionMasks(), self.heads, mechanism.scaling)
        inputs.v = tokens
        if self.q_proj is not None:
            inputs.q = split_heads(self.q_proj(x), self.heads)
        if self.k_proj is not None:
            inputs.k = split_heads(self.k_proj(x), self.heads)
        if mechanism.passes_logits and previous is not None:
            inputs.previous = mechanism.receive(previous, inputs)
        # Scores, combined with the logits of the layer below, transformed; softmax.
        scores = mechanism.scores(inputs)
        combined = mechanism.combine(scores, inputs)
        logits = mechanism.transform(combined, inputs)
        weights = mechanism.reweigh(mechanism.normalize(logits, inputs), inputs)
        if mechanism.recorded is not None:
            mechanism.recorded.update(own=scores, input=combined, logits=logits, probabilities=weights, masked=None)
        return weights, logits if mechanism.passes_logits else None


def by_pairs(weights: Tensor, x: Tensor) -> Iterator[Tensor]:
    """Yields P_h X of each head, (T, B, D), from probabilities (1 or B, K, T, S) and tokens (S, B, D)."""
    if len(weights) == 1:  # the same for all images
        tokens = x.flatten(1)
        return (of_head @ tokens for of_head in weights[0])
    images = x.transpose(0, 1)
    return ((of_head @ images).transpose(0, 1) for of_head in weights.unbind(1))
