"""Projects whose scripts are ours and whose trainings and evaluations are pretended: quick, and easy to kill."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from commands import ROOT
from ea_fairseq.experiments.scoring.results import Dataset, Results, Score
from environments import make_environment

MODEL = "[train]\n--arch {arch}\n"
DATASET = (
    "[data]\nbash data-prep/prepare.sh data/toy\n[train lite]\n--lr 1e-3\n[train]\n--seed 1\n[evaluate]\n--beam 5\n"
)
TRAIN = """#!/usr/bin/env bash
# Three updates, a checkpoint after each, resumed where it stopped; fails where it finds the flag --broken.
flags="$*"
until [[ $1 == --save-dir ]]; do shift; done
cd "$2"
echo "$$ ${OMP_NUM_THREADS-unset} ${CUDA_VISIBLE_DEVICES-unset} ${GLIBC_TUNABLES-unset} $flags" >>starts
[[ $flags != *--broken* ]] || { echo 'fairseq-train: it is broken.' >&2 && exit 1; }
for ((update = $(cat checkpoint_last.pt 2>/dev/null || echo 0) + 1; update <= 3; update++)); do
  sleep "${PAUSE:-0.01}"
  echo "$update" >>updates
  echo "$update" >checkpoint.tmp && mv checkpoint.tmp checkpoint_last.pt
done
echo 'done training in 0.1 seconds' >>train.log
"""
EVALUATE = '''"""A score by the model's name and the seed alone; DATA_BIN RUN [--subset SUBSET --out DIR]."""

import json, os, sys, time, zlib
from pathlib import Path

def main():
    _, run, *named = words = sys.argv[1:]
    with Path(run, "evaluations").open("a") as file:
        file.write(" ".join(words) + "\\n")
    time.sleep(float(os.environ.get("EVALUATION_PAUSE", "0")))
    out = Path(named[3] if named else run + "/evaluation")
    out.mkdir(exist_ok=True)
    found = json.loads(Path(__file__).with_name("results").read_text())
    name, seed = json.loads(Path(run, "run.json").read_text())["model"], int(run.rpartition("-")[2])
    found |= {"model": name, "seed": seed}
    found["scores"]["tokenized BLEU"]["score"] = zlib.crc32(f"{name} {seed}".encode()) % 100
    (out / "results.tmp").write_text(json.dumps(found))
    (out / "results.tmp").rename(out / "results.json")
'''


def results(folder: Path, model: str, seed: int, score: float) -> Results:
    """Results of which the name, the seed and the score are known."""
    return Results(
        folder=folder,
        model=model,
        arch="transformer_lite",
        settings={},
        recipe=None,
        seed=seed,
        updates=1,
        epochs=1,
        seconds=1.0,
        parameters=1,
        flops=1,
        dataset=Dataset("toy", "src", "tgt", "valid", None, ""),
        checkpoints=[],
        search={"beam": 5, "lenpen": 1.0},
        scores={"tokenized BLEU": Score(score, "", "")},
        training_command=None,
        commands=[],
        training_device=None,
        device="",
        versions={},
        commit=None,
        train_curve=[],
        valid_curve=[],
    )


def link_all(source: Path, folder: Path, *but: str) -> None:
    """Links to all of a folder but some names."""
    for path in source.iterdir():
        if path.name not in (*but, "__pycache__"):
            (folder / path.name).symlink_to(path)


def make_project(folder: Path) -> Path:
    """A project with our scripts, recipes toy/transformer_lite and toy/ea_transformer_lite, and their data."""
    package = folder / "ea_fairseq"
    recipes, scoring = package / "experiments/recipes", package / "experiments/scoring"
    for made in (recipes / "models", recipes / "datasets", scoring, folder / "data/toy/data-bin"):
        made.mkdir(parents=True)
    link_all(ROOT / "ea_fairseq", package, "experiments", "plain")
    link_all(ROOT / "ea_fairseq/experiments", package / "experiments", "recipes", "scoring")
    link_all(ROOT / "ea_fairseq/experiments/scoring", scoring, "evaluate.py")
    shutil.copytree(ROOT / "ea_fairseq/plain", package / "plain")  # by whose place the project is known
    (folder / "setup.py").touch()
    shutil.copy(ROOT / "ea_fairseq/experiments/recipes/ablation.tsv", recipes)
    (recipes / "datasets/toy.recipe").write_text(DATASET)
    for arch in ("transformer_lite", "ea_transformer_lite"):
        (recipes / f"models/{arch}.recipe").write_text(MODEL.format(arch=arch))
    (scoring / "evaluate.py").write_text(EVALUATE)
    results(scoring, "a model", 1, 0.0).write()
    (scoring / "results.json").rename(scoring / "results")
    (folder / "scripts").mkdir()
    for script in (ROOT / "scripts").glob("*.sh"):
        shutil.copy(script, folder / "scripts")
    make_environment(folder, {"fairseq-train": TRAIN})
    return folder


def start(project: Path, script: str, *arguments: object, **variables: str) -> subprocess.Popen:
    """A script at work, in a process group of its own and a folder that is not the project's."""
    hidden = {"CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["PATH"] = f"{project / 'bin'}{os.pathsep}{environment['PATH']}"
    return subprocess.Popen(
        ["bash", project / "scripts" / script, *map(str, arguments)],
        env=environment | variables,
        cwd=project.parent,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    """Exit status, stdout and stderr."""
    try:
        output, errors = process.communicate(timeout=900)
    except subprocess.TimeoutExpired:
        kill_group(process)
        raise
    return process.returncode, output, errors


def succeed(*arguments, **variables) -> str:
    """The output of a script that must end well."""
    status, output, errors = finish(start(*arguments, **variables))
    assert status == 0, output + errors
    return output


def refusal(*arguments) -> str:
    """The one sentence of a script that must refuse what it is given."""
    status, _, errors = finish(start(*arguments))
    assert status == 1 and len(errors.splitlines()) == 1, errors
    return errors.strip()


def kill_group(process: subprocess.Popen) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def words(run: Path, name: str) -> list[list[str]]:
    """What the pretended commands noted of a run, the words of each line."""
    path = run / name
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def wait_until(condition) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def is_at_work(session: int) -> bool:
    """Whether a process that the leader of a session started, or itself, is alive."""
    states = subprocess.run(["ps", "-o", "stat=", "-s", str(session)], capture_output=True, text=True).stdout.split()
    return any(not state.startswith("Z") for state in states)


def score_of(evaluation: Path) -> tuple[str, float]:
    """Model and score."""
    found = json.loads((evaluation / "results.json").read_text())
    return found["model"], found["scores"]["tokenized BLEU"]["score"]
