"""Flags of graph attention networks; defaults are GAT's for Cora and Citeseer."""

from dataclasses import dataclass

from torch import Tensor

from ea_fairseq.options import Options, fraction, one_of, option, whole

MOST = 1 << 16


@dataclass(frozen=True)
class GraphOptions(Options):
    """Options of a graph attention network with any mechanism.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    graph_layers: int = option(2, whole(1, 1000), "layers", "a whole number from 1 to 1,000", "N")
    graph_heads: int = option(8, whole(1, MOST), "heads of all layers but the last", "a whole number above 0", "N")
    head_width: int = option(8, whole(1, MOST), "channels of each of these heads", "a whole number above 0", "N")
    output_heads: int = option(
        1, whole(1, MOST), "heads of the last layer, whose outputs are averaged", "a whole number above 0", "N"
    )
    dropout: float = option(0.6, fraction, "dropout of inputs and values", "a number from 0 to 1", "F")
    attention_dropout: float = option(0.6, fraction, "dropout of attention probabilities", "a number from 0 to 1", "F")
    ea_heads: str = option(
        "mean",
        one_of("mean", "mix"),
        "how a layer reads logits of the layer below that have another number of heads: their mean or a learned mix",
        "mean or mix",
        "HOW",
    )

    @classmethod
    def limits(cls, parameters: dict[str, Tensor]) -> dict[str, int]:
        """Returns upper limits of depth and widths, from a checkpoint's parameters."""
        largest = max((max(tensor.shape, default=1) for tensor in parameters.values()), default=1)
        return {
            "graph_layers": len(parameters),
            **dict.fromkeys(("graph_heads", "head_width", "output_heads"), largest),
        }
