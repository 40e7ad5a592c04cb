"""COMET by the program comet-score, with a tiny model of random weights.

The program has an environment of its own, so the tests that run it are skipped unless COMET_SCORE names it.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from checkpoints import save_loud
from commands import ROOT
from corpora import LOWERCASED, SIZES, environment, prepared, write_corpus
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.scoring import comet
from ea_fairseq.experiments.scoring.comet import CometModel, CometScores
from ea_fairseq.experiments.scoring.results import Results
from ea_fairseq.experiments.scoring.significance import p_value
from fake_results import write_results

PROGRAM = os.environ.get("COMET_SCORE") or shutil.which("comet-score")
needs_program = pytest.mark.skipif(not PROGRAM, reason="needs comet-score, on PATH or in COMET_SCORE")
# A model as COMET saves it, of a BERT that reads letters, and one whose pickle makes a folder.
MAKE = """
import os, sys, torch, yaml
from pathlib import Path
from transformers import BertConfig, BertTokenizerFast
from comet.models import RegressionMetric

folder = Path(sys.argv[1])
encoder, letters = folder / "encoder", "abcdefghijklmnopqrstuvwxyz"
for part in (encoder, folder / "checkpoints"):
    part.mkdir(parents=True)
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
(encoder / "vocab.txt").write_text("\\n".join([*special, *letters, *("##" + letter for letter in letters)]))
BertTokenizerFast(str(encoder / "vocab.txt")).save_pretrained(encoder)
sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
BertConfig(vocab_size=57, **sizes).save_pretrained(encoder)
torch.manual_seed(1)
model = RegressionMetric(
    encoder_model="BERT", pretrained_model=str(encoder), hidden_sizes=[8], load_pretrained_weights=False
)
options = dict(model.hparams)
(folder / "hparams.yaml").write_text(yaml.safe_dump(options))
state = {"state_dict": model.state_dict(), "hyper_parameters": options, "pytorch-lightning_version": "2.0.0"}
torch.save(state, folder / "checkpoints/model.ckpt")

class Spoilt:
    def __reduce__(self):
        return os.mkdir, (str(folder.parent / "made by a pickle"),)

