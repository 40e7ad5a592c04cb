"""Nodes of a graph as examples; each batch has the whole graph."""

import numpy as np
import torch
from torch import Tensor

from ea_fairseq.examples import Examples
from ea_fairseq.graphs.graph import Graph


class NodeDataset(Examples):
    """Some nodes of a graph, with their classes; each has the size 1.

    Args:
        graph: the graph, which is read whole for each batch.
        nodes: examples, by their numbers in the graph.
        features: F, the number of features that the model reads.
    """

    def __init__(self, graph: Graph, nodes: list[int], features: int):
        super().__init__(np.ones(len(nodes), dtype=np.int64), shuffle=False)
        self.inputs: dict[str, Tensor] = graph.inputs(features)
        self.nodes, self.labels = torch.tensor(nodes), torch.tensor([graph.labels[node] for node in nodes])

    def __getitem__(self, index: int) -> int:
        return index

    def collater(self, samples: list[int]) -> dict:
        """Returns a batch: ``net_input`` has the graph and ``nodes`` (B,), and ``target`` (B,) their classes."""
        if not samples:
            return {}
        chosen = torch.tensor(samples)
        return {
            "id": chosen,
            "nsentences": len(samples),
            "ntokens": len(samples),
            "net_input": {**self.inputs, "nodes": self.nodes[chosen]},
            "target": self.labels[chosen],
        }
