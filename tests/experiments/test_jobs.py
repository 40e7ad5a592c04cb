"""scripts/sweep.sh and ablation.sh train and evaluate many models, survive kills and failures, and repeat nothing."""

import os
import random
import re
import shlex
import signal
import sys
import time
from argparse import Namespace
from dataclasses import replace
from statistics import mean
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import SIZES, program
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.reports.comparison_table import ranking, ranking_table
from ea_fairseq.experiments.runs import ablation
from ea_fairseq.experiments.runs.jobs import Jobs
from ea_fairseq.experiments.runs.recipe import Recipe
from ea_fairseq.experiments.runs.training_run import TrainingRun
from ea_fairseq.plain.output_folder import OutputFolder
from projects import (
    finish,
    is_at_work,
    kill_group,
    make_project,
    refusal,
    results,
    score_of,
    start,
    succeed,
    wait_until,
    words,
)
from reversal import DATA

RECIPE = "toy/ea_transformer_lite"
TWO = ["sweep.sh", RECIPE, "--try", "--lr", "1", "2", "--jobs", "2"]
ROWS = {
    "transformer_lite": [],
    "ea_transformer_lite": [],
    "w/o encoder convolution": ["--no-encoder-conv"],
    "w/o decoder convolution": ["--no-decoder-conv"],
    "w/o encoder-decoder convolution": ["--no-cross-conv"],
    "w/o skip connection": ["--no-encoder-skip"],
    "with 1x1": ["--ea-kernel-size", "1"],
    "with 5x5": ["--ea-kernel-size", "5"],
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("a home") / "a project")


def runs_in(out) -> list:
    return sorted(path.parent for path in out.glob("*/seed-*/starts"))


def starts(out) -> list[list[str]]:
    return [line for run in runs_in(out) for line in words(run, "starts")]


def test_a_sweep_trains_every_combination_and_ranks_them(project, tmp_path):
    out = tmp_path / "an out"
    search = [RECIPE, "--try", "--lr", "1e-4", "1e-3", "--try", "--adam-betas", "(0.9, 0.98)", "--seeds", "1,2"]
    of_all = ["--max-epoch", "3", "--user-dir", "mine"]
    output = succeed(project, "sweep.sh", *search, "--out", out, "--devices", "cpu", "--", *of_all)
    betas = ["--adam-betas", "(0.9, 0.98)", *of_all, "--seed"]
    asked = {tuple(TrainingRun.read(run).overrides) for run in runs_in(out)}
    assert asked == {("--lr", lr, *betas, seed) for lr in ("1e-4", "1e-3") for seed in "12"}
    for run in runs_in(out):
        scored = " ".join(words(run, "evaluations")[0])
        assert scored == f"{project}/data/toy/data-bin {run} --subset valid --out {run}/validation --user-dir mine"

    scores = {}
    for run in runs_in(out):
        model, score = score_of(run / "validation")
        scores.setdefault(model, []).append(score)
    table = output[output.index("model ") :].splitlines()
    best_first = sorted(scores, key=lambda model: -mean(scores[model]))
    assert [line.split("  ")[0] for line in table[1:3]] == best_first
    assert f"{mean(scores[best_first[0]]):.2f}" in table[1]

    again = succeed(project, "sweep.sh", *search, "--out", out, "--devices", "cpu", "--", *of_all)
    assert again.count("already done") == 4
    assert again[again.index("model ") :].splitlines() == table
    assert len(starts(out)) == 4


@given(st.permutations([("a", 1, 20.0), ("a", 2, 22.0), ("b", 1, 21.0), ("c", 1, 30.0)]))
def test_the_ranking_is_by_the_mean_of_the_seeds_then_by_name_in_any_order(tmp_path_factory, found):
    ranked = ranking([results(None, *result) for result in found])
    assert ranked == [("c", [30.0]), ("a", [20.0, 22.0]), ("b", [21.0])]


@pytest.mark.parametrize(
    ("changes", "flaw"), [({"subset": "test"}, "valid and .* test: compare"), ({"checksum": "b"}, "different data")]
)
def test_scores_of_different_sentences_are_not_ranked(tmp_path, changes, flaw):
    for model in ("a", "b"):
        (tmp_path / model).mkdir()
        found = results(tmp_path / model, model, 1, 20.0)
        replace(found, dataset=replace(found.dataset, **(changes if model == "b" else {}))).write()
    with pytest.raises(UserError, match=flaw):
        ranking_table([tmp_path / "a", tmp_path / "b"])


def test_the_ablation_is_the_eight_rows_of_the_papers(project, tmp_path):
    output = succeed(project, "ablation.sh", project / "data/toy/data-bin", "--seeds", "4", "--out", tmp_path / "out")
    found = {TrainingRun.read(run).model: TrainingRun.read(run).overrides for run in runs_in(tmp_path / "out")}
    assert found == {label: [*flags, "--seed", "4"] for label, flags in ROWS.items()}
    for run in runs_in(tmp_path / "out"):
        assert "--subset" not in words(run, "evaluations")[0], "the recipe says on what it is scored"
        baseline = TrainingRun.read(run).model == "transformer_lite"
        assert TrainingRun.read(run).recipe == ("toy/transformer_lite" if baseline else RECIPE)
    assert f"ea-fairseq report {tmp_path}/out/*/*/evaluation" in output


