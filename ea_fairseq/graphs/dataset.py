"""Nodes of a graph as examples; each batch has the whole graph."""

import numpy as np
import torch
from fairseq.data import FairseqDataset
from torch import Tensor

from ea_fairseq.graphs.graph import Graph


class NodeDataset(FairseqDataset):
    """Some nodes of a graph, with their classes.

    Args:
        graph: the graph, which is read whole for each batch.
        nodes: examples, by their numbers in the graph.
        features: F, the number of features that the model reads.
    """

    def __init__(self, graph: Graph, nodes: list[int], features: int):
        self.inputs: dict[str, Tensor] = graph.inputs(features)
        self.nodes, self.labels = torch.tensor(nodes), torch.tensor([graph.labels[node] for node in nodes])
        self.sizes = np.ones(len(nodes), dtype=np.int64)

    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return len(self.nodes)

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

    def num_tokens(self, index: int) -> int:
        """Returns 1, by which ``--max-tokens`` counts nodes."""
        return 1

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        """Returns the same for several nodes."""
        return self.sizes[indices]

    def size(self, index: int) -> int:
        """Returns 1."""
        return 1
