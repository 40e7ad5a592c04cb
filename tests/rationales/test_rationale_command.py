"""`ea-fairseq rationales`: what it writes and prints, and how it goes on where it was interrupted."""

import json
import logging
import sys
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ea_fairseq.data.documents import read_documents
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.rationales import command, evaluation
from ea_fairseq.experiments.rationales.metrics import auprc
from ea_fairseq.experiments.rationales.options import ALWAYS, CHOICES
from ea_fairseq.experiments.rationales.results import RationaleResults
from ea_fairseq.experiments.rationales.sources import SOURCES
from ea_fairseq.experiments.sample import drawn
from ea_fairseq.experiments.scoring import evaluate
from rationales import POOLED, drawn_document, save_classifier, write_documents

SIZES = (5, 23, 40)
EVOLVING, PLAIN = "evolving", "plain"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    save_classifier(home / EVOLVING)
    save_classifier(home / PLAIN, "roberta", seed=2)
    write_documents(home / "test.jsonl", [drawn_document(words, words) for words in SIZES])
    return home


@pytest.fixture
def show(home, monkeypatch, capsys):
    """Runs the command in its folder; returns what it prints."""
    monkeypatch.chdir(home)

    def run(*words) -> str:
        monkeypatch.setattr(sys, "argv", ["rationales", *map(str, words)])
        monkeypatch.setattr(logging, "disable", lambda level: None)
        with warnings.catch_warnings():
            command.main()
        return capsys.readouterr().out

    return run


def table_of(printed: str) -> str:
    """The table of what the command printed."""
    return printed[printed.index("\nroberta: F1 ") : printed.index("\nrandom: ")]


def test_every_source_has_a_name_for_the_command_line():
    assert {*SOURCES} == {*CHOICES, *ALWAYS}


def test_two_models_are_explained_by_each_source(show, home, tmp_path):
    sources = ["attention", "lime", *ALWAYS]
    printed = show(EVOLVING, "test.jsonl", "--compare", PLAIN, "--source", "attention,lime", "--lime-samples", "20",
                   "--draws", "3", "--out", tmp_path)  # fmt: skip
    found = json.loads((tmp_path / "rationales.json").read_text())
    assert found["count"] == found["drawn_from"] == len(SIZES)
    assert found["settings"] == {"seed": 1, "draws": 3, "lime_samples": 20, "word_score": "sum"}
    assert list(found["models"]) == ["ea_roberta_tiny", "roberta"]
    kinds = [(model["seed"], model["family"]) for model in found["models"].values()]
    assert kinds == [(1, "ea_transformer"), (2, None)]
    assert RationaleResults.read(tmp_path / "rationales.json").dataset == EVOLVING
    documents = read_documents(home / "test.jsonl")
    page = (tmp_path / "rationales.html").read_text()
    assert all(f'"name": "{name}"' in page for name in (*found["models"], *(one.name for one in documents)))
    for name, model in found["models"].items():
        assert list(model["sources"]) == sources
        folder = tmp_path / model["sha256"][:12]
        predictions = json.loads((folder / "predictions.json").read_text())["documents"]
        right = [max(one, key=one.get) == each.label for one, each in zip(predictions, documents, strict=True)]
        assert model["performance"]["accuracy"] == np.mean(right)
        for source, means in model["sources"].items():
            rows = json.loads((folder / f"{source}.json").read_text())["documents"]
            assert [len(row["scores"]) for row in rows] == list(SIZES)
            for metric, mean in means.items():
                assert mean == pytest.approx(np.mean([row[metric] for row in rows]))
            areas = [auprc(one.gold, np.array(row["scores"])) for one, row in zip(documents, rows, strict=True)]
            assert source == "random" or means["auprc"] == pytest.approx(np.mean(areas))
            cells = [source, *(f"{value:.3f}" for value in means.values())]
            assert cells in map(str.split, printed.partition(f"{name}: F1 ")[2].splitlines())
        assert model["sources"]["gold"]["auprc"] == 1
        f1, accuracy = (model["performance"][metric] for metric in ("F1", "accuracy"))
        assert f"{name}: F1 {f1:.3f}, accuracy {accuracy:.3f}, 3 documents" in printed


def test_a_pooled_model_is_explained_by_its_pooling(show, home, tmp_path):
    save_classifier(home / "pooled", "ea_bert_tiny", *POOLED)
    printed = show("pooled", "test.jsonl", "--source", "pooling", "--out", tmp_path)
    (model,) = json.loads((tmp_path / "rationales.json").read_text())["models"].values()
    assert list(model["sources"]) == ["pooling", *ALWAYS]
    assert f"pooling {model['sources']['pooling']['auprc']:.3f} " in " ".join(printed.split())


