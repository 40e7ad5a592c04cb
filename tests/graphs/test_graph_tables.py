"""The tables of a graph are read whole, or refused with the line that is wrong."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ea_fairseq.errors import UserError
from ea_fairseq.graphs.description import GraphDescription
from ea_fairseq.graphs.graph import Graph
from ea_fairseq.plain.descriptions import plain_values
from graphs import draw_graph, write_graph

NODES = ["node\tlabel\tsplit\tfeatures", "0\t1\ttrain\t0 3", "1\t0\tvalid\t", "2\t-\t-\t2"]
EDGES = ["a\tb", "0\t1", "1\t2"]
WRONG = {
    "nodes.tsv, line 1: the header must be node label split features": (0, 0, "node\tlabel"),
    "nodes.tsv, line 2: node 0 is next, not 1": (0, 1, "1\t1\ttrain\t0 3"),
    "nodes.tsv, line 3: 'x' must be a whole number from 0 to 9,999": (0, 2, "1\tx\tvalid\t"),
    "nodes.tsv, line 3: a node without label cannot be in valid": (0, 2, "1\t-\tvalid\t"),
    "nodes.tsv, line 4: the split must be train, valid, test or -, not 'dev'": (0, 3, "2\t0\tdev\t2"),
    "nodes.tsv, line 4: features must ascend": (0, 3, "2\t-\t-\t2 2"),
    "nodes.tsv, line 4: '-1' must be a whole number from 0 to 4,194,303": (0, 3, "2\t-\t-\t-1"),
    "nodes.tsv, line 3: it has 3 columns instead of 4": (0, 2, "1\t0\tvalid"),
    "edges.tsv, line 2: an edge needs a < b, and must occur only once": (1, 1, "1\t0"),
    "edges.tsv, line 3: an edge needs a < b, and must occur only once": (1, 2, "0\t1"),
    "edges.tsv, line 3: '3' must be a whole number from 0 to 2": (1, 2, "1\t3"),
    "edges.tsv, line 2: '²' must be a whole number from 0 to 2": (1, 1, "0\t²"),
}


def write(folder, nodes=NODES, edges=EDGES):
    for name, lines in (("nodes.tsv", nodes), ("edges.tsv", edges)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def test_tables_are_read_as_they_stand(tmp_path):
    graph = Graph.read(write(tmp_path))
    assert graph == Graph([[0, 3], [], [2]], [(0, 1), (1, 2)], [1, 0, -1], {"train": [0], "valid": [1], "test": []})
    assert GraphDescription.of(graph) == GraphDescription(features=4, classes=2, nodes=3, edges=7, entries=3)
    inputs = graph.inputs(4)
    dense = torch.tensor([[0.5, 0, 0, 0.5], [0, 0, 0, 0], [0, 0, 1, 0]])
    assert torch.equal(inputs["features"].to_dense(), dense)
    assert inputs["edges"].tolist() == [[0, 1, 0, 1, 2, 1, 2], [0, 0, 1, 1, 1, 2, 2]]


@given(st.integers(0, 10_000))
def test_what_is_written_is_read(tmp_path_factory, seed):
    graph = draw_graph(seed)
    folder = write_graph(tmp_path_factory.mktemp("graph"), graph)
    assert Graph.read(folder) == graph
    sources, targets = graph.inputs(9)["edges"].tolist()
    pairs = set(zip(sources, targets, strict=True))
    assert len(pairs) == len(sources) == 2 * len(graph.edges) + 12
    assert {pair[::-1] for pair in pairs} == pairs and targets == sorted(targets)


@pytest.mark.parametrize(("sentence", "change"), WRONG.items(), ids=WRONG)
def test_a_wrong_line_is_named(sentence, change, tmp_path):
    table, line, text = change
    tables = [list(NODES), list(EDGES)]
    tables[table][line] = text
    write(tmp_path, *tables)
    with pytest.raises(UserError) as refusal:
        Graph.read(tmp_path)
    assert sentence in str(refusal.value)


def test_missing_and_binary_files_are_named(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*nodes\.tsv: No such file"):
        Graph.read(tmp_path)
    write(tmp_path)
    (tmp_path / "edges.tsv").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"edges\.tsv is no text in UTF-8"):
        Graph.read(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([], []), "at least one node"),
        (([[0, 0]], []), "node 0 has a feature twice"),
        (([[-1]], []), "features of node 0 must be indices"),
        (([[0], [1]], [(0, 2)]), "the edge 0 2 needs nodes from 0 to 1"),
        (([[0], [1]], [(1, 1)]), "the edge 1 1 joins a node to itself"),
        (([[0], [1]], [(0, 1), (1, 0)]), "the edge 1 0 is there twice"),
    ],
)
def test_a_graph_of_ones_own_is_checked(arguments, sentence):
    with pytest.raises(UserError, match=sentence):
        Graph(*arguments)


NO_DESCRIPTIONS = {"features": 0}, {"classes": 1 << 40}, {"nodes": "7"}, {"edges": True}, {"more": 1}, {"nodes": -1}


@pytest.mark.parametrize("change", NO_DESCRIPTIONS, ids=str)
def test_a_description_from_a_checkpoint_is_not_trusted(change):
    state = plain_values(GraphDescription.of(draw_graph(1)))
    assert plain_values(GraphDescription.from_state(state)) == state
    with pytest.raises(UserError, match=r"its graph|description"):
        GraphDescription.from_state(state | change)
