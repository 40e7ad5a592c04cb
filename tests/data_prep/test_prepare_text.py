"""prepare text: plain text as --task span_corruption and masked_lm read it."""

import json
import sys
from pathlib import Path

import pytest
from fairseq.data import Dictionary
from fairseq.data.data_utils import load_indexed_dataset

from dataset_runs import assert_one_sentence, prepare, prepared
from ea_fairseq.experiments.runs import t5_import
from ea_fairseq.tasks.span_corruption import SpanCorruptionConfig, SpanCorruptionTask
from t5 import TEXT, write_t5

LINES = {"train": TEXT, "valid": TEXT[:5]}


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("a home")
    (home / "my text").mkdir()
    for split, lines in LINES.items():
        (home / f"my text/{split}.txt").write_text("".join(f"{line}\n" for line in lines))
    (home / "my text/test.txt~").write_text("what an editor leaves")
    return home


def sentences(data: Path, split: str) -> list[str]:
    words = Dictionary.load(str(data / "dict.txt"))
    return [words.string(tokens, "sentencepiece") for tokens in load_indexed_dataset(str(data / split), words)]


def test_data_is_the_text_in_pieces_that_are_learnt_of_it(home):
    prepared("text", "--vocab-size", 30, "--workers", 1, home / "my text", home / "out")
    data = home / "out/data-bin"
    assert {split: sentences(data, split) for split in LINES} == LINES
    described = json.loads((data / "preparation.json").read_text())
    assert (described["subword"], described["models"]) == ("sentencepiece", ["sentencepiece.model"])
    task = SpanCorruptionTask.setup_task(SpanCorruptionConfig(data=str(data), tokens_per_sample=20, seed=1))
    task.load_dataset("train")
    blocks = task.datasets["train"]
    assert sum(blocks.sizes) == sum(load_indexed_dataset(str(data / "train"), None).sizes - 1)


def test_a_t5s_pieces_and_dictionary_are_taken(home, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["import-t5", str(write_t5(home / "files", "1.0")), str(home / "t5")])
    t5_import.main()
    prepared("text", "--text-to-text", home / "t5", "--workers", 1, home / "my text", home / "tuned")
    data = home / "tuned/data-bin"
    assert {split: sentences(data, split) for split in LINES} == LINES
    for name in ("dict.txt", "spiece.model"):
        assert (data / name).read_bytes() == (home / "t5" / name).read_bytes()


def test_what_is_no_text_is_refused_in_one_sentence(home, tmp_path):
    assert_one_sentence(prepare("text", tmp_path / "nowhere", tmp_path / "out"), "there is no folder")
    assert_one_sentence(prepare("text", tmp_path, tmp_path / "out"), "has neither train.txt nor train.txt.gz")
    refusal = prepare("text", "--text-to-text", home, home / "my text", tmp_path / "out")
    assert_one_sentence(refusal, "has no dict.txt of sentencepiece")
