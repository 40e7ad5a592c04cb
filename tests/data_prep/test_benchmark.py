"""The benchmark measures every stage of the real script, on as much text as is asked for."""

import gzip
import json
import subprocess
import sys
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from corpora import environment, sentence

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "data-prep"))

from benchmarking.corpus import GROWTH, Corpus
from benchmarking.processes import memory, session
from benchmarking.projection import ENFR_BYTES, project

from benchmark import open_folder

BENCHMARK = Path(__file__).resolve().parents[2] / "data-prep/benchmark.py"
STAGES = ["tokenized/train", "bpe.codes", "subword/train", "cleaned/train", "data-bin"]
STAGES = ["archives/europarl-v7", "extracted/europarl-v7", *STAGES]


def write_corpus(folder: Path, size: int) -> Path:
    folder.mkdir()
    (folder / "train.de").write_text("".join(f"{sentence('de', number)}\n" for number in range(size)), encoding="utf-8")
    english = "".join(f"{sentence('en', number)}\n" for number in range(size))
    (folder / "train.en.gz").write_bytes(gzip.compress(english.encode()))
    return folder


def benchmark(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, BENCHMARK, *map(str, arguments)]
    return subprocess.run(command, env=environment(), cwd="/", capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_a_run_tells_what_every_stage_costs(tmp_path: Path):
    corpus, out = write_corpus(tmp_path / "a corpus", 30), tmp_path / "an out"
    result = benchmark("--corpus", corpus, "--pairs", 200, "--workers", 2, "--out", out, "--", "--compress")
    assert result.returncode == 0, result.stderr
    report = json.loads((out / "benchmark.json").read_text())
    assert report["machine"]["cores"] > 0
    (run,) = report["runs"]
    assert (run["pairs"], run["workers"], run["options"]) == (200, 2, ["--compress"])
    assert [stage["name"] for stage in run["stages"]] == STAGES
    assert sum(stage["seconds"] for stage in run["stages"]) < run["seconds"]
    for stage in run["stages"]:
        assert min(stage["seconds"], stage["bytes"]) > 0, stage
    last = run["stages"][-1]  # others can be too short to be seen at work
    assert 10**7 < last["memory"] < 10**10
    assert 0 < last["step_cpu"] < 2 * last["seconds"]
    assert run["disk"] > sum(stage["bytes"] for stage in run["stages"][1:])
    history = json.loads((out / "prepared/extracted/europarl-v7/history.json").read_text())
    assert history["steps"][-1]["kept"] == 200
    assert (out / "prepared/tokenized/train/text.de.gz").exists()
    assert "| data-bin |" in result.stdout


def test_a_session_is_what_a_process_started_and_nothing_else():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as leader:
        assert [process.pid for process in session(leader.pid)] == [leader.pid]
        assert memory(leader.pid) > 0
        leader.stdin.close()
    assert session(leader.pid) == []
    assert memory(leader.pid) == 0


def test_a_run_that_fails_says_so(tmp_path: Path):
    corpus = write_corpus(tmp_path / "corpus", 30)
    result = benchmark("--corpus", corpus, "--pairs", 50, "--out", tmp_path / "out", "--", "--max-length", "none")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("benchmark: the script ended with status 1")


def test_a_folder_without_text_is_refused(tmp_path: Path):
    result = benchmark("--corpus", tmp_path, "--out", tmp_path / "out")
    assert result.returncode == 1
    assert result.stderr.startswith("benchmark: ") and "train.de" in result.stderr and result.stderr.count("\n") == 1


def test_a_folder_of_other_files_is_left_as_it_is(tmp_path: Path):
    (tmp_path / "archives").mkdir()
    with pytest.raises(ValueError, match="holds other files: give a new folder with --out"):
        open_folder(tmp_path)
    open_folder(tmp_path / "out")
    (tmp_path / "out/archives").mkdir()
    open_folder(tmp_path / "out")  # that of an earlier run


def test_repeated_text_is_the_same_again(tmp_path: Path):
    corpus = Corpus(write_corpus(tmp_path / "corpus", 30))
    pairs = list(corpus.pairs())
    assert list(islice(corpus.repeated(), 75)) == [*pairs, *pairs, *pairs[:15]]


def test_types_grow_with_distinct_text(tmp_path: Path):
    chance, size, text = Random(1), 2000, {"de": "", "en": ""}
    words = ["".join(chance.choices("abcdefgh", k=chance.randint(3, 12))) for _ in range(3000)]
    for language in text:
        text[language] = "".join(f"{' '.join(chance.choices(words, k=5))}\n" for _ in range(size))
        (tmp_path / f"train.{language}").write_text(text[language])
    corpus = Corpus(tmp_path)
    pairs = list(islice(corpus.growing(), 4 * size))
    types = [len({word for pair in part for line in pair for word in line.split()}) for part in (pairs[:size], pairs)]
    assert types[1] / types[0] == pytest.approx(4**GROWTH, rel=0.05)
    assert list(islice(corpus.growing(), 4 * size)) == pairs
    assert pairs[:size] == list(corpus.pairs())


def test_projection_shares_out_what_workers_do():
    stages = [
        {"name": "tokenized/train", "step_cpu": 36, "workers_cpu": 360},
        {"name": "bpe.codes", "step_cpu": 72, "workers_cpu": 18},
    ]
    run = {"bytes": ENFR_BYTES / 100, "disk": 5, "stages": stages}
    for cores in (2, 32):
        projection = project(run, cores)
        assert projection["hours"]["tokenized/train"] == pytest.approx(1 + 10 / cores)
        assert projection["hours"]["bpe.codes"] == pytest.approx(0.02 * 100**GROWTH + 0.5 / cores)
        assert projection["hours"]["all"] == pytest.approx(sum(list(projection["hours"].values())[:-1]))
        assert projection["disk"] == 500
