"""scripts/quickstart.sh on a tiny corpus: it ends with a report, resumes after a kill and repeats nothing."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ea_fairseq.errors import UserError
from ea_fairseq.experiments import quickstart
from ea_fairseq.experiments.reports.comparison_table import ONE_SEED
from projects import wait_until

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "scripts" / "quickstart.sh"
# The commands that the quick start calls, pretended: preparations are copies, trainings three updates.
COMMANDS = """
import os, shutil, sys, time
from hashlib import sha256
from pathlib import Path

command, *words = sys.argv[1:]
option = lambda name: words[words.index(name) + 1]
if command == "prepare":
    corpus, out = map(Path, words[-2:])
    stamp, text = out / ".stages/data-bin", b"".join(path.read_bytes() for path in sorted(corpus.iterdir()))
    checksum = sha256(text).hexdigest()
    if not stamp.exists() or stamp.read_text() != checksum:
        stamp.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(out / "data-bin", ignore_errors=True)
        shutil.copytree(corpus, out / "data-bin")
        stamp.write_text(checksum)
elif command == "train":
    out = Path(option("--out"))
    (out / "started").write_text(f"{os.getpid()} {os.environ['OMP_NUM_THREADS']}")
    if os.environ.get("FAILING") == out.name:
        sys.exit("train: it is broken.")
    time.sleep(float(os.environ.get("PAUSE", 0)))
    if not (out / "checkpoint_last.pt").exists():
        (out / "checkpoint_last.pt").write_text("3")
    with (out / "train.log").open("a") as log:
        print('x {"num_updates": "3", "loss": "2.5"}', file=log)
else:
    sys.exit(1)
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
def start(monkeypatch, corpus, tmp_path):
    """Runs the quick start in this process, with commands that are pretended; returns why it ended."""
    monkeypatch.setattr(quickstart, "own_command", lambda *words: [sys.executable, "-S", "-c", COMMANDS, *words])

    def start(*options, corpus=corpus, out=tmp_path / "an out [1]"):
        monkeypatch.setattr("sys.argv", ["quickstart", *command(corpus, out, "--max-update", "3", *options)[2:]])
        with pytest.raises(UserError) as ended:
            quickstart.main()
        return str(ended.value)

    return start


def test_other_data_or_settings_are_refused_before_they_take_the_place_of_those_there(start, corpus, tmp_path):
    corpus, out = shutil.copytree(corpus, tmp_path / "my[v2]"), tmp_path / "an out [1]"
    assert "evaluating transformer_lite failed" in start(corpus=corpus)  # after both trainings
    checkpoint, text = out / "transformer_lite/checkpoint_last.pt", out / "data/my[v2]/data-bin/train.xx"
    before = checkpoint.stat().st_mtime_ns, text.stat().st_mtime_ns
    assert "transformer_lite is a training with other settings" in start("--max-tokens", "7", corpus=corpus)
    (corpus / "train.xx").write_text("others\n")
    assert "transformer_lite is a training with other settings, on other data" in start(corpus=corpus)
    assert (checkpoint.stat().st_mtime_ns, text.stat().st_mtime_ns) == before


def test_models_are_trained_at_once_on_parts_of_the_cores_and_followed(start, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    start("--model", "shaw_lite")
    folders = [tmp_path / "an out [1]" / name for name in ("transformer_lite", "shaw_lite")]
    threads = {int((folder / "started").read_text().split()[1]) for folder in folders}
    assert threads == {(len(os.sched_getaffinity(0)) + 1) // 2}
    said = capsys.readouterr().out
    assert all(re.search(rf"^{folder.name} +3/3 updates  loss 2.50  done$", said, re.MULTILINE) for folder in folders)


def is_alive(process: int) -> bool:
    state = Path(f"/proc/{process}/stat")
    return state.exists() and state.read_text().split()[2] != "Z"


def test_a_training_that_fails_is_named_and_the_other_stopped(start, tmp_path, monkeypatch):
    monkeypatch.setenv("FAILING", "ea_transformer_lite")
    monkeypatch.setenv("PAUSE", "600")
    assert "training ea_transformer_lite failed (train: it is broken.): see " in start()
    other = tmp_path / "an out [1]/transformer_lite"
    assert not is_alive(int((other / "started").read_text().split()[0]))
    assert not (other / "checkpoint_last.pt").exists()  # stopped, not waited for


def test_trainings_die_with_the_quick_start(corpus, tmp_path):
    code = (
        "import sys\nfrom ea_fairseq.experiments import quickstart\n"
        "commands = sys.argv.pop(1)\n"
        "quickstart.own_command = lambda *words: [sys.executable, '-S', '-c', commands, *words]\n"
        "quickstart.main()"
    )
    options = command(corpus, tmp_path / "out", "--max-update", "3")[2:]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PAUSE": "600"}
    started = subprocess.Popen([sys.executable, "-c", code, COMMANDS, *options], env=environment)
    notes = [tmp_path / "out" / name / "started" for name in ("transformer_lite", "ea_transformer_lite")]
    wait_until(lambda: all(note.exists() and note.read_text() for note in notes))
    started.kill()
    started.wait()
    wait_until(lambda: not any(is_alive(int(note.read_text().split()[0])) for note in notes))


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
