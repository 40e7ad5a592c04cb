"""scripts/benchmark.py: what it measures, writes and prints, its page of report.py, and one sentence for what fails."""

import json
import math
import os
import re
import signal
import sys
import xml.etree.ElementTree as ElementTree
from multiprocessing.forkserver import ForkServer

import pytest
from matplotlib.container import BarContainer

import forked
from commands import ROOT
from drawn_figures import error_bars
from ea_fairseq.attention import registry
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark import command, workers
from ea_fairseq.experiments.benchmark.cases import (
    ENCODER_PARTS,
    ENCODER_SIZES,
    EVOLVING,
    PARTS,
    PLAIN,
    UNTUNED,
    VARIANTS,
    Case,
    Plan,
    Settings,
    Variant,
)
from ea_fairseq.experiments.benchmark.figures import bars, figures
from ea_fairseq.experiments.benchmark.results import Benchmark
from ea_fairseq.experiments.benchmark.samples import Sample
from ea_fairseq.experiments.benchmark.tables import exponents, tables, time_table
from ea_fairseq.experiments.benchmark.workers import LeftOutError, Worker
from ea_fairseq.experiments.reports import report
from ea_fairseq.plain.memory import MEMORY_SETTINGS
from fake_benchmarks import fake_benchmark, fake_measurement
from fake_results import write_results

TINY = ["--sizes", "lite", "--lengths", "4", "--tokens", "12", "--seconds", "0", "--dictionary", "20"]
BLOCK = Case("block", "lite", length=4, sentences=3)
SETTINGS = Settings(dictionary=20, seconds=0, rounds=1, attempts=1)


@pytest.fixture
def processes(monkeypatch):
    """Those that measure, forked from one that has imported fairseq already; all have ended when the test does."""
    started = []
    start = Worker.__init__

    def keep(worker, *arguments):
        start(worker, *arguments)
        started.append(worker._process)

    monkeypatch.setattr(workers, "prepare_processes", lambda *_: forked.context)
    monkeypatch.setattr(Worker, "__init__", keep)
    yield started
    assert not any(process.is_alive() for process in started)


@pytest.fixture
def benchmark(monkeypatch, capsys, tmp_path):
    """Runs the command in this process; returns what it printed and what it wrote."""

    def run(*flags: str) -> tuple[str, Benchmark]:
        out = tmp_path / "made for it" / "speed.json"
        monkeypatch.setattr(sys, "argv", ["benchmark.py", *flags, "--out", str(out)])
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        command.main()
        return capsys.readouterr().out, Benchmark.read(out)

    return run


def rows(text: str, title: str) -> dict[str, list[str]]:
    """The cells of a printed table by the name of the row; the last of a name counts."""
    lines = text.partition(f"\n{title}\n")[2].strip().split("\n\n")[0].splitlines()[1:]
    return {line.strip().split("  ")[0]: line.split()[-5:] for line in lines}


def test_a_run_from_start_to_end(processes, benchmark):
    text, found = benchmark("--quick", "--only", "block,memory", "--rounds", "2", *TINY)
    assert [(one.case.part, len(one.rounds)) for one in found.measurements] == [("block", 2), ("training", 0)]
    assert found.settings.rounds == 2
    assert "QUICK" in text
    assert "batch" in text
    assert found.command.startswith("ea-fairseq benchmark --quick")
    names = [variant.name for variant in VARIANTS["block"][:3]]
    assert [list(taken) for taken in found.measurements[0].rounds] == [names, names[::-1]]
    costs = found.measurements[1].costs
    assert costs[PLAIN.name].operations == costs[UNTUNED.name].operations != costs[EVOLVING.name].operations
    assert costs[PLAIN.name].saved == costs[UNTUNED.name].saved != costs[EVOLVING.name].saved
    assert rows(text, "Memory and operations")[PLAIN.name][-1] == "1.000"
    assert len(processes) == 3 + 5


def test_a_worker_that_dies_ends_with_a_sentence(processes):
    worker = Worker(BLOCK, EVOLVING, SETTINGS)
    worker.answer()
    processes[0].kill()
    with pytest.raises(UserError, match="EA has ended") as stopped:
        worker.ask("sample")
    assert "\n" not in str(stopped.value)
    worker.close()