@pytest.mark.slow
def test_the_ablation_of_an_encoder_leaves_out_what_is_about_a_decoder(project, tmp_path):
    succeed(project, "ablation.sh", "--encoder", project / "data/toy/data-bin", "--out", tmp_path / "out")
    found = {TrainingRun.read(run).model for run in runs_in(tmp_path / "out")}
    assert found == {label for label, flags in ROWS.items() if not {"--no-decoder-conv", "--no-cross-conv"} & {*flags}}
    assert len(found) == 6


def test_one_that_fails_is_told_at_the_end_and_the_others_go_on(project, tmp_path):
    mine = tmp_path / "mine.recipe"
    mine.write_text("[train]\n--broken\n--seed 1\n")
    command = ["ablation.sh", project / "data/toy/data-bin", "--seeds", "1", "--out", tmp_path / "out", "--jobs", "3"]
    status, output, errors = finish(start(project, *command, "--baseline-recipe", mine))
    assert status == 1
    assert errors.startswith("ablation: 1 of 8 failed: ") and len(errors.splitlines()) == 1
    assert output.count(": done\n") == 7
    (told,) = [line for line in output.splitlines() if "mine/seed-1 failed, see " in line]
    assert told.endswith(f"see {tmp_path}/out/logs/mine.seed-1.log, which ends: fairseq-train: it is broken.")

    mine.write_text("[train]\n--lr 1\n--seed 1\n")
    output = succeed(project, *command, "--baseline-recipe", mine)
    assert output.count("already done") == 7 and output.count(": done\n") == 1


def test_a_log_that_cannot_be_opened_ends_all_jobs_with_that_error(tmp_path):
    (tmp_path / "data").mkdir()
    args = Namespace(seeds=["1", "2"], devices=["cpu"], jobs=2)
    with OutputFolder(tmp_path / "out", "sweep").opened() as out:
        jobs = Jobs(out, tmp_path / "data", args, [])
        jobs.add("model", Recipe("toy/model", ""), [])
        for job in jobs.jobs:
            jobs.log(job).mkdir()
        with pytest.raises(IsADirectoryError):
            jobs.run()


@pytest.mark.parametrize(
    ("flags", "baseline"),
    [
        (["--recipe", "digits/ea_vit"], "digits/vit"),
        (["--recipe", "multi30k-deen/ea_transformer_lite"], "multi30k-deen/transformer_lite"),
        (["--recipe", "digits/ea_vit", "--baseline-recipe", "digits/vit_conv"], "digits/vit_conv"),
    ],
)
def test_the_baseline_is_the_model_without_ea_unless_another_is_named(tmp_path, monkeypatch, flags, baseline):
    asked = []
    monkeypatch.setattr(ablation.Recipe, "find", lambda name: asked.append(name) or Recipe(name, ""))
    monkeypatch.setattr(ablation, "Jobs", MagicMock())
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(sys, "argv", ["ablation", *flags, str(tmp_path / "data"), "--out", str(tmp_path / "out")])
    ablation.main()
    assert asked == [flags[1], baseline]


def test_each_training_has_a_device_and_no_more_run_at_once_than_there_are(project, tmp_path):
    search = ["sweep.sh", RECIPE, "--try", "--lr", "1", "2", "3", "4", "5", "--out"]
    output = succeed(project, *search, tmp_path / "gpus", "--devices", "3,5", PAUSE="0.1")
    busy = {}
    for folder, step, device in re.findall(r"(lr_\d)/seed-1: (train|done|evaluate)(?: on device (\d))?", output):
        busy |= {folder: device}
        if step == "done":
            del busy[folder]
        assert len(set(busy.values())) == len(busy) <= 2
    assert {line[2] for line in starts(tmp_path / "gpus")} == {"3", "5"}
    assert {line[1] for line in starts(tmp_path / "gpus")} == {"unset"}

    succeed(project, *search, tmp_path / "cores", "--devices", "cpu", "--jobs", "1")
    cores = len(os.sched_getaffinity(0))
    assert {line[1] for line in starts(tmp_path / "cores")} == {str(cores)}
    assert {line[2] for line in starts(tmp_path / "cores")} == {"glibc.malloc.hugetlb=1"}, "no device is visible"


