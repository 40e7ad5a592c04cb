"""A graph of nodes with features, and the two tables that hold it: ``nodes.tsv`` and ``edges.tsv``."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.plain.split_folder import SPLITS

NODES, EDGES = "nodes.tsv", "edges.tsv"
COLUMNS = {NODES: ["node", "label", "split", "features"], EDGES: ["a", "b"]}
NONE = "-"  # a node without a label, or in no split
MOST = 1 << 22  # nodes, edges, or features
MAX_CLASSES = 10_000


@dataclass(frozen=True)
class Graph:
    """An undirected graph without loops.

    Args:
        features: for each of the N nodes, the indices of its features that are 1; all others are 0.
        edges: pairs of nodes, each pair once.
        labels: class of each node; -1 without one.
        splits: nodes of ``train``, ``valid`` and ``test``.

    Raises:
        UserError: naming the node or edge that is invalid.
    """

    features: Sequence[Sequence[int]]
    edges: Sequence[tuple[int, int]]
    labels: Sequence[int] = ()
    splits: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = len(self.features)
        if not nodes:
            raise UserError("a graph needs at least one node")
        for node, indices in enumerate(self.features):
            if not all(isinstance(index, int | np.integer) and 0 <= index < MOST for index in indices):
                raise UserError(f"features of node {node} must be indices from 0 to {MOST - 1:,}")
            if len({*indices}) != len(indices):
                raise UserError(f"node {node} has a feature twice")
        known: set[tuple[int, int]] = set()
        for a, b in self.edges:
            if not (0 <= a < nodes and 0 <= b < nodes):
                raise UserError(f"the edge {a} {b} needs nodes from 0 to {nodes - 1:,}")
            if a == b or (min(a, b), max(a, b)) in known:
                raise UserError(f"the edge {a} {b} {'joins a node to itself' if a == b else 'is there twice'}")
            known.add((min(a, b), max(a, b)))

    @classmethod
    def read(cls, folder: str | Path) -> "Graph":
        """Reads the two tables of a folder.

        ``nodes.tsv`` has a line ``node label split features`` for each node, from node 0 on: the label is a class from
        0 or ``-``, the split ``train``, ``valid``, ``test`` or ``-``, features are indices, separated by blanks.
        ``edges.tsv`` has a line ``a b`` for each edge, with a < b. Both have a header; columns are separated by tabs.

        Raises:
            UserError: naming the file that is missing, or the line that is malformed.
        """
        folder = Path(folder)
        features, labels = list[list[int]](), list[int]()
        splits: dict[str, list[int]] = {split: [] for split in SPLITS}
        for line, (node, label, split, indices) in rows(folder / NODES):
            with at_line(folder / NODES, line):
                if node != str(len(features)):
                    raise UserError(f"node {len(features)} is next, not {node:.20}")
                if split not in (*SPLITS, NONE):
                    raise UserError(f"the split must be {', '.join(SPLITS)} or {NONE}, not {split[:20]!r}")
                if label == NONE and split != NONE:
                    raise UserError(f"a node without label cannot be in {split}")
                labels.append(-1 if label == NONE else number(label, MAX_CLASSES))
                features.append([number(index, MOST) for index in indices.split()])
                if any(a >= b for a, b in zip(features[-1], features[-1][1:], strict=False)):
                    raise UserError("features must ascend")
                if split != NONE:
                    splits[split].append(len(features) - 1)
        edges, known = list[tuple[int, int]](), set[tuple[int, int]]()
        for line, (first, second) in rows(folder / EDGES):
            with at_line(folder / EDGES, line):
                edge = number(first, len(features)), number(second, len(features))
                if edge[0] >= edge[1] or edge in known:
                    raise UserError("an edge needs a < b, and must occur only once")
                known.add(edge)
                edges.append(edge)
        return cls(features, edges, labels, splits)

    @property
    def feature_count(self) -> int:
        """The highest index of a feature plus 1."""
        return 1 + max((max(indices) for indices in self.features if len(indices)), default=0)

    def inputs(self, features: int) -> dict[str, Tensor]:
        """Returns the tensors that models read.

        Args:
            features: F, the number of features that the model reads.

        Returns:
            ``features``, a sparse matrix (N, F) whose rows are divided by their sum, and ``edges`` (2, E), source and
            target of each edge: both directions of each edge and a loop at each node, in the order of their targets.
        """
        counts = np.array([*map(len, self.features)])
        rows = np.repeat(np.arange(len(counts)), counts)
        columns = np.array([index for indices in self.features for index in indices], dtype=np.int64)
        places = torch.from_numpy(np.stack([rows, columns]))
        values = torch.from_numpy((1 / np.maximum(counts, 1))[rows].astype(np.float32))
        loops = np.arange(len(counts))
        pairs = np.array(self.edges, dtype=np.int64).reshape(-1, 2).T
        edges = np.concatenate([pairs, pairs[::-1], np.stack([loops, loops])], axis=1)
        edges = edges[:, np.lexsort(edges)]  # by target, then by source
        size = (len(counts), features)
        return {
            "features": torch.sparse_coo_tensor(places, values, size, is_coalesced=True, check_invariants=False),
            "edges": torch.from_numpy(edges.copy()),
        }


@contextmanager
def at_line(path: Path, line: int) -> Iterator[None]:
    """Adds the file and the number of a line to a UserError."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{path}, line {line:,}: {error}") from None


def rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the number and the columns of each line after the header.

    Raises:
        UserError: naming the file, or the line that has other columns.
    """
    columns = COLUMNS[path.name]
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for line, text in enumerate(file, 1):
                found = text.rstrip("\r\n").split("\t")
                if line == 1 and found != columns:
                    raise UserError(f"{path}, line 1: the header must be {' '.join(columns)}, separated by tabs")
                if len(found) != len(columns):
                    raise UserError(f"{path}, line {line:,}: it has {len(found)} columns instead of {len(columns)}")
                if line > MOST:
                    raise UserError(f"{path} has more than {MOST:,} lines")
                if line > 1:
                    yield line, found
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is no text in UTF-8") from None


def number(text: str, limit: int) -> int:
    """Reads a whole number from 0 to ``limit`` - 1; raises UserError for any other text."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < limit):
        raise UserError(f"{text[:20]!r} must be a whole number from 0 to {limit - 1:,}")
    return int(text)
