"""scripts/train.sh starts, resumes and refuses trainings, and records what it did."""

import json
import os
import subprocess
from dataclasses import replace

import pytest

from commands import run_python
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.environment import gpus
from ea_fairseq.experiments.runs.data_checksum import data_checksum, dictionaries, is_same
from ea_fairseq.experiments.runs.training_run import Start, TrainingRun, record, require_dictionaries
from projects import DATASET, MODEL, finish, kill_group, make_project, refusal, start, succeed, wait_until, words

NAME = "toy/ea_transformer_lite"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("a home") / "a project")


def train(project, *arguments, **variables) -> str:
    return succeed(project, "train.sh", *arguments, **variables)


def test_a_training_is_recorded_resumed_and_not_repeated(project):
    run = project / "runs/toy/ea_transformer_lite/seed-1"
    killed = start(project, "train.sh", NAME, PAUSE="0.5")
    wait_until(lambda: (run / "checkpoint_last.pt").exists())
    ((pid, _, _, tunables, *_),) = words(run, "starts")
    assert int(pid) == killed.pid, "a kill of train.sh must end the training"
    assert tunables == "glibc.malloc.hugetlb=1"
    kill_group(killed)
    assert len(TrainingRun.read(run).starts) == 1

    train(project, NAME)
    assert [int(number) for (number,) in words(run, "updates")] == [1, 2, 3]
    recorded = TrainingRun.read(run)
    assert len(recorded.starts) == 2
    assert (recorded.model, recorded.recipe, recorded.overrides) == ("ea_transformer_lite", NAME, [])
    command = ["fairseq-train", f"{project}/data/toy/data-bin", "--user-dir", f"{project}/ea_fairseq"]
    command += ["--save-dir", str(run), "--log-file", f"{run}/train.log", "--log-format", "json"]
    assert recorded.command == [*command, "--arch", "ea_transformer_lite", "--lr", "1e-3", "--seed", "1"]
    model, dataset = MODEL.format(arch="ea_transformer_lite"), DATASET.replace("[train lite]", "[train]")
    assert (run / "recipe").read_text() == f"{model}\n{dataset}"

    assert "all is trained, nothing to do" in train(project, NAME)
    assert len(words(run, "starts")) == len(TrainingRun.read(run).starts) == 2


@pytest.mark.parametrize(
    ("flags", "folder", "model"),
    [
        (["--seed", "7"], "ea_transformer_lite/seed-7", "ea_transformer_lite"),
        (
            ["--user-dir", "/a b", "--lr=1", "--seed", "6"],
            "ea_transformer_lite_--lr_1/seed-6",
            "ea_transformer_lite --lr=1",
        ),
        (["--lr", "5e-4", "--seed=8"], "ea_transformer_lite_--lr_5e-4/seed-8", "ea_transformer_lite --lr 5e-4"),
        (
            ["--cpu", "--autocast", "bf16", "--fast-dropout", "--seed", "9"],
            "ea_transformer_lite/seed-9",
            "ea_transformer_lite",
        ),
    ],
)
def test_folder_and_name_tell_models_and_seeds_apart(project, flags, folder, model):
    train(project, NAME, *flags)
    recorded = TrainingRun.read(project / "runs/toy" / folder)
    assert recorded.model == model
    assert recorded.overrides == flags == recorded.command[-len(flags) :]


def test_a_recipe_may_be_a_file_and_all_folders_may_be_named(project, tmp_path):
    recipe = tmp_path / "mine.recipe"
    recipe.write_text(f"  [train]  \n# why\n\n--lr   1e-3\r\n--eval-bleu-args {json.dumps({'beam': 5})}\n--seed 3")
    (tmp_path / "my data").mkdir()
    out = project.parent / "a relative run"
    train(project, "--data", tmp_path / "my data", recipe, "--out", out.name, "--max-epoch", "2", "--model", "my model")
    recorded = TrainingRun.read(out)
    assert recorded.command[1] == str(tmp_path / "my data")
    assert recorded.command[-8:-2] == ["--lr", "1e-3", "--eval-bleu-args", '{"beam": 5}', "--seed", "3"]
    assert (recorded.model, recorded.recipe) == ("my model", "mine")
    assert str(out) in recorded.command


