"""Attention over edges equals dense attention with a mask of non-edges, and has the laws of a graph."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.graphs.description import GraphDescription
from ea_fairseq.graphs.graph import Graph
from ea_fairseq.mechanisms.evolving import EvolvingAttention
from ea_fairseq.tasks.node_prediction import HEAD
from graphs import ARCHS, build_network, draw_graph, outputs_of

CORA, CITESEER = GraphDescription(1433, 7, 2708, 13264, 49216), GraphDescription(3703, 6, 3327, 12431, 105165)
SIZES = {"graph_heads": 4, "head_width": 3}
ROUNDING = 1e-10  # float64, sums of tens of terms of order one


def network(arch: str, graph: Graph, **options: object) -> torch.nn.Module:
    torch.manual_seed(1)
    model = build_network(arch, GraphDescription.of(graph), **(SIZES | options)).double()
    for parameter in model.parameters():  # biases, too
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def dense_layer(layer: torch.nn.Module, x: Tensor, edge: Tensor, previous: Tensor | None, arch: str) -> tuple:
    """A layer on whole maps (K, N, N), in the papers' words; ``edge`` (N, N) is true where j is a neighbour of i."""
    parameters = {name: tensor.detach() for name, tensor in layer.named_parameters()}
    h = torch.stack([x @ weight for weight in parameters["weight"].split(layer.width, dim=1)])
    rows = [
        [F.leaky_relu(source @ h_k.T + (h_i @ target), 0.2) for h_i in h_k]
        for h_k, source, target in zip(h, parameters["source"], parameters["target"], strict=True)
    ]
    own = torch.stack([torch.stack(row) for row in rows])
    if previous is not None and len(previous) != len(own):
        weight, bias = parameters.get("mix.weight"), parameters.get("mix.bias")
        mean = previous.mean(dim=0, keepdim=True).expand(len(own), -1, -1)
        previous = mean if weight is None else torch.tensordot(weight, previous, 1) + bias[:, None, None]
    logits = own
    if arch == "realformer_gat" and previous is not None:
        logits = own + previous
    if arch == "pa_gat" and previous is not None:
        weight, bias = parameters["mechanism.convs.0.weight"][..., 0, 0], parameters["mechanism.convs.0.bias"]
        predicted = F.relu(torch.tensordot(weight, previous, 1) + bias[:, None, None])
        logits = 0.9 * own + 0.1 * predicted
    if arch == "ea_gat":
        weight, bias = parameters["mechanism.conv.weight"][..., 0, 0], parameters["mechanism.conv.bias"]
        mix = own if previous is None else 0.5 * previous + 0.5 * own
        logits = 0.1 * F.relu(torch.tensordot(weight, mix, 1) + bias[:, None, None]) + 0.9 * mix
    if arch == "talking_heads_gat":
        logits = torch.tensordot(parameters["mechanism.mix_logits"], own, 1)
    weights = logits.masked_fill(~edge, -torch.inf).softmax(dim=-1)
    if arch == "talking_heads_gat":
        weights = torch.tensordot(parameters["mechanism.mix_weights"], weights, 1)
    return weights @ h, logits


def dense(model: torch.nn.Module, graph: Graph, arch: str) -> Tensor:
    nodes, x = len(graph.features), torch.zeros(len(graph.features), model.description.features, dtype=torch.float64)
    for node, indices in enumerate(graph.features):
        x[node, indices] = torch.tensor(1 / max(1, len(indices)), dtype=torch.float32).double()
    edge = torch.eye(nodes, dtype=torch.bool)
    for a, b in graph.edges:
        edge[a, b] = edge[b, a] = True
    previous = None
    for layer, bias in zip(model.layers, model.biases, strict=True):
        outputs, previous = dense_layer(layer, x, edge, previous, arch)
        x = F.elu(torch.cat([*outputs], dim=1) + bias)
    outputs, _ = dense_layer(model.classification_heads[HEAD], x, edge, previous, arch)
    return outputs.mean(dim=0) + model.output_bias


PASS_LOGITS = ("ea_gat", "pa_gat", "realformer_gat")
NETWORKS = [
    *product(ARCHS, [{}, {"output_heads": 4, "graph_layers": 3}]),
    *((arch, {"ea_heads": "mix"}) for arch in PASS_LOGITS),
]


