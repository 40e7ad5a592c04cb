"""Trained models of graphs in Python: classes of nodes, and the attention of a node to its neighbours."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from ea_fairseq.attention.edges import EdgeAttention
from ea_fairseq.attention.maps import STAGES, AttentionMaps
from ea_fairseq.attention.recording import recording
from ea_fairseq.errors import UserError
from ea_fairseq.graphs.graph import Graph
from ea_fairseq.hub.maps import AttentionByName
from ea_fairseq.hub.prediction import Prediction
from ea_fairseq.hub.single_model import SingleModel
from ea_fairseq.tasks.node_prediction import NodePredictionTask
from ea_fairseq.tasks.prediction import HEAD

SHOWN = 30  # maximum number of nodes in a neighbourhood


class EAGraph(SingleModel):
    """A trained model, with the description of its graph from its checkpoint; it needs no data folder."""

    task_name, task_class, noun = "node_prediction", NodePredictionTask, "graphs"

    @torch.no_grad()
    def predict(self, graph: Graph | str | Path) -> list[Prediction]:
        """Predicts the class of each node of a graph.

        Args:
            graph: an :class:`ea_fairseq.graphs.graph.Graph`, or a folder with its tables.

        Raises:
            UserError: if the graph has more features than the model reads.
        """
        return list(map(prediction, self.outputs(self.read(graph))))

    @torch.no_grad()
    def representations(self, graph: Graph | str | Path) -> Tensor:
        """Returns the last layer's input for each node, (N, channels) on the CPU; see :meth:`predict`."""
        return self.outputs(self.read(graph), head=None)

    @torch.no_grad()
    def attention(self, graph: Graph | str | Path, node: int) -> AttentionByName:
        """Returns the attention between a node, its neighbours and their neighbours, nearest first, at most 30 nodes.

        A row sums to 1 only if all neighbours of its node are among them, as the first node's usually are.

        Returns:
            The maps, on the CPU, named as an encoder's: ``encoder.layers.0.self_attn``. Queries and keys are nodes; a
            key without an edge to the query is masked. Their note is a sentence with the prediction.

        Raises:
            UserError: if there is no such node, or as :meth:`predict` does.
        """
        graph = self.read(graph)
        if not 0 <= node < len(graph.features):
            raise UserError(f"the graph has nodes from 0 to {len(graph.features) - 1:,}, and no {node:,}")
        edges = graph.inputs(self.description.features)["edges"]
        shown = neighbourhood(edges, node)
        with recording(self.model) as records:
            found = prediction(self.outputs(graph)[node])
        heads = max(module.heads for module in self.model.modules() if isinstance(module, EdgeAttention))
        names, maps = list(map(str, shown)), {}
        for layer, record in enumerate(records.values()):
            maps[f"encoder.layers.{layer}.self_attn"] = AttentionMaps.from_record(
                dense(record, edges, shown, heads), names, names
            )
        note = f"Predicted class of node {node}: {found.label} (probability {found.probabilities[found.label]:.2f})."
        texts = (f"node {node} and its neighbours",)
        return AttentionByName(maps, texts=texts, model=self.model.args.arch, note=note, unit="node")

    def outputs(self, graph: Graph, head: str | None = HEAD) -> Tensor:
        """Returns the logits (N, C) of all nodes on the CPU or, without a head, the head's input (N, channels)."""
        device = next(self.model.parameters()).device
        inputs = {name: tensor.to(device) for name, tensor in graph.inputs(self.description.features).items()}
        return self.model(**inputs, classification_head_name=head)[0].double().cpu()

    def read(self, graph: Graph | str | Path) -> Graph:
        """Returns a graph that the model can read; raises UserError if it has too many features."""
        graph = graph if isinstance(graph, Graph) else Graph.read(graph)
        if graph.feature_count > self.description.features:
            most = self.description.features
            raise UserError(f"the graph has {graph.feature_count:,} features, and the model reads {most:,}")
        return graph


def prediction(outputs: Tensor) -> Prediction:
    """Converts a node's logits (C,) into a prediction."""
    return Prediction.of(outputs, map(str, range(len(outputs))))


def neighbourhood(edges: Tensor, node: int) -> list[int]:
    """Returns a node, its neighbours, then their neighbours, up to 30 nodes."""
    sources, targets = edges

    def reached() -> Iterator[int]:
        yield node
        near = sources[targets == node].tolist()
        yield from near
        for one in near:
            yield from sources[targets == one].tolist()

    return list(dict.fromkeys(reached()))[:SHOWN]


def dense(record: dict[str, Tensor | None], edges: Tensor, shown: list[int], heads: int) -> dict[str, Tensor | None]:
    """Converts a record of edges (1, K', 1, E) to maps (1, K, n, n) of some nodes; ``masked`` is true without an edge.

    A page shows the same number of heads K for all layers, so heads of a layer with fewer are repeated.
    """
    places = torch.full((1 + int(edges.max()),), -1)
    places[shown] = torch.arange(len(shown))
    sources, targets = places[edges]
    inside = (sources >= 0) & (targets >= 0)
    found: dict[str, Tensor | None] = {}
    for stage in STAGES:
        entries = record[stage]
        assert entries is not None  # each attention records all stages
        repeated = entries[:, torch.arange(heads) * entries.size(1) // heads, 0]
        maps = found[stage] = entries.new_zeros(1, heads, len(shown), len(shown))
        maps[:, :, targets[inside], sources[inside]] = repeated[:, :, inside]
    masked = torch.ones(1, 1, len(shown), len(shown), dtype=torch.bool)
    masked[:, :, targets[inside], sources[inside]] = False
    return found | {"masked": masked}
