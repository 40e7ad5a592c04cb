"""Labelled sentences as T5 has them: prepare glue --text-to-text, a training, and evaluate, which reads words."""

import json
import random
from argparse import Namespace
from pathlib import Path

import pytest
from fairseq.data import Dictionary, data_utils

from commands import PLUGIN, run, run_well
from dataset_runs import assert_one_sentence, prepare, prepared
from ea_fairseq.data.labels import Scores
from ea_fairseq.data.sets.glue import KNOWN
from ea_fairseq.data.text_folder import TextFolder
from ea_fairseq.data.text_to_text import word_for
from ea_fairseq.experiments.runs import t5_import
from ea_fairseq.experiments.runs.data_bin import TextToTextData, read_data
from ea_fairseq.experiments.scoring.label_words import LabelWords
from ea_fairseq.experiments.scoring.results import Results, read_predictions
from forked import run_forked_well
from imported_models import run_import
from recipes import parse
from t5 import ROWS as ROWS_OF_T5
from t5 import TEXT, write_t5

ROWS = {"train": 48, "valid": 8, "test": 7}


def write_tables(folder: Path, labels: tuple[str, ...], sentences: int = 2) -> Path:
    folder.mkdir()
    draw = random.Random(1)
    for split, count in ROWS.items():
        lines = ["\t".join(["label", "sentence", "sentence2"][: 1 + sentences])]
        lines += ["\t".join([draw.choice(labels), *draw.choices(TEXT, k=sentences)]) for _ in range(count)]
        (folder / f"{split}.tsv").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A T5, tables of pairs with two classes, and the data for it."""
    home = tmp_path_factory.mktemp("a home")
    with pytest.MonkeyPatch.context() as monkeypatch:
        run_import(t5_import, write_t5(home / "files", "1.0"), home / "t5", monkeypatch)
    write_tables(home / "tables", ("often", "away"))
    flags = ["--task", "when", "--tsv", home / "tables", "--text-to-text", home / "t5", "--workers", 1]
    prepared("glue", *flags, home / "data")
    return home


def pairs(data: Path, split: str) -> list[tuple[str, str]]:
    """Inputs and targets as raw text."""
    words = Dictionary.load(str(data / "dict.inputs.txt"))
    sides = (
        data_utils.load_indexed_dataset(str(data / f"{split}.inputs-targets.{side}"), words)
        for side in ("inputs", "targets")
    )
    return [tuple(words.string(tokens, "sentencepiece") for tokens in pair) for pair in zip(*sides, strict=True)]


def test_inputs_and_targets_are_t5s_words_for_the_tables(home):
    data = home / "data/data-bin"
    for split in ROWS:
        _, *lines = (home / f"tables/{split}.tsv").read_text().splitlines()
        expected = [
            (f"when sentence1: {first} sentence2: {second}", label)
            for label, first, second in (line.split("\t") for line in lines)
        ]
        assert pairs(data, split) == expected
    assert (data / "dict.inputs.txt").read_bytes() == (home / "t5/dict.txt").read_bytes()
    described = json.loads((data / "preparation.json").read_text())
    assert described["classes"] == ["away", "often"] and described["task"] == "when"
    assert isinstance(read_data(data), TextToTextData)


def test_a_training_from_published_weights_is_evaluated_by_its_words(home):
    data, folder = home / "data/data-bin", home / "runs/t5"
    command = ["fairseq-train", data, "--user-dir", PLUGIN, "--arch", "ea_t5", "--task", "translation"]
    command += ["--finetune-from-model", home / "t5/model.pt", "--criterion", "cross_entropy", "--batch-size", 8]
    command += ["--optimizer", "adafactor", "--lr", 0.001, "--max-epoch", 2, "--cpu", "--save-dir", folder]
    for side in ("encoder", "decoder"):
        command += [f"--{side}-embed-dim", 16, f"--{side}-ffn-embed-dim", 20, f"--{side}-attention-heads", 3]
    command += ["--encoder-layers", 3, "--decoder-layers", 2, "--head-dim", 6]
    log = run_forked_well(*command, cwd=home)
    assert "convolutions with" in log and "are new and start as the identity" in log
    text = run_well("ea-fairseq", "evaluate", "--cpu", data, folder, cwd=home)
    results = Results.read(folder / "evaluation")
    assert results.task == "text_to_text" and results.search == {"beam": 1, "lenpen": 1.0}
    assert results.family == "ea_transformer" and results.parameters > 16 * ROWS_OF_T5
    assert list(results.scores) == ["accuracy"] and results.scores["accuracy"].detail.startswith("7 examples")
    labels, predictions = read_predictions(folder / "evaluation")
    correct = sum(label == prediction for label, prediction in zip(labels, predictions, strict=True))
    assert results.scores["accuracy"].score == pytest.approx(100 * correct / 7, abs=0.01)
    assert {*labels, *predictions} <= {"0", "1"} and "accuracy" in text
    lost = (folder / "evaluation/predictions.tsv").read_bytes()
    (folder / "evaluation/predictions.tsv").unlink()
    run_well("ea-fairseq", "evaluate", "--cpu", data, folder, cwd=home)
    assert (folder / "evaluation/predictions.tsv").read_bytes() == lost
    released = run("ea-fairseq", "release", "--about", data / "preparation.json", folder, home / "released", cwd=home)
    assert_one_sentence(released, "does not translate: ea-fairseq release is for models that do")
    refusal = run("ea-fairseq", "evaluate", "--cpu", "--source", home / "tables/test.tsv", data, folder, cwd=home)
    assert_one_sentence(refusal, "--source is for translations")


def outcome(task: str, classes, labels: list[str], predictions: list[str]) -> LabelWords:
    data = Namespace(preparation=Namespace(task=task, classes=classes), folder="data")
    return LabelWords(Namespace(beam=1, lenpen=1.0), data, Namespace(raw=(predictions, labels)))


def test_words_that_are_no_label_count_as_wrong():
    words = ["unacceptable", "acceptable"]
    found = outcome("cola", words, [*words, *words], ["unacceptable", "accept", "", "acceptable"])
    assert (found.labels, found.predictions) == (["0", "1", "0", "1"], ["0", "0", "1", "1"])
    assert found.notes() == ["2 of the predicted words are not labels, and count as wrong."]
    assert list(found.scores()) == ["Matthews"] and found.scores()["Matthews"].score == 0
    scores = outcome("sts-b", None, ["3.8", "1.0", "0.2"], ["3.6", "1.0", "nan"])
    assert scores.predictions == ["3.6", "1.0", "-1.0"] and list(scores.scores()) == ["Pearson", "Spearman"]
    assert list(outcome("mrpc", ["a", "b"], ["a", "b"], ["a", "b"]).scores()) == ["F1", "accuracy"]


def test_glues_labels_have_t5s_words():
    assert {name: task.words for name, task in KNOWN.items()} == {
        "cola": ["unacceptable", "acceptable"],
        "sst-2": ["negative", "positive"],
        "mrpc": ["not_equivalent", "equivalent"],
        "rte": None,
        "wnli": ["not_entailment", "entailment"],
        "sts-b": None,
    }
    assert {task.prefix for task in KNOWN.values()} == {"cola", "sst2", "mrpc", "rte", "wnli", "stsb"}
    folder = TextFolder(Path("train"), ())
    assert [word_for(score, Scores(5), None, 1, folder) for score in ("3.25", "5.000", "0", "2.5")] == [
        "3.2",
        "5.0",
        "0.0",
        "2.4",
    ]


def test_what_cannot_be_made_is_refused_in_one_sentence(home, tmp_path):
    flags = ["--task", "when", "--tsv", home / "tables"]
    assert_one_sentence(prepare("glue", *flags, "--text-to-text", tmp_path, tmp_path / "out"), "import-t5")
    both = ["--text-to-text", home / "t5", "--vocabulary", home / "t5"]
    assert_one_sentence(prepare("glue", *flags, *both, tmp_path / "out"), "leave one of them out")
    tables = write_tables(tmp_path / "tables", ("7", "8"))
    flags = ["--task", "when", "--tsv", tables, "--text-to-text", home / "t5", "--workers", 1]
    assert_one_sentence(prepare("glue", *flags, tmp_path / "out"), "cannot write the label 7")


@pytest.mark.parametrize("task", ["cola", "mrpc", "rte", "sts-b"])
def test_recipes_train_as_t5_was_fine_tuned(task):
    args = parse(f"t5-{task}/ea_t5_small")
    assert (args.arch, args.optimizer, args.scale_parameter) == ("ea_t5_small", "adafactor", True)


def test_fairseq_takes_the_flags_of_the_pre_training():
    args = parse("t5-text/t5_small")
    assert (args.task, args.tokens_per_sample, args.noise_density) == ("span_corruption", 568, 0.15)
