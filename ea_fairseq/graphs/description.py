"""What a checkpoint records of the graph that its model was trained on, so that predictions need no data folder."""

from dataclasses import asdict, dataclass
from typing import Any, Self

from ea_fairseq.errors import UserError
from ea_fairseq.graphs.graph import MAX_CLASSES, MOST, Graph


@dataclass(frozen=True)
class GraphDescription:
    """Sizes of a graph.

    Args:
        features, classes: numbers of features that a model reads and classes that it predicts.
        nodes, edges, entries: numbers of nodes, of edges in both directions with loops, and of features of all nodes
            together, for which FLOPs are counted.
    """

    features: int
    classes: int
    nodes: int
    edges: int
    entries: int

    @classmethod
    def of(cls, graph: Graph) -> Self:
        """Measures a graph."""
        nodes, entries = len(graph.features), sum(map(len, graph.features))
        return cls(graph.feature_count, 1 + max(graph.labels), nodes, 2 * len(graph.edges) + nodes, entries)

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Reads the plain values of a checkpoint, which are not trusted.

        Raises:
            UserError: if values are missing or unknown, or no graph has such sizes.
        """
        try:
            found = cls(**state)
        except TypeError:
            raise UserError("its description of the graph is invalid") from None
        for name, size in asdict(found).items():
            if type(size) is not int or not 0 <= size <= MOST << 8:
                raise UserError(f"its graph cannot have {size!r:.40} {name}")
        if not (1 <= found.features <= MOST and 1 <= found.classes <= MAX_CLASSES):
            raise UserError("its graph must have features and classes")
        return found

    @property
    def outputs(self) -> int:
        """Number of outputs of a model, one for each class."""
        return self.classes