@pytest.mark.parametrize("name", ["manifest.json", "train.src-tgt.src.idx"])
def test_other_data_do_not_pass_for_what_was_scored(project, tmp_path, name):
    file, search = project / "data/toy/data-bin" / name, ["sweep.sh", RECIPE, "--try", "--lr", "1"]
    file.write_text("some")
    succeed(project, *search, "--out", tmp_path)
    file.write_text("others")
    status, output, _ = finish(start(project, *search, "--out", tmp_path))
    file.unlink()
    assert status == 1 and "made anew" in output


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([*TWO, "--", "--seed", "7"], "name the seeds with --seeds"),
        (["ablation.sh", "data", "--", "--seed", "7"], "name the seeds with --seeds"),
        ([*TWO, "--seeds", "1,01"], "--seeds: needs whole numbers"),
        ([*TWO[:5], "1", "1"], "lr_1/seed-1 would be trained twice: give each seed and each value once"),
        (["sweep.sh", RECIPE, "--try", "--seed", "1", "2"], "--seed does not change the model"),
        (["sweep.sh", RECIPE, "--try", "--autocast", "fp16"], "--autocast does not change the model"),
        (["sweep.sh", "--try", "--lr", "1"], "RECIPE"),
        (["ablation.sh"], "DATA_BIN"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(project, arguments, reason):
    assert reason in refusal(project, *arguments)


def test_other_flags_do_not_pass_for_what_was_done(project, tmp_path):
    search = ["sweep.sh", RECIPE, "--try", "--lr", "1", "--out", tmp_path]
    succeed(project, *search)
    status, output, _ = finish(start(project, *search, "--", "--clip-norm", "3"))
    assert status == 1
    assert "holds a training by another command" in output


def test_what_was_done_is_done_in_a_project_that_was_moved(tmp_path):
    project = make_project(tmp_path / "a project")
    succeed(project, *TWO)
    moved = project.rename(tmp_path / "another name")
    assert succeed(moved, *TWO).count("already done") == 2


@pytest.mark.parametrize("step", ["starts", "evaluations"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_what_stops_a_sweep_stops_all_that_it_started(project, tmp_path, number, step):
    pause = {"starts": "PAUSE", "evaluations": "EVALUATION_PAUSE"}[step]
    sweep = start(project, *TWO, "--out", tmp_path, **{pause: "60"})
    wait_until(lambda: all(len(words(tmp_path / f"lr_{lr}/seed-1", step)) == 1 for lr in (1, 2)))
    sweep.send_signal(number)
    status, output, errors = finish(sweep)
    assert (status, errors) == (128 + number, "")
    assert "run the same command again to resume" in output
    assert not is_at_work(sweep.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux, which ends a process with its parent")
def test_no_training_outlives_a_sweep_that_is_killed(project, tmp_path):
    sweep = start(project, *TWO, "--out", tmp_path, PAUSE="3")
    wait_until(lambda: len(starts(tmp_path)) == 2)
    sweep.kill()
    finish(sweep)
    wait_until(lambda: not is_at_work(sweep.pid))  # the sleep of the pretended trainings ends by itself
    assert not list(tmp_path.glob("*/*/updates"))


def kill_again_and_again(project, out, command, kills, longest, **variables) -> list:
    """Kills a script and all it started, each time at another moment; returns the runs that were done by then."""
    for kill in range(kills):
        process = start(project, *command, **variables)
        wait_until(lambda least=kill: len(starts(out)) > least)
        time.sleep(random.uniform(0, longest))
        kill_group(process)
    stamps = {path.name for path in (out / ".stages").glob("*.results.json")}
    return [run for run in runs_in(out) if f"{run.parent.name}.{run.name}.evaluation.results.json" in stamps]


def history(runs: list) -> list[tuple[list, list]]:
    return [(words(run, "starts"), words(run, "evaluations")) for run in runs]


@pytest.mark.slow
def test_an_ablation_of_real_trainings_killed_at_any_moment_repeats_nothing_that_was_done(home, tmp_path):
    project = make_project(tmp_path / "a project")
    fairseq = shlex.quote(str(program("fairseq-train")))
    wrapper = f'#!/usr/bin/env bash\necho $$ >>"$5/starts"\nexec {fairseq} "$@"\n'
    (project / "bin/fairseq-train").write_text(wrapper)
    toy = "[train lite]\n--optimizer adam\n--lr 0.01\n--max-tokens 60\n--seed 1\n"
    (project / "ea_fairseq/experiments/recipes/datasets/toy.recipe").write_text(toy)
    out = tmp_path / "an out"
    command = ["ablation.sh", home / DATA, "--recipe", RECIPE, "--seeds", "1", "--out", out, "--jobs", "2"]
    command += ["--devices", "cpu", "--", *SIZES, "--max-epoch", "3"]
    done = kill_again_and_again(project, out, command, kills=6, longest=15)
    before = history(done)
    output = succeed(project, *command)
    assert output.count("already done") == len(done)
    assert history(done) == before
    for run in runs_in(out):
        assert (run / "train.log").read_text().count("done training") == 1
        assert len(list(run.glob("checkpoint[1-9].pt"))) == 3
    assert len(runs_in(out)) == len(ROWS)