(folder.parent / "spoilt/checkpoints").mkdir(parents=True)
(folder.parent / "spoilt/hparams.yaml").write_text(yaml.safe_dump(options))
torch.save(state | {"spoilt": Spoilt()}, folder.parent / "spoilt/checkpoints/model.ckpt")
"""


def evaluate(home: Path, *options: object) -> subprocess.CompletedProcess:
    command = [
        "bash",
        ROOT / "scripts/evaluate.sh",
        "--cpu",
        "--beam",
        "2",
        *options,
        home / "out/data-bin",
        home / "run",
    ]
    return subprocess.run(list(map(str, command)), env=environment(), capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """'run' has a model of the data in 'out', and 'tiny' is a model of COMET, 'spoilt' one with a hostile pickle."""
    home = tmp_path_factory.mktemp("a home")
    prepared(*LOWERCASED, write_corpus(home / "corpus"), home / "out")
    (home / "run").mkdir()
    save_loud(home / "out/data-bin", home / "run/checkpoint_best.pt", languages=("de", "en"))
    python = Path(PROGRAM).resolve().with_name("python")
    subprocess.run([python, "-c", MAKE, home / "tiny"], check=True, capture_output=True)
    return home


@pytest.mark.slow
@needs_program
def test_the_score_is_that_of_the_program_for_the_texts_beside_it(home: Path):
    result = evaluate(home, "--comet", home / "tiny")
    assert result.returncode == 0, result.stderr
    folder = home / "run/evaluation"
    score = Results.read(folder).scores[comet.NAME]
    assert f"COMET           {score.score:6.2f}  of raw text, by comet-score" in result.stdout
    texts = [f"--{name}s={folder / f'{name}.txt'}" for name in ("source", "translation", "reference")]
    command = [PROGRAM, *texts, "--model", home / "tiny/checkpoints/model.ckpt", "--gpus", "0", "--only_system"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    assert f"score: {score.detail.split(',')[0]}" in printed
    assert score.signature.startswith("unbabel-comet 2.") and score.signature.endswith(", tiny")
    found = CometScores.read(folder)
    assert len(found.scores) == SIZES["test"] and len(set(found.scores)) > 1
    again = evaluate(home, "--comet", home / "tiny")
    assert f"{comet.FILE}: already made" in again.stdout and "making it" not in again.stdout
    without = evaluate(home)
    assert without.returncode == 0 and comet.NAME not in Results.read(folder).scores
    shutil.copy(home / "corpus/test.de", home / "raw.de")
    raw = evaluate(home, "--comet", home / "tiny", "--source", home / "raw.de")
    assert f"{comet.FILE}: making it" in raw.stdout and "generated: already made" in raw.stdout
    assert (folder / "source.txt").read_text() == (home / "raw.de").read_text()


@pytest.mark.slow
@needs_program
def test_the_pickle_of_a_model_runs_nothing(home: Path):
    result = evaluate(home, "--comet", home / "spoilt", "--out", home / "spoilt evaluation")
    assert result.returncode == 1 and "scoring with" in result.stderr and "logs/comet.log" in result.stderr
    assert "Traceback" not in result.stderr
    assert "weights_only" in (home / "spoilt evaluation/logs/comet.log").read_text().lower().replace(" ", "_")
    assert not (home / "made by a pickle").exists()
    assert not (home / "spoilt evaluation" / comet.FILE).exists()


def write_model(folder: Path) -> Path:
    """The files of a model, empty."""
    (folder / "checkpoints").mkdir(parents=True)
    (folder / comet.OPTIONS).touch()
    (folder / comet.WEIGHTS).touch()
    return folder


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch):
    model = write_model(tmp_path / "a model")
    monkeypatch.setenv(comet.VARIABLE, str(tmp_path / "comet-score"))
    with pytest.raises(UserError, match=r"needs the program comet-score.* COMET_SCORE"):
        CometModel.find(model)
    (tmp_path / "comet-score").write_text("#!/bin/sh\n")
    (tmp_path / "comet-score").chmod(0o755)
    with pytest.raises(UserError, match="is not in the Python environment of unbabel-comet: set COMET_SCORE"):
        CometModel.find(model)
    for name in (comet.WEIGHTS, comet.OPTIONS):
        (model / name).unlink()
        with pytest.raises(UserError, match=f"--comet: there is no .*{name}: give the folder"):
            CometModel.find(model)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"t": [{"COMET": 0.5}]}', '{"t": [{"COMET": NaN}, {"COMET": 1}]}', '{"t": [{"mt": "a"}, 1]}'],
)
def test_a_program_that_writes_no_score_for_each_sentence_is_refused(tmp_path: Path, text: str):
    (tmp_path / "written").write_text(text)
    model = CometModel(tmp_path, Path("comet-score"), "2.2.7")
    with pytest.raises(UserError, match="comet-score did not write a score for each of the 2 sentences"):
        CometScores.of_program(model, tmp_path / "written", 2)
    (tmp_path / "written").write_text('{"t": [{"COMET": 0.5}, {"COMET": 1}]}')
    assert CometScores.of_program(model, tmp_path / "written", 2).score.score == 75


def test_p_is_of_the_scores_of_sentences(tmp_path: Path):
    """Equal scores differ by chance, and scores that differ everywhere do not."""
    results = []
    for name, scores in (("one", [0.5, 0.7] * 20), ("equal", [0.5, 0.7] * 20), ("better", [0.8, 0.9] * 20)):
        found = CometScores("tiny", "2.2.7", scores)
        results.append(write_results(tmp_path / name))
        results[-1].scores[comet.NAME] = found.score
        results[-1].write()
        found.write(tmp_path / name / comet.FILE)
    one, equal, better = results
    assert p_value(one, equal, comet.NAME) == 1
    assert p_value(one, better, comet.NAME) < 0.01
    CometScores("tiny", "2.2.7", [0.9] * 40).write(tmp_path / "better" / comet.FILE)
    with pytest.raises(UserError, match="evaluate the model again"):
        p_value(one, better, comet.NAME)
    (tmp_path / "better" / comet.FILE).write_text(json.dumps({"model": "tiny", "version": "2", "scores": ["high"]}))
    with pytest.raises(UserError, match=r"comet.json is not what ea-fairseq evaluate --comet writes"):
        p_value(one, better, comet.NAME)
    (tmp_path / "better" / comet.FILE).unlink()
    with pytest.raises(UserError, match=r"there is no .*comet.json"):
        p_value(one, better, comet.NAME)