@pytest.mark.parametrize(
    ("complaints", "reason"),
    [
        ("", "often because memory ran out"),
        ("functional.py:1: UserWarning: deprecated\n  mask = canonical(\n", "often because memory ran out"),
        ("Traceback (most recent call last):\n  x()\nMemoryError: 3 GiB\n", "MemoryError: 3 GiB"),
    ],
    ids=["nothing", "a warning", "an exception"],
)
def test_why_a_worker_has_ended(complaints, reason, processes):
    worker = Worker(BLOCK, EVOLVING, SETTINGS)
    processes[0].kill()
    processes[0].join()
    worker._log.write_text(complaints)
    with pytest.raises(UserError, match=rf"^the process that measures EA has ended \({reason}\): measure less"):
        worker.answer()
        worker.ask("sample")
    worker.close()


def test_a_worker_is_ended_at_work(processes):
    worker = Worker(BLOCK, EVOLVING, SETTINGS)
    worker.answer()
    assert worker.ask("warm_up", 3600.0) >= 3600
    worker.tell("sample")
    worker.close()


def test_ctrl_c_leaves_no_process(processes):
    def interrupt(_):
        assert all(process.is_alive() for process in processes)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        workers.measure(BLOCK, (PLAIN, EVOLVING), SETTINGS, interrupt)
    assert len(processes) == 2


def test_what_cannot_run_is_left_out_and_what_fails_is_named(processes):
    odd = Variant("odd", criterion="no_such_criterion")
    found = workers.measure(BLOCK, (PLAIN, odd), SETTINGS, print)
    assert found.names == [PLAIN.name]
    assert "no_such_criterion" in found.left_out["odd"]
    worker = Worker(BLOCK, odd, SETTINGS)
    with pytest.raises(LeftOutError):
        worker.answer()
    with pytest.raises(UserError, match=r"odd could not be measured \(AttributeError"):
        worker.ask("sample")
    worker.close()


@pytest.mark.parametrize("tuned", [True, False])
def test_a_process_has_the_threads_and_the_allocator_of_its_variant(tuned, monkeypatch):
    monkeypatch.setattr(os, "environ", dict.fromkeys((*MEMORY_SETTINGS, "MALLOC_ARENA_MAX"), "1") | {"HOME": "/"})
    monkeypatch.setattr(ForkServer, "set_forkserver_preload", lambda *_: None)
    context = workers.prepare_processes(tuned, threads=3)
    assert os.environ == {"HOME": "/", "OMP_NUM_THREADS": "3"} | (MEMORY_SETTINGS if tuned else {})
    assert context.get_start_method() == ("forkserver" if tuned else "spawn")


def test_different_work_is_refused():
    with pytest.raises(UserError, match=r"Transformer 3, EA 4"):
        workers.require_same_work(BLOCK, {"Transformer": 3, "EA": 4})


@pytest.mark.parametrize("quick", [False, True])
def test_a_benchmark_survives_its_file(tmp_path, quick):
    made = fake_benchmark(quick=quick)
    made.write(tmp_path / "speed.json")
    assert Benchmark.read(tmp_path / "speed.json") == made
    assert [path.name for path in tmp_path.iterdir()] == ["speed.json"]


def test_files_from_before_int8_are_read(tmp_path):
    made = fake_benchmark(quick=False)
    made.write(path := tmp_path / "speed.json")
    assert '"precision": ""' in path.read_text()
    path.write_text(path.read_text().replace('"precision": ""', '"native_bf16": false'))
    assert Benchmark.read(path) == made


def test_every_part_compares_with_the_transformer_on_equal_terms():
    plan = Plan()
    for part in PARTS:
        names = [variant.name for variant in plan.variants(part)]
        assert names[0] == PLAIN.name
        assert len({*names}) == len(names)
    assert {case.size for part in PARTS for case in plan.cases(part)} == {"lite", "base"}
    for case in plan.cases("block"):
        assert abs(case.length * case.sentences - 4100) <= case.length / 2
    assert [(case.beam, case.sentences) for case in plan.cases("generation")][:3] == [(5, 128), (1, 128), (5, 1)]
    assert {case.length * case.sentences for case in plan.cases("training") if case.size == "base"} == {34 * 30}
    assert [case.sentences * case.length for case in Plan(("base",), (32,), 16384).cases("training")] == [16384]
    assert sum(len(Plan(quick=True).cases(part)) for part in PARTS) < sum(len(plan.cases(part)) for part in PARTS) / 2


