"""Graphs: the folder that node_prediction reads has the tables that were given, checked and counted."""

import json

import pytest
import torch

from dataset_runs import assert_one_sentence, prepare, prepared
from ea_fairseq.graphs.description import GraphDescription
from ea_fairseq.graphs.graph import Graph
from graphs import build_network, draw_graph, outputs_of, write_graph
from needs import GRAPHS, needs_graphs


@pytest.mark.parametrize("place", ["graphs/toys", "graphs"])
def test_a_graph_of_ones_own_is_taken_as_it_is(tmp_path, place):
    folder = write_graph(tmp_path / place, draw_graph(1))
    prepared("planetoid", "--graphs", tmp_path / "graphs", "toys", tmp_path / "out")
    data = tmp_path / "out/data-bin"
    assert all((data / name).read_bytes() == (folder / name).read_bytes() for name in ("nodes.tsv", "edges.tsv"))
    manifest = json.loads((data / "manifest.json").read_text())
    assert manifest["graph"] == {"nodes": 12, "edges": len(draw_graph(1).edges), "features": 9, "classes": 3}
    assert {split: found["pairs"] for split, found in manifest["splits"].items()} == {"train": 4, "valid": 4, "test": 3}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["toys", "out"], "give the folder of the tables with --graphs"),
        (["--graphs", ".", "toys", "out"], "has no toys/nodes.tsv"),
        (["--graphs", "half", "toys", "out"], "has no edges.tsv"),
        (["--graphs", "whole", "cora", "out"], "nodes 12 instead of 2708"),
        (["--graphs", "wrong", "toys", "out"], "line 14: it has 1 columns instead of 4"),
    ],
)
def test_what_is_missing_or_wrong_is_named(tmp_path, monkeypatch, arguments, sentence):
    for name in ("half", "whole", "wrong"):
        write_graph(tmp_path / name, draw_graph(1))
    (tmp_path / "half/edges.tsv").unlink()
    with (tmp_path / "wrong/nodes.tsv").open("a") as file:
        file.write("12\n")
    given = [tmp_path / text if text in ("half", "whole", "wrong", "out", ".") else text for text in arguments]
    assert_one_sentence(prepare("planetoid", *given), sentence)


@needs_graphs
@pytest.mark.parametrize(("name", "empty"), [("cora", 0), ("citeseer", 15)])
def test_the_published_graphs_have_the_published_counts_and_finite_outputs(tmp_path, name, empty):
    prepared("planetoid", "--graphs", GRAPHS, name, tmp_path / "out")
    graph = Graph.read(tmp_path / "out/data-bin")
    assert sum(not indices for indices in graph.features) == empty
    with torch.no_grad():
        assert outputs_of(build_network("ea_gat", GraphDescription.of(graph)), graph).isfinite().all()
