"""Attention over the edges of a graph: Velickovic et al., Graph Attention Networks, ICLR 2018 ("GAT").

A map has an entry for each head and edge, (1, K, 1, E). A mechanism whose steps treat each entry by itself works on
such maps as on those of sentences (Wang et al., Convolution-enhanced Evolving Attention Networks, 2022, section 3.4).
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.masks import AttentionMasks

SLOPE = 0.2  # of the leaky ReLU, GAT section 2.1
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")


class EdgeSizes(NamedTuple):
    """Sizes of an attention over edges.

    Args:
        inputs: channels of a node.
        heads: K.
        width: d, channels of a head.
        below: heads of the attention of the layer below, 0 if there is none.
    """

    inputs: int
    heads: int
    width: int
    below: int = 0


class EdgeAttention(nn.Module):
    """GAT's attention, with the steps of a mechanism between scores and softmax.

    Args:
        kind: the mechanism's class.
        options: the mechanism's options.
        learns_mix: whether a learned projection, instead of the mean, mixes the heads of a layer below that has
            another number of them.
        dropout: of inputs and of values.
        attention_dropout: of probabilities.

    Raises:
        UserError: if the mechanism reads more than one entry of a map, because edges have no neighbours in a map.
    """

    def __init__(
        self,
        kind: type[Attention],
        options: Any,
        context: LayerContext,
        sizes: EdgeSizes,
        learns_mix: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ):
        super().__init__()
        if kind is not Attention and not kind.fits_edges(options):
            raise UserError(
                f"{kind.title} reads more than single entries of a map, and the edges of a graph have no order: give "
                "kernels of 1x1, or another mechanism"
            )
        heads, width = sizes.heads, sizes.width
        self.heads, self.width = heads, width
        self.weight = nn.Parameter(torch.empty(sizes.inputs, heads * width))
        self.source, self.target = (nn.Parameter(torch.empty(heads, width)) for _ in range(2))
        self.dropout, self.attention_dropout = nn.Dropout(dropout), nn.Dropout(attention_dropout)
        # The mechanism, without the projections of tokens.
        self.mechanism = kind.build(options, context, heads, heads)
        for name in PROJECTIONS:
            setattr(self.mechanism, name, None)
        is_mixed = self.mechanism.passes_logits and sizes.below not in (0, heads)
        self.mix = nn.Linear(sizes.below, heads) if is_mixed and learns_mix else None
        fans = {self.weight: sizes.inputs + width, self.source: width + 1, self.target: width + 1}
        for parameter, fan in fans.items():
            bound = math.sqrt(6 / fan)  # Glorot and Bengio, 2010, for each head by itself
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: Tensor, edges: Tensor, previous: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Attends from each node to its neighbours and itself; autocast rounds nothing.

        Args:
            x: (N, C), dense or sparse.
            edges: (2, E), source and target of each.
            previous: logits (1, K', 1, E) that the layer below passes on.

        Returns:
            Outputs (N, K, d), and logits (1, K, 1, E) for the layer above, or None if the mechanism passes none on.
        """
        with torch.autocast(x.device.type, enabled=False):
            (sources, targets), mechanism = edges, self.mechanism
            # h = W x, heads side by side.
            h = self.project(x).view(-1, self.heads, self.width)
            # own_ij = LeakyReLU(a_source . h_j + a_target . h_i) for each edge j -> i (GAT eq. 3).
            halves = ((h * self.source).sum(-1)[sources], (h * self.target).sum(-1)[targets])
            scores = F.leaky_relu(halves[0] + halves[1], SLOPE).T[None, :, None]
            # Take the logits of the layer below, with as many heads as here.
            inputs = Inputs(scores, scores, AttentionMasks(), self.heads, 1.0)
            if mechanism.passes_logits and previous is not None:
                inputs.previous = mechanism.receive(self.mixed(previous), inputs)
            # Combine with them, transform, and take the softmax over the edges of each target.
            combined = mechanism.combine(scores, inputs)
            logits = mechanism.transform(combined, inputs)
            weights = mechanism.reweigh(softmax(logits, targets, len(h)), inputs)
            if mechanism.recorded is not None:
                mechanism.recorded.update(own=scores, input=combined, logits=logits, probabilities=weights, masked=None)
            # Sum of the neighbours' values, weighted (GAT eq. 4).
            weights = self.attention_dropout(weights)[0, :, 0].T.unsqueeze(-1)
            output = torch.zeros_like(h).index_add(0, targets, weights * self.dropout(h)[sources])
            return output, logits if mechanism.passes_logits else None

    def project(self, x: Tensor) -> Tensor:
        """Returns W x, (N, K d), with dropout of the inputs; in a sparse matrix only stored values are dropped."""
        if not x.is_sparse:
            return self.dropout(x) @ self.weight
        values = self.dropout(x.values())
        x = torch.sparse_coo_tensor(x.indices(), values, x.shape, is_coalesced=True, check_invariants=False)
        return torch.sparse.mm(x, self.weight)

    def mixed(self, logits: Tensor) -> Tensor:
        """Returns the logits of the layer below, (1, K, 1, E): their mean or a mix if its number of heads differs."""
        if logits.size(1) == self.heads:
            return logits
        if self.mix is None:
            return logits.mean(dim=1, keepdim=True).expand(-1, self.heads, -1, -1)
        return self.mix(logits.transpose(1, 3)).transpose(1, 3)


def softmax(logits: Tensor, targets: Tensor, nodes: int) -> Tensor:
    """Softmax of logits (1, K, 1, E) over the edges of each target (E,), a node from 0 to ``nodes`` - 1."""
    entries = logits[0, :, 0]
    index = targets.expand_as(entries)
    highest = entries.new_full((len(entries), nodes), -torch.inf).scatter_reduce(1, index, entries.detach(), "amax")
    powers = (entries - highest.gather(1, index)).exp()
    sums = powers.new_zeros(len(entries), nodes).scatter_add(1, index, powers)
    return (powers / sums.gather(1, index))[None, :, None]
