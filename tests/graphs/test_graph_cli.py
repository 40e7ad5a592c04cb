"""fairseq's commands train models of graphs, stop by GAT's rule and go on; Python predicts by them."""

import json
import re

import pytest
import torch

from commands import PLUGIN, run_well
from ea_fairseq import EAGraph, EATimeSeries, UserError
from ea_fairseq.tasks.node_prediction import HEAD, NodePredictionConfig, NodePredictionTask
from forked import run_forked, run_forked_well
from graphs import build_network, draw_graph, write_graph
from hostile_watch import watching
from reversal import logged

COMMON = ["--user-dir", PLUGIN, "--cpu", "--task", "node_prediction", "--criterion", "sentence_prediction"]
COMMON += ["--optimizer", "adam", "--lr", "0.02", "--batch-size", "100", "--required-batch-size-multiple", "1"]
COMMON += ["--log-format", "json", "--no-epoch-checkpoints", "--seed", "1", "--best-checkpoint-metric", "both_best"]
COMMON += ["--maximize-best-checkpoint-metric"]


def command(folder, epochs, *flags, arch="ea_gat"):
    return ["fairseq-train", "graph", *COMMON, "--arch", arch, "--save-dir", folder, "--max-epoch", epochs, *flags]


@pytest.fixture(scope="module")
def graph():
    return draw_graph(1, nodes=30)


@pytest.fixture(scope="module")
def home(tmp_path_factory, graph):
    home = tmp_path_factory.mktemp("user")
    write_graph(home / "graph", graph)
    return home


@pytest.fixture(scope="module")
def log(home):
    return run_forked_well(*command("whole", 40, "--patience", "5", "--l2", "5e-4"), cwd=home)


def gats_rule(losses, accuracies, patience):
    """As GAT's authors wrote it: the epoch that counts, and the last one."""
    lowest, highest, waited, chosen = float("inf"), 0.0, 0, 0
    for epoch, (loss, accuracy) in enumerate(zip(losses, accuracies, strict=True), 1):
        if accuracy >= highest or loss <= lowest:
            if accuracy >= highest and loss <= lowest:
                chosen = epoch
            highest, lowest, waited = max(accuracy, highest), min(loss, lowest), 0
        else:
            waited += 1
            if waited == patience:
                return chosen, epoch
    return chosen, len(losses)


def test_training_stops_by_the_rule_of_gats_authors_and_keeps_its_epoch(home, log):
    losses, accuracies = (logged(log, f"valid_{name}") for name in ("loss", "accuracy"))
    chosen, last = gats_rule(losses, accuracies, 5)
    assert len(losses) == last
    state = torch.load(home / "whole/checkpoint_best.pt")
    assert state["extra_state"]["train_iterator"]["epoch"] == chosen + 1  # the next one


def test_a_resumed_training_is_the_same(home, log):
    flags = ["--patience", "5", "--l2", "5e-4"]
    run_forked_well(*command("parts", 4, *flags), cwd=home)
    rest = run_forked_well(*command("parts", 40, *flags), cwd=home)
    assert logged(rest, "valid_loss") == logged(log, "valid_loss")[4:]
    whole, parts = (torch.load(home / name / "checkpoint_best.pt") for name in ("whole", "parts"))
    assert whole["model"].keys() == parts["model"].keys()
    assert all(torch.equal(whole["model"][name], parts["model"][name]) for name in whole["model"])


def test_a_validation_is_one_batch_of_its_first_set(home, log):
    """Small batches, and a second validation set, change no number of the first."""
    flags = ["--patience", "5", "--l2", "5e-4", "--batch-size-valid", "2"]
    both = run_forked_well(*command("both", 4, *flags, "--valid-subset", "valid,test"), cwd=home)
    for name in ("valid_loss", "valid_both_best"):
        assert logged(both, name) == logged(log, name)[:4]
    assert '"test_both_best": "0"' in both


def test_l2_adds_its_gradient_for_each_node(home, graph):
    """Half the sum of squares, as often as there are nodes, because fairseq divides by them; not to the logged loss.

    A batch whose gradient fairseq ignores has none of it.
    """

    class Optimizer:
        backward = staticmethod(torch.Tensor.backward)

    gradients, losses = [], []
    for l2, ignored in ((0.0, False), (0.25, False), (0.25, True)):
        task = NodePredictionTask(NodePredictionConfig(data=str(home / "graph"), l2=l2))
        torch.manual_seed(1)
        model = build_network("gat", task.description)
        dataset = task.load_dataset("train")
        sample = dataset.collater([*range(len(dataset))])

        def criterion(model, sample):
            output, _ = model(**sample["net_input"], classification_head_name=HEAD)
            loss = output.square().sum()
            return loss, len(sample["target"]), {"loss": loss.data}

        torch.manual_seed(2)
        _, _, figures = task.train_step(sample, model, criterion, Optimizer(), 0, ignore_grad=ignored)
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
        losses.append(figures["loss"])
    assert losses[0] == losses[1]
    assert not any(gradient.any() for gradient in gradients[2].values())
    for (name, plain), parameter in zip(gradients[0].items(), model.parameters(), strict=True):
        torch.testing.assert_close(gradients[1][name], plain + len(dataset) * 0.25 * parameter.detach())