def test_an_interrupted_run_goes_on_with_the_source_that_it_lacks(show, tmp_path, monkeypatch):
    flags = [PLAIN, "test.jsonl", "--source", "attention,gradient", "--out", tmp_path / "out"]
    gradient = SOURCES["gradient"]

    def interrupted(decision):
        if len(decision.document.words) == SIZES[1]:
            raise KeyboardInterrupt
        return gradient(decision)

    monkeypatch.setitem(SOURCES, "gradient", interrupted)
    with pytest.raises(KeyboardInterrupt):
        show(*flags)
    assert not (tmp_path / "out/rationales.json").exists()
    monkeypatch.setitem(SOURCES, "gradient", gradient)
    printed = show(*flags)
    (folder,) = {path.parent.name for path in (tmp_path / "out").glob("*/gold.json")}
    assert [f"{folder}/{name}.json: already made" in printed for name in ("attention", "gradient")] == [True, False]
    monkeypatch.setattr(evaluation, "explain", lambda *given: pytest.fail("computed anew"))
    again = show(*flags)
    assert again.count("already made") == 5
    assert table_of(again) == table_of(printed)


def test_only_what_depends_on_a_setting_is_made_anew(show, tmp_path):
    flags = [PLAIN, "test.jsonl", "--source", "attention", "--out", tmp_path]
    show(*flags)
    remade = show(*flags, "--draws", "2").split()
    assert [word.rpartition("/")[2] for word, after in pairwise(remade) if after == "making"] == ["random.json:"]
    assert "attention.json: making" in show(*flags, "--word-score", "max")
    assert "predictions.json: making" in show(*flags, "--limit", "2")


def test_results_depend_on_all_code_that_a_models_output_depends_on(show, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(evaluate, "code", lambda parts: given.extend(parts) or "code")
    show(PLAIN, "test.jsonl", "--source", "attention", "--out", tmp_path)
    assert {*evaluate.OF_MODELS, "experiments/rationales"} <= {*given}


def test_a_limit_draws_examples_by_the_seed():
    assert {tuple(drawn(3, 2, seed).tolist()) for seed in range(20)} == {(0, 1), (1, 2), (0, 2)}
    assert drawn(3, 2, 5).tolist() == drawn(3, 2, 5).tolist()
    assert drawn(3, 9, 1).tolist() == drawn(3, None, 1).tolist() == [0, 1, 2]


def test_what_cannot_be_explained_is_refused_in_a_sentence(show, home, tmp_path):
    path = home / "other.jsonl"
    path.write_text((home / "test.jsonl").read_text().replace('"label": "1"', '"label": "POS"'))
    with pytest.raises(UserError, match=r"^document 'd5' has the label 'POS', and the model's classes are 1, 0: "):
        show(PLAIN, path, "--out", tmp_path / "a")
    with pytest.raises(UserError, match=r"^there is no file .*none\.jsonl"):
        show(PLAIN, "none.jsonl", "--out", tmp_path / "a")
    with pytest.raises(UserError, match=r"^there is no .*nothing"):
        show("nothing", "test.jsonl", "--out", tmp_path / "a")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    with pytest.raises(UserError, match="holds other files: give a new folder"):
        show(PLAIN, "test.jsonl", "--out", tmp_path / "mine")
    with pytest.raises(UserError, match=r"^--source pooling is for models that were trained with"):
        show(PLAIN, "test.jsonl", "--source", "position,pooling", "--out", tmp_path / "a")
    for flags, sentence in (
        (["--source", "magic"], "there is no 'magic'"),
        (["--limit", "0"], "--limit: needs a whole"),
    ):
        with pytest.raises(SystemExit, match=sentence):
            show(PLAIN, "test.jsonl", "--out", tmp_path / "a", *flags)
    assert not any(Path(tmp_path).glob("a/*/*.json"))


def test_a_changed_file_of_scores_is_named(show, tmp_path):
    flags = [PLAIN, "test.jsonl", "--source", "position", "--out", tmp_path]
    show(*flags)
    (path,) = tmp_path.glob("*/position.json")
    path.write_text('{"documents": [{"auprc": "1"}]}')
    with pytest.raises(UserError, match=rf"^{path} is not what ea-fairseq rationales writes"):
        show(*flags)
