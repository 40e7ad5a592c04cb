"""Graphs for tests: drawn ones, their tables, and networks for them."""

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

from ea_fairseq.graphs.description import GraphDescription
from ea_fairseq.graphs.graph import NONE, Graph
from ea_fairseq.plain.split_folder import SPLITS
from ea_fairseq.tasks.node_prediction import HEAD

ARCHS = ("gat", "ea_gat", "pa_gat", "realformer_gat", "talking_heads_gat")


def draw_graph(seed: int, nodes: int = 12, features: int = 9, classes: int = 3, share: float = 0.3) -> Graph:
    """A graph whose last node has neither features nor neighbours, and each split some of the others."""
    random = np.random.default_rng(seed)
    rows = [sorted(random.choice(features, random.integers(1, features), replace=False).tolist()) for _ in range(nodes)]
    rows[0], rows[-1] = list(range(features)), []
    pairs = [(a, b) for a in range(nodes - 1) for b in range(a + 1, nodes - 1) if random.random() < share]
    labels = [node % classes for node in range(nodes)]
    splits = {split: list(range(first, nodes - 1, 3)) for first, split in enumerate(SPLITS)}
    return Graph(rows, pairs, labels, splits)


def write_graph(folder: Path, graph: Graph) -> Path:
    """Writes both tables."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {node: split for split, nodes in graph.splits.items() for node in nodes}
    nodes = [
        f"{node}\t{label if label >= 0 else NONE}\t{names.get(node, NONE)}\t{' '.join(map(str, indices))}\n"
        for node, (label, indices) in enumerate(zip(graph.labels, graph.features, strict=True))
    ]
    (folder / "nodes.tsv").write_text("".join(["node\tlabel\tsplit\tfeatures\n", *nodes]))
    edges = sorted((min(edge), max(edge)) for edge in graph.edges)
    (folder / "edges.tsv").write_text("".join(["a\tb\n", *(f"{a}\t{b}\n" for a, b in edges)]))
    return folder


def build_network(arch: str, description: GraphDescription, **options: object) -> torch.nn.Module:
    """A network with its last layer, in evaluation mode."""
    args = Namespace(arch=arch, **options)
    ARCH_CONFIG_REGISTRY[arch](args)
    model = ARCH_MODEL_REGISTRY[arch].build_model(args, SimpleNamespace(description=description))
    model.register_classification_head(HEAD, description.classes)
    return model.eval()


def outputs_of(model: torch.nn.Module, graph: Graph) -> torch.Tensor:
    """Logits of the classes of all nodes (N, C)."""
    inputs = graph.inputs(model.description.features)
    inputs["features"] = inputs["features"].to(next(model.parameters()).dtype)
    return model(**inputs, classification_head_name=HEAD)[0]