def test_another_training_in_the_folder_is_left_as_it_is(project, tmp_path):
    out = tmp_path / "run"
    train(project, "--out", out, NAME)
    before = {path: path.read_bytes() for path in out.iterdir()}
    sentence = refusal(project, "train.sh", "--out", out, NAME, "--lr", "5e-4", "--fp16")
    found = "holds a training by another command (--fp16 not given there, given here; --lr 1e-3 there, 5e-4 here)"
    assert sentence.endswith(f"{found}: give another --out.")
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    (out / "run.json").unlink()
    assert "holds other checkpoints" in refusal(project, "train.sh", "--out", out, NAME)


def test_with_another_end_the_training_goes_on(project, tmp_path):
    train(project, "--out", tmp_path, NAME)
    train(project, "--out", tmp_path, NAME, "--max-update", "4", "--patience=2")
    recorded = TrainingRun.read(tmp_path)
    assert recorded.command[-3:] == ["--max-update", "4", "--patience=2"]
    assert len(words(tmp_path, "starts")) == len(recorded.starts) == 2


def test_another_end_that_was_not_reached_is_not_taken_for_the_one_before(project, tmp_path):
    train(project, "--out", tmp_path, NAME)
    run = TrainingRun.read(tmp_path)
    longer = replace(run, command=[*run.command, "--max-epoch", "20"])
    assert record(longer, tmp_path)  # and is killed before it logs anything
    assert record(longer, tmp_path)


@pytest.fixture
def trained(tmp_path) -> TrainingRun:
    """A training of 1,000 updates in 7 epochs that has ended."""
    (tmp_path / "checkpoint_last.pt").touch()
    run = TrainingRun("m", "r", [], ["fairseq-train", "data", "--max-update", "1000"], [])
    replace(run, starts=[Start("2020-01-01T00:00:00+00:00", None, "a device", {})]).write(tmp_path)
    entry = {"epoch": 7, "train_loss": "2", "train_num_updates": "1000"}
    (tmp_path / "train.log").write_text(f"{json.dumps(entry)}\ndone training in 9 seconds\n")
    return run


@pytest.mark.parametrize("end", [["--max-update", "100"], ["--max-update=999"], ["--max-epoch", "6"]])
def test_an_end_before_what_is_trained_is_refused(tmp_path, trained, end):
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(UserError, match=r"is trained beyond --max-\w+ \d+, to \d+: give another --out"):
        record(replace(trained, command=["fairseq-train", "data", *end]), tmp_path)
    assert (tmp_path / "run.json").read_bytes() == before
    for later in (["--max-epoch", "7"], ["--max-update", "0"], ["--max-update", "2000"]):
        assert record(replace(trained, command=["fairseq-train", "data", *later]), tmp_path)


def test_a_training_is_the_same_by_a_link_to_the_project(tmp_path, trained):
    (tmp_path / "project").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "project")
    by_name, by_link = (
        replace(trained, command=["fairseq-train", f"{tmp_path}/{name}/data"]) for name in ("project", "link")
    )
    replace(by_name, starts=TrainingRun.read(tmp_path).starts).write(tmp_path)
    assert not record(by_link, tmp_path)


@pytest.mark.parametrize("data", ["data/toy/data-bin", "../data-bin"])
def test_a_training_is_the_same_in_a_project_that_was_moved(tmp_path, data):
    project = make_project(tmp_path / "a project")
    (project / data).mkdir(exist_ok=True)
    train(project, "--data", project / data, NAME, "--user-dir", project / "scripts")
    (tmp_path / "a folder").mkdir()
    if data.startswith(".."):
        (tmp_path / "data-bin").rename(tmp_path / "a folder/data-bin")
    moved = project.rename(tmp_path / "a folder/another name")
    assert "nothing to do" in train(moved, "--data", moved / data, NAME, "--user-dir", moved / "scripts")
    sentence = refusal(moved, "train.sh", "--data", moved / data, NAME, "--user-dir", tmp_path)
    assert f"--user-dir '{project}/scripts' there, {tmp_path} here" in sentence


def test_data_that_were_moved_are_known_by_their_checksum(tmp_path, trained):
    before = replace(trained, data="ab", starts=TrainingRun.read(tmp_path).starts)
    before.write(tmp_path)
    elsewhere = [trained.command[0], "/elsewhere", *trained.command[2:]]
    assert not record(replace(before, command=elsewhere), tmp_path)
    with pytest.raises(UserError, match=r"\(the data data there, /elsewhere here\)"):
        record(replace(before, command=elsewhere, data="cd"), tmp_path)