def test_a_trained_model_predicts_without_its_data(home, log, graph):
    with watching(home) as seen:
        model = EAGraph.from_pretrained(home / "whole")
        found = model.predict(graph)
    assert not seen
    assert type(model.model).from_pretrained(home / "whole").description == model.description
    assert len(found) == 30 and {one.label for one in found} <= {"0", "1", "2"}
    assert all(sum(one.probabilities.values()) == pytest.approx(1) for one in found)
    assert [one.label for one in model.predict(home / "graph")] == [one.label for one in found]
    right = [one.label == str(label) for one, label in zip(found, graph.labels, strict=True)]
    assert sum(right[node] for node in graph.splits["train"]) > len(graph.splits["train"]) / 2
    with pytest.raises(UserError, match="the graph has 20 features, and the model reads 9"):
        model.predict(draw_graph(1, features=20))
    with pytest.raises(UserError, match="it must be one checkpoint"):
        EAGraph.from_pretrained(home / "whole", "checkpoint_best.pt:checkpoint_last.pt")
    foreign = {**model.model.state_dict(), "encoder.layers.0.fc1.bias": torch.zeros(1)}
    with pytest.raises(UserError, match=r"the model has no encoder\.layers\.0\.fc1\.bias"):
        model.model.load_state_dict(foreign)
    with pytest.raises(UserError, match="predicts no series"):
        EATimeSeries.from_pretrained(home / "whole")


def test_the_attention_of_a_node_is_of_its_neighbours(home, log, graph, tmp_path):
    model = EAGraph.from_pretrained(home / "whole")
    node = max(range(30), key=lambda node: sum(node in edge for edge in graph.edges))
    near = {node, *(sum(edge) - node for edge in graph.edges if node in edge)}
    maps = model.attention(graph, node)
    assert [*maps] == ["encoder.layers.0.self_attn", "encoder.layers.1.self_attn"]
    for found in maps.values():
        row = found.probabilities[:, 0]
        torch.testing.assert_close(row.sum(-1), torch.ones(len(row)))
        assert {int(name) for name, weight in zip(found.keys, row[0].tolist(), strict=True) if weight > 0} == near
        torch.testing.assert_close(found.logits[:, 0].softmax(-1), row)
    assert f"node {node} and its neighbours" in maps.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert re.fullmatch(rf"Predicted class of node {node}: \d \(probability 0\.\d\d\)\.", maps.note)
    with pytest.raises(UserError, match="the graph has nodes from 0 to 29, and no 30"):
        model.attention(graph, 30)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--ea-kernel-size", "3"], "evolving attention reads more than single entries of a map, and the edges"),
        (["--l2", "-1"], "--l2 must be a number from 0 up, not -1.0"),
        (["--arch", "dc_transformer"], "--arch dc_transformer is for --task time_series_prediction"),
        (["--criterion", "cross_entropy"], "--task node_prediction needs --criterion sentence_prediction"),
        (["--graph-heads", "0"], "--graph-heads"),
        (["--classification-head-name", "other"], "--classification-head-name is not for nodes"),
        (["--regression-target"], "--regression-target is for numbers, and these nodes have classes"),
    ],
)
def test_bad_flags_end_with_a_sentence(flags, sentence, home):
    result = run_forked(*command("none", 1, *flags), cwd=home)
    assert result.returncode and sentence in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_evaluation_counts_the_accuracy_of_the_test_nodes(home, log, graph):
    run_well("ea-fairseq", "evaluate", "--cpu", "--checkpoint", "checkpoint_best.pt", "graph", "whole", cwd=home)
    results = json.loads((home / "whole/evaluation/results.json").read_text())
    found = EAGraph.from_pretrained(home / "whole").predict(graph)
    right = [found[node].label == str(graph.labels[node]) for node in graph.splits["test"]]
    assert results["scores"]["accuracy"]["score"] == pytest.approx(100 * sum(right) / len(right), abs=0.01)
    assert (results["family"], results["task"]) == ("ea_transformer", "node_prediction")
    assert results["parameters"] == 9 * 64 + 3 * 64 + 64 * 3 + 6 + 3 + 74
    entries, nodes, edges = sum(map(len, graph.features)), 30, 2 * len(graph.edges) + 30
    first = entries * 64 + 2 * nodes * 64 + edges * (64 + 64)
    second = nodes * 64 * 3 + 2 * nodes * 3 + edges * (1 + 3)
    assert results["flops"] == 2 * (first + second)
