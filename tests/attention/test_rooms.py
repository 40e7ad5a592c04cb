"""What layers and stacks leave room for, each shown by a class that nobody has published; others: made_up.py."""

import torch
from torch import nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term import Term
from ea_fairseq.kernels.masks import AttentionMasks
from ea_fairseq.models.layer import MechanismDecoderLayer, MechanismEncoderLayer
from ea_fairseq.terms.dot_product import DotProduct
from tiny import TINY, build


class GridContext(LayerContext):
    """A layer whose tokens are the cells of a grid, after some that are none."""

    rows, columns, leading = 3, 4, 1


class GridTerm(Term):
    """A learned number for each pair of distances, in rows and in columns; 0 for leading tokens."""

    def __init__(self, context: GridContext, width: int, heads: int):
        super().__init__()
        self.context = context
        self.weight = nn.Parameter(torch.randn(2 * context.rows - 1, 2 * context.columns - 1))

    def forward(self, inputs):
        """(T, S)"""
        queries, keys = (positions - self.context.leading for positions in inputs.positions)
        rows, columns = self.context.rows, self.context.columns
        down = keys.clamp(min=0) // columns - queries.clamp(min=0).unsqueeze(1) // columns
        right = keys.clamp(min=0) % columns - queries.clamp(min=0).unsqueeze(1) % columns
        on_grid = (queries >= 0).unsqueeze(1) & (keys >= 0)
        return self.weight[down + rows - 1, right + columns - 1].where(on_grid, 0.0)


@torch.no_grad()
def test_a_term_reads_a_grid():
    torch.manual_seed(1)
    context = GridContext("encoder", 0)
    term, tokens = GridTerm(context, 8, 2), torch.randn(13, 3, 8)
    attention = Attention(8, 2, terms=(DotProduct(), term), self_attention=True).eval()
    _, found, _ = attention(tokens, tokens, tokens)
    query, key = (getattr(attention, f"{part}_proj")(tokens).view(13, 3, 2, 4) for part in "qk")
    scores = torch.einsum("tbkd,sbkd->bkts", query, key) / 2
    for t in range(1, 13):
        for s in range(1, 13):
            (row, column), (other_row, other_column) = divmod(t - 1, 4), divmod(s - 1, 4)
            scores[..., t, s] += term.weight[other_row - row + 2, other_column - column + 3]
    torch.testing.assert_close(found, scores.softmax(-1).mean(1))


class Connections:
    """Two streams of tokens: a sub-layer reads their sum and writes to both, to each with its own weight."""

    def sublayer_input(self, norm, x):
        self.reads = getattr(self, "reads", 0) + 1
        return super().sublayer_input(norm, sum(x.chunk(2, dim=1)))

    def sublayer_output(self, norm, x, residual):
        first, second = residual.chunk(2, dim=1)
        return torch.cat([norm(first + 0.75 * x), norm(second + 0.25 * x)], dim=1)


class ConnectedEncoderLayer(Connections, MechanismEncoderLayer):
    """An encoder layer between two streams."""


class ConnectedDecoderLayer(Connections, MechanismDecoderLayer):
    """A decoder layer between two streams."""


@torch.no_grad()
def test_each_sub_layer_reads_and_writes_by_two_functions():
    """Attention maps, masks and the source are of sentences, whatever streams there are between sub-layers."""
    model = build("ea_transformer", **TINY)
    for stack, kind in ((model.encoder, ConnectedEncoderLayer), (model.decoder, ConnectedDecoderLayer)):
        for layer in stack.layers:
            layer.__class__ = kind
    masks, x = AttentionMasks(), torch.randn(5, 3, 8)
    two = torch.cat([x, torch.zeros_like(x)], dim=1)
    for layer in model.encoder.layers:
        two, *passed = layer(two, masks)
        assert two.shape == (5, 6, 8)
        assert passed[0].shape == (3, 2, 5, 5)
        assert layer.reads == 2
    source = sum(two.chunk(2, dim=1))
    for layer in model.decoder.layers:
        two, _, *passed = layer(two, source, masks, masks)
        assert two.shape == (5, 6, 8)
        assert layer.reads == 3
