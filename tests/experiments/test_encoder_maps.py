"""scripts/attention_maps.py takes encoders and classifiers: a sentence, a pair, a whole data set."""

import csv
import json
from pathlib import Path

import pytest
import torch

from ea_fairseq import EARobertaModel
from ea_fairseq.attention.maps import by_layer
from ea_fairseq.data.tokenization import Tokenization
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.maps.map_statistics import entropy
from ea_fairseq.hub.encoder import unmasked
from ea_fairseq.text.preparation import Preparation
from forked import run_forked_well
from sentence_data import PAIRS, SIZES, binarize_sentences, encoder_command

FOLDER, LAYERS, HEADS = "a classifier", 2, 4


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = binarize_sentences(tmp_path_factory.mktemp("a home"))
    run_forked_well(*encoder_command("sentence_prediction", FOLDER, 1), cwd=home)
    return home


@pytest.fixture
def show(home, attention_maps, monkeypatch):
    """Runs the script on the classifier in the folder that it was trained in; returns what it prints."""
    monkeypatch.chdir(home)
    return lambda *flags: attention_maps(FOLDER, "--cpu", *flags)


@pytest.mark.parametrize("second", [[], ["--second", "c d"]], ids=["a sentence", "a pair"])
def test_maps_are_drawn(show, tmp_path, second):
    printed = show("--source", "a b", *second, "--heads", "2,mean", "--out", tmp_path)
    assert printed.splitlines()[0] == "tokens: <s> a b </s>" + " c d </s>" * bool(second)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"encoder-{head}.{kind}" for head in ("head-2", "mean") for kind in ("png", "svg")
    }


def test_a_model_is_drawn_beside_another(show, tmp_path):
    show("--source", "a b", "--compare", f"{FOLDER}/checkpoint_last.pt", "--heads", "1", "--out", tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".png", ".svg"}


def test_statistics_are_those_of_the_maps(home, show, tmp_path):
    show("--statistics", "--subset", "valid", "--max-pairs", "3", "--out", tmp_path)
    with (tmp_path / "statistics.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["measure"] == "entropy" and row["head"] != "mean"]
    assert len(rows) == LAYERS * HEADS
    hub = EARobertaModel.from_pretrained(home / FOLDER, "checkpoint_last.pt", home / PAIRS)
    lines = zip(*((home / f"valid.input{n}").read_text().splitlines()[:3] for n in (0, 1)), strict=True)
    maps = [by_layer(hub.attention(*pair))["encoder"] for pair in lines]
    for row in rows:
        layer, head = int(row["layer"]) - 1, int(row["head"]) - 1
        queries = torch.cat([entropy(layers[layer].probabilities[head]) for layers in maps])
        assert float(row["value"]) == pytest.approx(queries.mean().item(), abs=1e-4)
    assert "statistics.json" in {path.name for path in tmp_path.iterdir()}
    assert len(maps) < SIZES["valid"]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--source", "a", "--target", "b"], "--target: a classifier does not translate"),
        (["--source", "a", "--tag", "news"], "--tag: a classifier does not translate"),
        (["--source", "a", "--attention", "cross"], "--attention: a classifier has only the attention encoder"),
        (["--statistics", "--subset", "none"], "there is no none in "),
        (["--source", "a", "--compare", "nothing"], "there is no checkpoint nothing"),
    ],
)
def test_what_cannot_be_shown_is_refused(show, flags, sentence):
    with pytest.raises(UserError, match=f"^{sentence}"):
        show(*flags)


VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "lau", "##ft", "Lauft"]


def test_pieces_are_cut_as_the_preparation_says(tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in VOCABULARY))
    description = {"tokenizer": "none", "lowercase": False, "models": ["vocab.txt"], "something": 1}
    for subword, expected in {"wordpiece": "lau ##ft", "cased_wordpiece": "Lauft"}.items():
        (tmp_path / "preparation.json").write_text(json.dumps(description | {"subword": subword}))
        preparation = Preparation.find(tmp_path, translates=False)
        assert preparation.preparer()("Lauft\n") == expected
        assert preparation.subwords().decode("lau ##ft") == "lauft"
        assert Preparation.find(tmp_path, translates=True) is None
    assert Preparation.find(tmp_path / "none", translates=False) is None
    for change in ({"models": []}, {"models": ["../vocab.txt"]}, {"subword": "other"}):
        (tmp_path / "preparation.json").write_text(json.dumps(description | {"subword": "bpe"} | change))
        with pytest.raises(UserError, match="is not what a preparation writes"):
            Preparation.read(tmp_path)


@pytest.mark.parametrize("lowercase", [False, True])
def test_words_are_cut_as_a_preparation_cuts_them(lowercase):
    """prepare-glue.sh's steps, hyphens and quotation marks included."""
    line = "A well-known “part-time” job."
    (expected,) = Tokenization("moses", lowercase=lowercase).tokenizer_for("en")([line])
    preparation = Preparation(Path(), "moses", lowercase, "none", [])
    assert preparation.tokens().encode(f"{line}\n") == expected
    assert "@-@" not in expected and "&quot;" in expected


def test_words_are_cut_by_the_rules_of_their_language():
    preparation = Preparation(Path(), "moses", False, "none", [], language="fr")
    assert preparation.preparer()("L'eau qu'il boit.") == "L&apos; eau qu&apos; il boit ."
    assert preparation.preparer("en")("It's water.") == "It &apos;s water ."


def test_a_language_models_data_is_shown_without_masks():
    tokens, target, pad = torch.tensor([0, 9, 5, 9, 2]), torch.tensor([1, 4, 1, 6, 1]), 1
    assert unmasked(tokens, target, pad).tolist() == [0, 4, 5, 6, 2]