def test_encoders_are_tuned_and_classify_in_all_sizes():
    plan = Plan(ENCODER_SIZES, families=("ea_transformer", "pa_transformer"))
    assert ENCODER_SIZES == registry.ENCODER_SIZES
    for part in ENCODER_PARTS:
        assert [variant.name for variant in plan.variants(part)] == [PLAIN.name, "EA", "pa_transformer"]
        assert {case.size for case in plan.cases(part)} == {*ENCODER_SIZES}
    made = fake_benchmark(parts=ENCODER_PARTS, sizes=("mini",))
    found = dict(tables(made))
    assert list(found) == ["Tuning a classifier", "Classification", "Memory and operations"]
    assert "fairseq's RoBERTa of the same size" in found["Classification"].notes[0]
    assert [name for name, *_ in figures(made)] == ["tuning", "inference"]


def test_tables_have_what_was_measured():
    made = dict(tables(fake_benchmark()))
    assert len(made) == 6
    block = {row[0].strip(): row for row in made["One self-attention, forward and backward"].rows}
    assert block["EA"][1:4:2] == ["4,961", "1.10"]  # of 41 sentences of 100 words, in the middle round
    training = {row[0].strip(): row for row in made["Training"].rows}
    assert training["EA"][3] == f"{1 / 1.1:.2f}"
    assert training[UNTUNED.name][-1] == "1.00"
    assert training["EA"][-1] == f"{1.5 / 1.1:.2f}"
    memory = {row[0].strip(): row for row in made["Memory and operations"].rows if row[3]}
    assert memory["EA"][3:] == ["+3.00", "1,250", "1.250"]
    assert all(row[1:] == ["2.00", "2.00"] for row in made["Exponents of growth"].rows)
    assert len({*exponents(fake_benchmark().of("growth"))}) == 2 * 3
    shorter = fake_benchmark().of("growth")
    longest = max(found.case.length for found in shorter)
    left_out = shorter[0].names[-1]
    for found in shorter:
        if found.case.length == longest:
            found.variants[:] = [variant for variant in found.variants if variant.name != left_out]
            del found.costs[left_out]
    assert left_out in {name for _, name, *_ in exponents(shorter)}


def test_bars_are_where_the_tables_say():
    plan = Plan()
    training = fake_measurement(plan.cases("training")[0], plan)
    for noise, taken in zip((1.0, 1.3, 1.1), training.rounds, strict=True):
        taken |= {name: Sample(taken[name].seconds * noise, 0.0) for name in training.names[1:]}
    (lengths,) = (found for found in bars([training]).axes[0].containers if isinstance(found, BarContainer))
    ends = [tuple(end[0] for end in bar) for bar in error_bars(lengths.errorbar)]
    middles = [bar.get_width() for bar in lengths]
    drawn = list(zip(middles, ends, strict=True))[1:]
    rows = time_table([training], limit=0.06).rows[2:]
    assert [row[3:5] for row in rows] == [[f"{y:.2f}", f"{low:.2f} - {high:.2f}"] for y, (low, high) in drawn]
    assert all(y - low > 0.05 or high - y > 0.05 for y, (low, high) in drawn)


def test_a_busy_machine_is_told():
    quiet, busy = (
        "\n".join(note for _, table in tables(fake_benchmark(others)) for note in table.notes) for others in (0.0, 0.5)
    )
    assert busy.count("NOT ON A QUIET MACHINE") == len(PARTS)
    assert "QUIET" not in quiet