def test_what_has_lost_its_checkpoints_is_not_called_trained(tmp_path, trained):
    assert not record(trained, tmp_path)
    (tmp_path / "checkpoint_last.pt").rename(tmp_path / "checkpoint_best.pt")
    with pytest.raises(UserError, match=r"its checkpoint_last\.pt is gone: put it back, or remove that folder"):
        record(trained, tmp_path)
    (tmp_path / "checkpoint_best.pt").unlink()
    assert record(trained, tmp_path) and not (tmp_path / "train.log").exists()


def test_a_training_does_not_go_on_with_other_data(project, tmp_path):
    manifest = project / "data/toy/data-bin/manifest.json"
    manifest.write_text("some")
    train(project, "--out", tmp_path, NAME)
    manifest.write_text("others")
    assert "was before it was made anew: give another --out" in refusal(project, "train.sh", "--out", tmp_path, NAME)
    manifest.unlink()  # nobody knows
    train(project, "--out", tmp_path, NAME)


@pytest.mark.parametrize("name", ["train.de-en.de.idx", "input0/dict.txt", "Toy_TRAIN.ts", "label/valid.label"])
def test_data_without_a_manifest_are_known_by_their_files(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("some")
    before = data_checksum(tmp_path)
    (tmp_path / "shortlist").write_text("of no training")
    (tmp_path / "test.idx").write_text("nor this")
    assert data_checksum(tmp_path) == before
    (tmp_path / name).write_text("othr")
    assert is_same(before, data_checksum(tmp_path)) is False
    assert is_same(before, "ab") is is_same(None, before) is None, "nobody knows"


def test_large_files_are_known_by_their_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("ea_fairseq.experiments.runs.data_checksum.PART", 2)
    found = set()
    for text in ("abcdef", "abcdeg", "bbcdef", "abcdefg"):
        (tmp_path / "train.bin").write_text(text)
        found.add(data_checksum(tmp_path))
    assert len(found) == 4


def test_a_model_is_not_given_data_of_other_words(tmp_path):
    start = Start("2020-01-01T00:00:00+00:00", None, "a device", {})
    (tmp_path / "dict.en.txt").write_text("a 1\nb 1\n")
    (tmp_path / "manifest.json").write_text("some")
    run = TrainingRun("m", "r", [], ["fairseq-train"], [start], None, data_checksum(tmp_path), dictionaries(tmp_path))
    earlier = replace(run, dictionaries=None)  # which did not note them
    (tmp_path / "manifest.json").write_text("of other sentences")
    of_run, of_earlier = tmp_path / "run", tmp_path / "earlier"
    for folder, training in ((of_run, run), (of_earlier, earlier)):
        folder.mkdir()
        training.write(folder)
    require_dictionaries(of_run, tmp_path)
    with pytest.raises(UserError, match="is not what the model was trained on, or was made anew since"):
        require_dictionaries(of_earlier, tmp_path)
    (tmp_path / "dict.en.txt").write_text("b 1\na 1\n")
    with pytest.raises(UserError, match="is not what the model was trained on, or was made anew since"):
        require_dictionaries(of_run, tmp_path)
    (tmp_path / "manifest.json").unlink()
    require_dictionaries(of_earlier, tmp_path)  # nobody knows


def test_a_start_that_failed_before_it_saved_anything_is_forgotten(project, tmp_path):
    status, _, errors = finish(start(project, "train.sh", "--out", tmp_path, NAME, "--broken"))
    assert (status, errors) == (1, "fairseq-train: it is broken.\n")
    (tmp_path / "train.log").write_text("done training")
    train(project, "--out", tmp_path, NAME)
    recorded = TrainingRun.read(tmp_path)
    assert recorded.overrides == [] and len(recorded.starts) == 1
    assert (tmp_path / "train.log").read_text().count("done training") == 1


@pytest.mark.parametrize(
    ("recipe", "parts"),
    [
        ("--lr 1\n[train]\n", ["bad.recipe, line 1", "before the first section"]),
        ("[train]\n--seed 1\n\n[training]\n", ["bad.recipe, line 4", "no section [training]"]),
        ("[train]\n--seed 1\nlr 1e-3\n", ["bad.recipe, line 3", "'lr 1e-3' is no flag"]),
        ("[evaluate]\n--beam 5\n", ["bad.recipe", "no section [train]"]),
        ("[train]\n--lr 1\n", ["--seed", "bad.recipe"]),
    ],
)
def test_a_bad_recipe_is_refused_by_file_and_line(project, tmp_path, recipe, parts):
    (tmp_path / "bad.recipe").write_text(recipe)
    sentence = refusal(project, "train.sh", "--data", tmp_path, "--out", tmp_path / "run", tmp_path / "bad.recipe")
    assert all(part in sentence for part in parts), sentence
    assert not (tmp_path / "run").exists()


def test_missing_data_is_told_with_a_command_that_works_anywhere(project, tmp_path):
    (tmp_path / "my.recipe").write_text("[data]\nbash data-prep/prepare.sh data/none\n[train]\n--seed 1\n")
    sentence = refusal(project, "train.sh", tmp_path / "my.recipe")
    assert f"cd '{project}' && bash data-prep/prepare.sh data/none" in sentence
    (tmp_path / "none.recipe").write_text("[train]\n--seed 1\n")
    assert "no section [data]" in refusal(project, "train.sh", tmp_path / "none.recipe")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "name a recipe"),
        (["--colour", NAME], "--colour"),
        (["--out"], "--out needs a value"),
        (["toy/none"], "no recipe toy/none"),
        (["--data", "/none", NAME], "no folder /none"),
        ([NAME, "--seed"], "--seed needs a whole number"),
        ([NAME, "--seed", "one"], "--seed needs a whole number, not 'one'"),
        ([NAME, "--save-dir", "x"], "--out"),
        ([NAME, "--criterion=label_smoothed_cross_entropy", "--fast-dropout"], "ea_label_smoothed_cross_entropy"),
        ([NAME, "--lr", "1", "--out"], "--out needs a value"),
        ([NAME, "--long", "x" * 250], "too long for a disk: name another with --out"),
        (["--out", "/dev/null/x", NAME], "cannot write in /dev/null/x"),
    ],
)
def test_bad_options_are_named_in_one_sentence(project, arguments, part):
    assert part in refusal(project, "train.sh", *arguments)


