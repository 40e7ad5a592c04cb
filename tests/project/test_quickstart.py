"""scripts/quickstart.sh on a tiny corpus: it ends with a report, resumes after a kill and repeats nothing."""

import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ea_fairseq.experiments.reports.comparison_table import ONE_SEED
from projects import finish, make_project, start

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "scripts" / "quickstart.sh"
PREPARE = """#!/usr/bin/env bash
# A preparation that copies the corpus; ... CORPUS_DIR OUT_DIR [--dry-run].
set -euo pipefail
source "$(dirname "$0")/../scripts/lib.sh"
source "$(dirname "$0")/plan.sh"
remove_intermediate=''
while [[ $1 != --joined-dictionary ]]; do shift; done
OUT_DIR=$3
plan data-bin 1 "$(cat "$2"/* | cksum)" '' cp -r "$2"
find_todo
if [[ ${4-} ]]; then show_plan; else find_python && open_out_dir && run_plan; fi
"""
PYTHON = """#!/bin/sh
# Of all that the quick start asks, it trains alone.
case "$*" in *' -m ea_fairseq train '*) exec '{}' "$@" ;; esac
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Sentences of made-up words, translated by turning their order round."""
    folder = tmp_path_factory.mktemp("a corpus")
    draw = random.Random(1)
    for split, size in {"train": 200, "valid": 20, "test": 11}.items():
        source = [draw.choices(["bado", "kimu", "sola", "tibado", "musola"], k=draw.randint(3, 8)) for _ in range(size)]
        (folder / f"{split}.xx").write_text("".join(" ".join(words) + "\n" for words in source))
        (folder / f"{split}.yy").write_text("".join(" ".join(words[::-1]) + "\n" for words in source))
    return folder


def command(corpus, out, *options):
    options = ["--source-lang", "xx", "--target-lang", "yy", "--merges", "4", *options]
    return ["bash", str(QUICKSTART), "--corpus", str(corpus), "--out", str(out), *options]


def run(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300)


@pytest.fixture
def project(tmp_path):
    """A project whose environment is made and whose preparations and trainings are pretended, without Python."""
    project = make_project(tmp_path / "a project")
    code = project / "ea_fairseq"
    (code / "kernels").unlink()
    (code / "kernels/cpu").mkdir(parents=True)
    for name in ("setup.py", "constraints.txt", "ea_fairseq/kernels/cpu/code.c"):
        (project / name).touch()
    (project / ".venv").mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (project / name).rename(project / ".venv" / name)
    programs = project / ".venv/bin"
    (programs / "python").rename(programs / "true-python")
    (programs / "python").write_text(PYTHON.format(programs / "true-python"))
    (programs / "python").chmod(0o755)
    (project / ".venv/complete").write_bytes(subprocess.run("cksum", input=b"", capture_output=True).stdout)
    (project / "data-prep").mkdir()
    (project / "data-prep/prepare-corpus.sh").write_text(PREPARE)
    shutil.copy(ROOT / "data-prep/plan.sh", project / "data-prep")
    (project / "ea_fairseq/experiments/recipes/datasets/toy.recipe").rename(
        project / "ea_fairseq/experiments/recipes/datasets/quickstart.recipe"
    )
    (project / "scripts/evaluate.sh").write_text("exit 1")
    return project


def test_other_data_or_settings_are_refused_before_they_take_the_place_of_those_there(project, corpus, tmp_path):
    corpus, out = shutil.copytree(corpus, tmp_path / "my[v2]"), tmp_path / "an out [1]"
    _, *options = map(str, command(corpus, out)[1:])

    def error(*others):
        status, _, errors = finish(start(project, "quickstart.sh", *options, *others))
        assert status == 1
        return errors

    assert "evaluating transformer_lite failed" in error()  # after both trainings
    checkpoint, text = out / "transformer_lite/checkpoint_last.pt", out / "data/my[v2]/data-bin/train.xx"
    before = checkpoint.stat().st_mtime_ns, text.stat().st_mtime_ns
    assert "transformer_lite is a training with other settings" in error("--max-tokens", "7")
    (corpus / "train.xx").write_text("others\n")
    assert "transformer_lite is a training with other settings, on other data" in error()
    assert (checkpoint.stat().st_mtime_ns, text.stat().st_mtime_ns) == before


@pytest.mark.slow
@pytest.mark.skipif(
    not (ROOT / ".venv" / "complete").exists(), reason="needs the environment .venv that scripts/test.sh makes"
)
def test_report_resume_and_repetition(corpus, tmp_path):
    out = tmp_path / "an out"
    options = ["--max-update", "6", "--max-tokens", "100"]
    with (tmp_path / "log").open("w") as log:
        killed = subprocess.Popen(command(corpus, out, *options), stdout=log, start_new_session=True)
        while not (out / "ea_transformer_lite" / "run.json").exists():
            assert killed.poll() is None
            time.sleep(0.2)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    resumed = run(corpus, out, *options)
    assert resumed.returncode == 0, resumed.stderr
    for needed in (
        "BLEU",
        "2,485,224",
        "162.97M",
        "training, target words/s",
        "sacreBLEU nrefs:1",
        "reference",
        ONE_SEED,
    ):
        assert needed in resumed.stdout
    for model in ("transformer_lite", "ea_transformer_lite"):
        assert re.search(rf"^{model}  6/6 updates  BLEU [\d.]+  done$", resumed.stdout, re.MULTILINE)
    assert "INFO" not in resumed.stdout
    page = (out / "report" / "report.html").read_text()
    assert "difference</th>" not in page
    assert "<td>ea_transformer_lite</td><td>2.49M</td><td>162.97M</td>" in page
    assert f"{out}/report/report.html" in resumed.stdout
    checkpoint = out / "ea_transformer_lite" / "checkpoint_last.pt"
    written = checkpoint.stat().st_mtime_ns
    again = run(corpus, out, *options)
    assert again.returncode == 0, again.stderr
    assert checkpoint.stat().st_mtime_ns == written
    assert report(again.stdout) == report(resumed.stdout)
    other_seed = run(corpus, out, *options, "--seed", "2")
    assert other_seed.returncode == 1 and "transformer_lite is a training with other settings" in other_seed.stderr
    assert checkpoint.stat().st_mtime_ns == written


def report(output: str) -> str:
    return output[output.index("transformer_lite  ea_transformer_lite") :].rpartition("all of this")[0][:-9]


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (["--max-update", "many"], "--max-update"),
        (["--corpus", "/nowhere"], "--corpus"),
        (["--seed", "-1"], "--seed"),
        (["--colour"], "--colour"),
        (["--source-lang", "fi"], "--corpus"),
        (["--merges"], "--merges"),
        (["--model", "transformer_lite"], "--model"),
    ],
)
def test_bad_options_are_named_in_one_sentence(options, flag, tmp_path):
    out = tmp_path / "out"
    failed = subprocess.run(["bash", QUICKSTART, "--out", out, *options], capture_output=True, text=True)
    assert failed.returncode != 0
    assert flag in failed.stderr
    assert len(failed.stderr.strip().splitlines()) == 1
    assert not out.exists()


def test_help_has_an_example():
    usage = subprocess.run(["bash", QUICKSTART, "--help"], capture_output=True, text=True, check=True).stdout
    assert "example:" in usage
    assert "--max-update" in usage