def test_the_report_draws_a_benchmark(tmp_path, monkeypatch, capsys):
    fake_benchmark().write(tmp_path / "speed.json")
    monkeypatch.setattr(sys, "argv", ["report.py", "--out", str(tmp_path / "out"), str(tmp_path / "speed.json")])
    report.main()
    printed = capsys.readouterr().out.splitlines()
    written = {path.name for path in (tmp_path / "out").rglob("*") if path.is_file()}
    figures = {
        f"speed-{name}.{kind}" for name in ("block", "training", "generation", "growth") for kind in ("png", "svg")
    }
    assert written == figures | {"report.html"} == {line.rpartition("/")[2] for line in printed}
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert page.count("<img ") == 4
    assert "some processor" in page
    for path in (tmp_path / "out/figures").glob("*.svg"):
        ElementTree.parse(path)


def test_a_report_is_of_one_kind(tmp_path, monkeypatch):
    fake_benchmark(quick=True).write(tmp_path / "speed.json")
    write_results(tmp_path / "model")
    monkeypatch.setattr(sys, "argv", ["report.py", str(tmp_path / "speed.json"), str(tmp_path / "model")])
    with pytest.raises(UserError, match=r"speed\.json"):
        report.main()


@pytest.mark.parametrize("spoil", [{"settings": None}, {"measurements": [{}]}, {"hardware": 1}, {"started": None}])
def test_a_spoilt_file_is_refused_in_a_sentence(tmp_path, spoil):
    fake_benchmark(quick=True).write(path := tmp_path / "speed.json")
    found = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in (found | spoil).items() if spoil != {"started": None}}))
    if spoil == {"started": None}:
        path.write_text("[]")
    with pytest.raises(UserError, match=r"speed\.json is not what") as refused:
        Benchmark.read(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        ([0.0, 0.0], "'seconds' must be positive"),
        ([math.nan, 0.0], "'seconds' must be positive"),
        ([1.0], "'rounds' must be lists of seconds and others"),
        (["1", 0.0], "'seconds' must be a number"),
        (None, "'rounds' must have a sample of each variant"),
    ],
)
def test_a_spoilt_sample_is_refused_in_a_sentence(tmp_path, sample, reason):
    fake_benchmark(quick=True).write(path := tmp_path / "speed.json")
    found = json.loads(path.read_text())
    taken = next(each["rounds"][0] for each in found["measurements"] if "Transformer" in each["rounds"][0])
    taken.pop("Transformer")
    path.write_text(json.dumps(found))
    if sample is not None:
        taken["Transformer"] = sample
        path.write_text(json.dumps(found))
    with pytest.raises(UserError, match=rf"speed\.json is not what .* \({reason}"):
        Benchmark.read(path)


REFUSED = {
    "choose from block, training": ["--only", "blocks"],
    "choose from lite, base": ["--sizes", "lite,huge"],
    "at least 2": ["--lengths", "30,1"],
    "--rounds": ["--rounds", "0"],
    "--limit": ["--limit", "-1"],
    "--device": ["--device", "tpu"],
    "is a folder": ["--out", str(ROOT)],
    "there is no option": ["--fast"],
    "choose from tiny": ["--encoders", "lite"],
    "--encoders: leave out --sizes": ["--encoders", "tiny", "--sizes", "lite"],
    "--only: training is not one of": ["--encoders", "tiny", "--only", "training"],
    "--only: tuning is not one of": ["--only", "tuning"],
    "--family shaw has no encoders": ["--encoders", "tiny", "--family", "shaw"],
    "shows no GPU": ["--device", "cuda"],
    "--models: give two": ["--models", "a,b"],
    "--models: give the folders of two": ["--models", "a", "--text", "b"],
    "--peer: compare on the CPU": ["--peer", "ctranslate2", "--device", "cuda"],
    "--native-bf16: compare on the CPU": ["--native-bf16", "--device", "cuda"],
    "run 'pip install ctranslate2'": ["--peer", "ctranslate2"],
}


@pytest.mark.parametrize("part", REFUSED)
def test_bad_flags_are_refused_in_one_sentence(part, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmark.py", *REFUSED[part]])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(command, "gpus", list)
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    with pytest.raises((UserError, SystemExit), match=re.escape(part)) as stopped:
        command.main()
    assert "\n" not in str(stopped.value)