@pytest.mark.parametrize(("visible", "seen"), [(None, ["A", "B, big"]), ("1", ["B, big"]), ("GPU-a", ["A"]), ("", [])])
def test_the_gpus_of_a_training_are_those_it_sees(tmp_path, monkeypatch, visible, seen):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf '0, GPU-a, A\\n1, GPU-b, B, big\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus() == seen


def test_help_has_an_example_and_the_recipes(project):
    usage = train(project, "--help")
    assert "example:\n  ea-fairseq train" in usage
    assert "recipes, DATASET/MODEL:\n  toy:\n    ea_transformer_lite transformer_lite\n" in usage


@pytest.mark.parametrize("command", ["train", "sweep", "ablation"])
def test_a_refusal_waits_for_no_library(tmp_path, command):
    code = (
        f"from ea_fairseq.experiments.runs import {command}; import sys; print({{'numpy', 'torch'}} & {{*sys.modules}})"
    )
    assert run_python(code, cwd=tmp_path).stdout == "set()\n"


def test_without_a_checkout_all_is_in_the_current_folder(tmp_path):
    installed, home = make_project(tmp_path / "installed"), tmp_path / "home"
    (installed / "setup.py").unlink()
    home.mkdir()
    for command in (["train", NAME], ["sweep", NAME, "--try", "--lr", "1"]):
        words = [
            installed / "bin/python",
            "-P",
            "-m",
            "ea_fairseq",
            *command,
            "--data",
            installed / "data/toy/data-bin",
        ]
        subprocess.run(
            words, cwd=home, env=os.environ | {"PYTHONPATH": str(installed)}, check=True, capture_output=True
        )
    assert TrainingRun.read(home / "runs" / NAME / "seed-1").called.startswith(f"ea-fairseq train {NAME} --data ")
    assert (home / "runs/sweep" / NAME / "lr_1/seed-1/validation/results.json").is_file()
