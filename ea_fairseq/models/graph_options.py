"""Flags of graph attention networks; defaults are GAT's for Cora and Citeseer."""

from dataclasses import dataclass

from ea_fairseq.options import DEPTH, FRACTION, SIZE, Options, one_of, option


@dataclass(frozen=True)
class GraphOptions(Options):
    """Options of a graph attention network with any mechanism.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    graph_layers: int = option(2, DEPTH, "layers")
    graph_heads: int = option(8, SIZE, "heads of all layers but the last")
    head_width: int = option(8, SIZE, "channels of each of these heads")
    output_heads: int = option(1, SIZE, "heads of the last layer, whose outputs are averaged")
    dropout: float = option(0.6, FRACTION, "dropout of inputs and values")
    attention_dropout: float = option(0.6, FRACTION, "dropout of attention probabilities")
    ea_heads: str = option(
        "mean",
        one_of("mean", "mix", metavar="HOW"),
        "how a layer reads logits of the layer below that have another number of heads: their mean or a learned mix",
    )
