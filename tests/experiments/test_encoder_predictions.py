"""What evaluate.sh makes of encoders: a prediction for each example, in the data's order, as fairseq counts them."""

import json
import math
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from sklearn.metrics import accuracy_score, f1_score

from commands import ROOT
from corpora import warm_environment
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.runs.data_bin import DataBin, read_data
from ea_fairseq.experiments.scoring.encoder_outcome import SentencePredictions
from ea_fairseq.experiments.scoring.evaluation import OUTCOMES, predictions
from ea_fairseq.experiments.scoring.results import PREDICTIONS, Results, read_predictions
from ea_fairseq.experiments.scoring.task_scores import perplexity
from untrained_encoders import EXAMPLES, save_encoder, write_sentences, write_text

CPU = torch.device("cpu")
COUNTED = {"loss", "ncorrect", "sample_size"}


def predict(data: Path, checkpoint: Path, max_tokens: int = 100) -> list[tuple]:
    """The rows of predictions.tsv."""
    outcome = OUTCOMES[Checkpoint.read(checkpoint).task]
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(checkpoint)], {"data": str(data), **outcome.overrides}
    )
    return predictions(outcome, model, task, "test", max_tokens, CPU)


def criterion_sums(trainer, **options) -> dict[str, float]:
    """What fairseq's criterion counts of the test set, added up over batches."""
    task = trainer.task
    for name, value in options.items():
        task.cfg[name] = value
    task.load_dataset("test")
    batches = task.get_batch_iterator(task.dataset("test"), max_tokens=60).next_epoch_itr(shuffle=False)
    with torch.no_grad():
        logs = [trainer.criterion(trainer.model.eval(), sample)[2] for sample in batches]
    return {
        name: float(sum(log[name] for log in logs)) for name in logs[0] if name in ("loss", "ncorrect", "sample_size")
    }


def test_labels_are_those_that_the_criterion_counts_in_batches_of_any_size(tmp_path):
    data = write_sentences(tmp_path / "my pairs")
    trainer = save_encoder(data, tmp_path / "a run" / "checkpoint_best.pt", "sentence_prediction")
    rows = predict(data, tmp_path / "a run" / "checkpoint_best.pt")
    assert rows == predict(data, tmp_path / "a run" / "checkpoint_best.pt", max_tokens=24)
    counted = criterion_sums(trainer)
    assert len(rows) == counted["sample_size"] == EXAMPLES
    assert sum(label == prediction for label, prediction in rows) == counted["ncorrect"]
    labels = trainer.task.dataset("test").dataset  # without fairseq's shuffling
    names = trainer.task.label_dictionary
    assert [label for label, _ in rows] == [names[item["target"].item() + names.nspecial] for item in labels]
    with pytest.raises(UserError, match=r"has an example of 20 tokens: give --max-tokens of at least that"):
        predict(data, tmp_path / "a run" / "checkpoint_best.pt", max_tokens=9)


def test_a_regression_predicts_scores(tmp_path):
    data = write_sentences(tmp_path / "my pairs", regression=True)
    flags = ["--regression-target", "--num-classes", "1"]
    trainer = save_encoder(data, tmp_path / "checkpoint.pt", "sentence_prediction", *flags)
    rows = predict(data, tmp_path / "checkpoint.pt")
    written = [float(line) for line in (data / "label" / "test.label").read_text().split()]
    assert [score for score, _ in rows] == pytest.approx(written)
    squares = sum((score - prediction) ** 2 for score, prediction in rows)
    assert squares == pytest.approx(criterion_sums(trainer)["loss"], rel=1e-4)


def test_the_same_words_are_masked_for_all_models_and_their_losses_are_the_criterions(tmp_path):
    data, tables = write_text(tmp_path / "my text"), []
    for seed, arch in ((1, "ea_roberta_tiny"), (2, "roberta")):
        trainer = save_encoder(data, tmp_path / "checkpoint.pt", "masked_lm", arch=arch, seed=seed)
        tables.append(predict(data, tmp_path / "checkpoint.pt"))
        counted = criterion_sums(trainer, seed=1)
        words, bits = (torch.tensor([float(value) for value in column]) for column in zip(*tables[-1], strict=True))
        assert words.sum() == counted["sample_size"]
        assert bits.sum().item() * math.log(2) == pytest.approx(counted["loss"], rel=1e-4)
        nats = counted["loss"] / counted["sample_size"]
        assert perplexity(words.numpy(), bits.numpy()) == pytest.approx(math.exp(nats), rel=1e-4)
    assert [words for words, _ in tables[0]] == [words for words, _ in tables[1]] and tables[0] != tables[1]