@pytest.mark.parametrize(("arch", "options"), NETWORKS, ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_sparse_equals_dense_with_a_mask(arch, options, seed):
    graph = draw_graph(seed)
    model = network(arch, graph, **options)
    with torch.no_grad():
        torch.testing.assert_close(outputs_of(model, graph), dense(model, graph, arch), rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("arch", ARCHS)
def test_autocast_rounds_nothing(arch):
    graph, found = draw_graph(2), []
    for enabled in (False, True):
        torch.manual_seed(1)
        model = build_network(arch, GraphDescription.of(graph)).train()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            torch.manual_seed(2)
            outputs = outputs_of(model, graph)
        outputs.square().mean().backward()
        found.append([outputs, *(parameter.grad for parameter in model.parameters())])
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("arch", ARCHS)
def test_permuted_nodes_and_edges_permute_the_outputs(arch):
    graph, order = draw_graph(3), torch.randperm(12, generator=torch.Generator().manual_seed(1)).tolist()
    place = {node: number for number, node in enumerate(order)}
    edges = [(place[b], place[a]) for a, b in reversed(graph.edges)]
    moved = Graph([graph.features[node] for node in order], edges, [graph.labels[node] for node in order])
    model = network(arch, graph)
    with torch.no_grad():
        torch.testing.assert_close(outputs_of(model, moved), outputs_of(model, graph)[order], rtol=0, atol=ROUNDING)


def test_without_alpha_and_beta_it_is_gat_to_the_last_bit():
    graph, models = draw_graph(4), []
    for arch, options in (("gat", {}), ("ea_gat", {"ea_alpha": 0.0, "ea_beta": 0.0})):
        torch.manual_seed(1)
        models.append(build_network(arch, GraphDescription.of(graph), **options).train())
    outputs = []
    for model in models:
        torch.manual_seed(2)
        outputs.append(outputs_of(model, graph))
        outputs[-1].square().sum().backward()
    assert torch.equal(*outputs)
    gradients = [[parameter.grad for parameter in model.parameters()] for model in models]
    assert all(map(torch.equal, *gradients)) and len(gradients[0]) == 8


@pytest.mark.parametrize("arch", ARCHS[:-1])  # talking heads mix probabilities afterwards
def test_a_node_without_neighbours_reads_itself_alone_and_one_without_features_is_finite(arch):
    graph = draw_graph(5)
    model = network(arch, graph)
    mechanism = model.layers[0].mechanism
    mechanism.recorded = {}
    with torch.no_grad():
        assert outputs_of(model, graph).isfinite().all()
    targets = graph.inputs(model.description.features)["edges"][1]
    weights = mechanism.recorded["probabilities"][0, :, 0]
    assert (targets == 11).sum() == 1 and (weights[:, targets == 11] == 1).all()
    sums = torch.zeros(len(weights), 12, dtype=weights.dtype).index_add(1, targets, weights)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=ROUNDING)


def test_gradients_agree_with_finite_differences():
    graph = draw_graph(6, nodes=6, features=4)
    model = network("ea_gat", graph, graph_heads=2, head_width=2)
    names, values = zip(*model.named_parameters(), strict=True)
    inputs = graph.inputs(4)
    inputs["features"] = inputs["features"].double()

    def outputs(*parameters: Tensor) -> Tensor:
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(model, given, (), {**inputs, "classification_head_name": HEAD})[0]

    assert torch.autograd.gradcheck(outputs, values)


def test_kernels_that_read_neighbours_are_refused():
    for arch, flag in (("ea_gat", "ea_kernel_size"), ("pa_gat", "pa_kernel_size")):
        with pytest.raises(UserError, match="the edges of a graph have no order: give kernels of 1x1"):
            build_network(arch, CORA, **{flag: 3})


def test_a_mix_of_logits_is_refused_where_no_layer_passes_any_on():
    for arch in {*ARCHS}.difference(PASS_LOGITS):
        with pytest.raises(UserError, match=r"^no layer passes logits on for --ea-heads to act on$"):
            build_network(arch, CORA, ea_heads="mix")


def test_neighbours_in_a_map_of_edges_depend_on_their_order(monkeypatch):
    """Why larger kernels are refused: with 3x3 the law of permutations does not hold."""
    monkeypatch.setattr(EvolvingAttention, "is_entrywise", lambda options: True)
    graph = draw_graph(3)
    model = network("ea_gat", graph, ea_kernel_size=3)
    order = [*range(1, 12), 0]
    place = {node: number for number, node in enumerate(order)}
    moved = Graph([graph.features[node] for node in order], [(place[a], place[b]) for a, b in graph.edges])
    with torch.no_grad():
        assert (outputs_of(model, moved) - outputs_of(model, graph)[order]).abs().max() > 1e-6


@pytest.mark.parametrize(("description", "size"), [(CORA, 92_373), (CITESEER, 237_586)], ids=["Cora", "Citeseer"])
def test_networks_have_the_published_numbers_of_parameters(description, size):
    added = {"gat": 0, "ea_gat": 74, "realformer_gat": 0, "pa_gat": 2, "talking_heads_gat": 2 * (64 + 1)}
    for arch, more in added.items():
        model = build_network(arch, description)
        assert sum(parameter.numel() for parameter in model.parameters()) == size + more
    mixed = build_network("ea_gat", description, ea_heads="mix")
    assert sum(parameter.numel() for parameter in mixed.parameters()) == size + 74 + 9
    wide = build_network("gat", CORA, output_heads=8)
    assert sum(parameter.numel() for parameter in wide.parameters()) == 92_373 - 469 + 3_703
