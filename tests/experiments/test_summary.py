"""The report that ends the quick start: costs, scores, speeds and translations of models that nobody trained."""

import gzip
import json
import re
import shutil

import pytest

from ea_fairseq.experiments.reports.comparison import find_results
from ea_fairseq.experiments.reports.comparison_table import ONE_SEED, OTHER_SEEDS
from ea_fairseq.experiments.reports.summary import summary
from ea_fairseq.experiments.scoring.results import Results
from fake_results import EVOLVING, PLAIN, SENTENCES, references

SPEEDS = {PLAIN: ([3000, 3100, 1000], 1800.4), EVOLVING: ([2900, 4000, 3500], 2464.0)}  # training, translation
SOURCE = [f"Satz {number}" for number in range(SENTENCES)]


@pytest.fixture
def home(two_models, tmp_path):
    """A corpus with glosses and two models that are trained and evaluated."""
    with gzip.open(tmp_path / "test.de.gz", "wt") as file:
        file.writelines(f"{line}\n" for line in SOURCE)
    for name in ("test.en", "test.word-for-word.en"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in references()))
    for model, name in ((PLAIN, "plain-1"), (EVOLVING, "evolving-1")):
        shutil.copytree(two_models / name, tmp_path / model / "evaluation")
        (tmp_path / model / "evaluation" / "logs").mkdir()
        training, translation = SPEEDS[model]
        log = "".join(f"2026-01-01 | INFO | train | {json.dumps({'wps': str(speed)})}\n" for speed in training)
        (tmp_path / model / "train.log").write_text(log)
        said = f"12.1 sentences/s, 7.00 tokens/s)\n40 sentences/s, {translation:.2f} tokens/s)\n"
        (tmp_path / model / "evaluation" / "logs" / "generate.log").write_text(said)
    return tmp_path


def blocks(home) -> list[list[str]]:
    """The lines of each block."""
    folders = [home / model for model in (PLAIN, EVOLVING)]
    return [block.splitlines() for block in summary(folders, home, "de", "en").split("\n\n")]


def cells(lines: list[str]) -> dict[str, list[str]]:
    """The cells of a table by the name of the row."""
    return {name: values for name, *values in (re.split("  +", line) for line in lines)}


def test_it_has_what_was_measured_and_translated(home, two_models, monkeypatch):
    monkeypatch.setattr("ea_fairseq.experiments.reports.seed_range.published", lambda: find_results([two_models]))
    table, notes, *sentences = blocks(home)
    found = [Results.read(home / model / "evaluation") for model in (PLAIN, EVOLVING)]
    seeds = [Results.read(place) for place in sorted(two_models.iterdir())]
    scores = [[each.scores["BLEU"].score for each in seeds if each.model == model] for model in (PLAIN, EVOLVING)]
    assert cells(table) == {
        "": [PLAIN, EVOLVING],
        "BLEU": [f"{each.scores['BLEU'].score:.2f}" for each in found],
        f"BLEU of {OTHER_SEEDS}": [f"{min(of_model):.2f} to {max(of_model):.2f}" for of_model in scores],
        "parameters": ["2,482,560", "2,485,224"],
        "FLOPs": ["158.20M", "158.20M"],
        "updates": ["4,000", "4,000"],
        "training, target words/s": ["3,000", "3,500"],
        "translation, words/s": ["1,800", "2,464"],
    }
    assert notes[:2] == ["Word-for-word translation, in the order of the source, scores BLEU 100.00.", ONE_SEED]
    assert f"BLEU: sacreBLEU {found[0].scores['BLEU'].signature}." in notes
    assert len(sentences) == 10
    texts = {"source": SOURCE, "reference": references()} | {each.model: each.raw()[0] for each in found}
    for number, lines in zip(range(0, SENTENCES, SENTENCES // 10), sentences, strict=True):
        assert lines == [f"{name:19}  {lines[number]}" for name, lines in texts.items()]


def test_without_glosses_or_published_seeds_nothing_is_said_of_them(home, monkeypatch):
    monkeypatch.setattr("ea_fairseq.experiments.reports.seed_range.published", list)
    (home / "test.word-for-word.en").unlink()
    table, notes, *_ = blocks(home)
    assert f"BLEU of {OTHER_SEEDS}" not in cells(table) and notes[0] == ONE_SEED
    assert not any(OTHER_SEEDS in note.lower() for note in notes)