def test_data_is_told_by_what_is_in_its_folder(tmp_path):
    pairs, text = write_sentences(tmp_path / "glue-toy" / "data-bin"), write_text(tmp_path / "my text")
    assert (read_data(pairs).task, read_data(pairs).name) == ("sentence_prediction", "glue-toy")
    assert (read_data(text).task, read_data(text).name) == ("masked_lm", "my text")
    found = read_data(pairs).dataset("test")
    (pairs / "label" / "test.bin").write_bytes(b"other labels")
    assert read_data(pairs).dataset("test").checksum != found.checksum
    (pairs / "label" / "test.idx").unlink()
    with pytest.raises(UserError, match=r"has no label/test\.idx: give a folder that has it, or another --subset"):
        read_data(pairs).dataset("test")


def test_a_model_of_another_task_or_vocabulary_is_refused(tmp_path):
    pairs, text = write_sentences(tmp_path / "my pairs"), write_text(tmp_path / "my text")
    save_encoder(text, tmp_path / "checkpoint.pt", "masked_lm")
    checkpoint = Checkpoint.read(tmp_path / "checkpoint.pt")
    checkpoint.require_data(read_data(text))
    other = r"is a model for --task masked_lm, and .* has data for --task "
    with pytest.raises(UserError, match=other + "sentence_prediction"):
        checkpoint.require_data(read_data(pairs))
    with pytest.raises(UserError, match=other + "translation"):
        (tmp_path / "test.de-en.de.idx").touch()
        checkpoint.require_data(DataBin(tmp_path))
    (text / "dict.txt").write_text("a 1\n")
    with pytest.raises(UserError, match=r"a vocabulary of 45 types, and that of .* has 6 \(words\)"):
        checkpoint.require_data(read_data(text))


@pytest.mark.parametrize(
    ("flag", "names"),
    [
        (None, ("accuracy",)),
        ("report_acc_and_f1", ("F1", "accuracy")),
        ("report_mcc", ("Matthews",)),
        ("regression_target", ("Pearson", "Spearman")),
    ],
)
def test_the_score_that_counts_stands_first_as_in_the_papers_cells(flag, names):
    """Of two, rankings and means take the first."""
    checkpoint = SimpleNamespace(options=lambda group: {flag: True} if group == "criterion" else {})
    assert SentencePredictions(checkpoint, ((), ())).names() == names


def evaluate(home: Path, *arguments: object) -> subprocess.CompletedProcess:
    command = ["bash", ROOT / "scripts" / "evaluate.sh", "--cpu", *arguments]
    env = warm_environment() | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, timeout=300)


def test_a_classifier_is_evaluated_by_one_command_and_options_of_beam_search_are_refused(tmp_path):
    data = write_sentences(tmp_path / "glue-toy" / "data-bin")
    save_encoder(data, tmp_path / "a run" / "checkpoint_last.pt", "sentence_prediction", "--report-acc-and-f1", seed=7)
    refused = evaluate(tmp_path, "--beam", "4", data, "a run")
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1
    assert f"--beam is for translations, and {data} has data for --task sentence_prediction" in refused.stderr
    assert not (tmp_path / "a run" / "evaluation").exists()
    done = evaluate(tmp_path, data, "a run")
    assert done.returncode == 0, done.stderr + done.stdout
    results = Results.read(tmp_path / "a run" / "evaluation")
    labels, found = read_predictions(results.folder)
    expected = {"F1": f1_score(labels, found, pos_label="1"), "accuracy": accuracy_score(labels, found)}
    scores = {name: round(100 * score, 2) for name, score in expected.items()}
    assert [(name, score.score) for name, score in results.scores.items()] == list(scores.items())
    assert (results.task, results.family, results.seed) == ("sentence_prediction", "ea_transformer", 7)
    assert (results.dataset.name, results.dataset.source_lang, results.search) == ("glue-toy", None, {})
    assert all(
        score.signature in done.stdout and f" {score.score:.2f} " in done.stdout for score in results.scores.values()
    )
    record = json.loads((results.folder / "results.json").read_text())
    assert record["parameters"] > 0 and record["flops"] > 0


@pytest.mark.slow
def test_masked_words_are_evaluated_by_the_same_command_and_nothing_is_made_again(tmp_path):
    data = write_text(tmp_path / "masked-lm" / "data-bin")
    save_encoder(data, tmp_path / "a run" / "checkpoint_best.pt", "masked_lm", "--ea-alpha", "0", "--ea-beta", "0")
    first = evaluate(tmp_path, data, "a run")
    assert first.returncode == 0, first.stderr + first.stdout
    folder = tmp_path / "a run" / "evaluation"
    results = Results.read(folder)
    assert list(results.scores) == ["perplexity"] and not results.has_mechanism
    assert "seed:1|masked:0.15" in first.stdout
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}
    again = evaluate(tmp_path, data, "a run")
    assert again.returncode == 0 and "making it" not in again.stdout
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()} == before
    (folder / PREDICTIONS).unlink()
    assert evaluate(tmp_path, data, "a run").stdout.count("making it") == 1
