"""What scripts read in a folder of checkpoints from others does nothing but what it is there for."""

import json
import math
import os
import subprocess
from argparse import Namespace
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import ROOT
from corpora import environment
from ea_fairseq.errors import UserError, printable
from ea_fairseq.experiments.reports.comparison import Comparison
from ea_fairseq.experiments.reports.results_page import keep
from ea_fairseq.experiments.runs.training_log import NAME as LOG
from ea_fairseq.experiments.runs.training_log import curves, speeds
from ea_fairseq.experiments.runs.training_run import Start, TrainingRun
from ea_fairseq.experiments.scoring.evaluation import commands
from ea_fairseq.experiments.scoring.results import COUNTS, Results, Score
from ea_fairseq.experiments.tables import markdown
from ea_fairseq.plain.project import PROJECT
from fake_results import make, write_results

ALLOWED = "--average 1\n--average-best 1\n--beam 5\n--lenpen 0.6\n--max-tokens 100\n--subset test\n--cpu\n"
REFUSED = {
    "--out /OUTSIDE/out": "--out",
    "--reference /OUTSIDE/secret": "--reference",
    "--model name": "--model",
    "--help": "--help",
    "--checkpoint ../secret": "--checkpoint",
    "--checkpoint /OUTSIDE/secret": "--checkpoint",
    "--checkpoint a.pt:b.pt": "--checkpoint",
    "--checkpoint --output=/OUTSIDE/out": "--checkpoint",
    "--checkpoint ..": "--checkpoint",
    "--subset ../test": "--subset",
    "--subset test,valid": "--subset",
    "--cpu /OUTSIDE": "--cpu",
    "--compound-split ../data": "--compound-split",
    "--beam": "--beam",
    "--beam 5 /OUTSIDE": "--beam",
    "--beam $(touch /OUTSIDE/made)": "--beam",
    "--lenpen 1;touch": "--lenpen",
    "--beam=5": "--beam=5",
    "--colour \x1b[31m": "--colour",
    "--beam \x1b[31m": "--beam",
}


@pytest.fixture
def home(tmp_path) -> Path:
    """'a run' has a checkpoint and a recipe from others, 'data' is our own, and 'secret' is none of theirs."""
    for name in ("a run", "data"):
        (tmp_path / name).mkdir()
    for name in ("a run/checkpoint_best.pt", "data/test.de-en.de.idx", "secret"):
        (tmp_path / name).write_text("a secret\n")
    return tmp_path


def files(home: Path) -> list[Path]:
    return sorted(home.rglob("*"))


def evaluate(home: Path, *options: str) -> str:
    """The one sentence of evaluate.sh, which refuses."""
    command = ["bash", ROOT / "scripts/evaluate.sh", *options, "data", "a run"]
    before = files(home)
    result = subprocess.run(command, cwd=home, env=environment(), capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1, result.stdout + result.stderr
    assert result.stderr.strip().isprintable() and "secret\n" not in result.stdout + result.stderr
    assert files(home) == before
    return result.stderr


@pytest.mark.parametrize("line", REFUSED)
def test_a_recipe_sets_what_it_may_and_nothing_else(home, line):
    (home / "a run/recipe").write_text(f"[evaluate]\n--beam 4\n{line.replace('/OUTSIDE', str(home))}\n")
    sentence = evaluate(home)
    assert REFUSED[line] in sentence
    if line.split()[0] in ("--out", "--reference", "--model", "--help", "--cpu", "--compound-split"):
        assert f"{home}/a run/recipe, line 3: " in sentence


def test_what_a_recipe_may_set_is_what_the_command_may_set_again(home):
    (home / "a run/recipe").write_text(f"[evaluate]\n{ALLOWED}")
    assert "--beam: needs a whole number of at least 1, not '0'" in evaluate(home, "--beam", "0")


@pytest.mark.parametrize("kind", ["link", "pipe", "large"])
def test_a_recipe_is_a_small_file(home, kind):
    recipe = home / "a run/recipe"
    match kind:
        case "link":
            recipe.symlink_to(home / "secret")
        case "pipe":
            os.mkfifo(recipe)
        case "large":
            recipe.write_text("[evaluate]\n" + "# more\n" * 200_000)
    assert f"{recipe} is not a recipe that train wrote" in evaluate(home)


@pytest.mark.parametrize("link", ["", "logs/generate.log", ".stages/lock", "results.json.tmp", "translation.txt"])
def test_no_evaluation_is_written_through_a_link(home, link):
    (home / "elsewhere/.stages").mkdir(parents=True)
    place = home / "a run/evaluation" / link
    if link:
        (home / "a run/evaluation/.stages").mkdir(parents=True)
        place.parent.mkdir(exist_ok=True)
    place.symlink_to(home / ("secret" if link else "elsewhere"))
    assert f"{place} is a link" in evaluate(home)
    assert (home / "secret").read_text() == "a secret\n"


START = Start("2020-01-01T00:00:00+00:00", "abc", "a device", {"python": "3.11"})
TRAINING = TrainingRun(
    "a model", "toy/model", [], ["fairseq-train", "data"], [START], "bash scripts/train.sh toy/model"
)
HOSTILE = [
    "../x",
    "/etc/passwd",
    "$(touch made)",
    "\x1b[2J",
    "'",
    "",
    "${x}",
    10**400,
    -1,
    1.5,
    True,
    None,
    [],
    {},
    [[]],
]


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("a run") / "evaluation"
    write_results(folder)
    return folder


WRONG_RESULTS = {
    "dataset": [{"name": "../../x"}, {"name": "/x"}, {"name": ".."}, {"name": 1}, [], {}],
    "seed": ["../1", 1.5, None, 10**30],
    "seconds": ["3", None, 10**400],
    "commands": ["bash", [1], ["echo 'unended"]],
    "training_command": ["'", 1],
    "scores": [[], {"BLEU": 1}, {"BLEU": {"score": "1", "detail": "", "signature": ""}}],
    "checkpoints": ["checkpoint1.pt", [1]],
    "versions": [{"python": 3}],
    "train_curve": [{}, [1], [{"updates": "1"}]],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in WRONG_RESULTS.items() for value in values]
)
def test_results_of_another_type_are_refused_by_their_field(results, tmp_path, field, value):
    found = json.loads((results / "results.json").read_text())
    value = found[field] | value if isinstance(value, dict) and value and field == "dataset" else value
    (tmp_path / "results.json").write_text(json.dumps(found | {field: value}))
    with pytest.raises(
        UserError, match=rf"{tmp_path}/results.json is not what ea-fairseq evaluate writes \("
    ) as refused:
        Results.read(tmp_path)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("text", ["[" * 500_000, "[1]", "{}", "\x1b", "9" * 5000])
def test_a_file_that_has_no_results_is_refused(tmp_path, monkeypatch, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(UserError, match=f"{tmp_path}/results.json is not what ea-fairseq evaluate writes"):
        make(monkeypatch, tmp_path / "report", tmp_path / "results.json")


def test_results_are_shown_without_what_steers_a_terminal(results, tmp_path, monkeypatch, capsys):
    found = json.loads((results / "results.json").read_text())
    (tmp_path / "results.json").write_text(json.dumps(found | {"model": "\x1b[2Jred\n", "device": "\x9b"}))
    make(monkeypatch, tmp_path / "report", tmp_path / "results.json", "--no-p-values")
    shown = capsys.readouterr().out
    assert markdown(r"\x1b[2Jred\n") in shown and shown.replace("\n", "").isprintable()


@pytest.mark.parametrize("model", ["..", ".", "a:b"])
def test_results_are_kept_in_the_folder_that_is_named(results, tmp_path, model):
    found = json.loads((results / "results.json").read_text())
    (tmp_path / "others").mkdir()
    (tmp_path / "others/results.json").write_text(json.dumps(found | {"model": model}))
    with pytest.raises(UserError, match="cannot name a folder"):
        keep(Comparison.of([Results.read(tmp_path / "others")], "tokenized BLEU"), tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_texts_beside_results_are_no_others(results, tmp_path):
    (tmp_path / "secret").write_text("1\n")
    folder = tmp_path / "others"
    folder.mkdir()
    (folder / "results.json").write_bytes((results / "results.json").read_bytes())
    for name in (COUNTS, "translation.txt", "reference.txt"):
        (folder / name).symlink_to(tmp_path / "secret")
    for look in (Results.raw, Results.counts, lambda found: found.keep(tmp_path)):
        with pytest.raises(UserError, match="is a link out of its folder"):
            look(Results.read(folder))
    assert not (tmp_path / COUNTS).exists()
    (folder / COUNTS).unlink()
    row = "\t".join("9" * 10)
    for text in ("root:x:0:0", "1\t2\t3", f"{row}\t9", row.replace("9", "-9"), row.replace("9", "9" * 400, 1)):
        (folder / COUNTS).write_text(f"{row}\n{text}\n")
        with pytest.raises(UserError, match=f"{COUNTS} is not what ea-fairseq evaluate writes: evaluate again.$"):
            Results.read(folder).counts()


@pytest.mark.parametrize("change", [{"parameters": 0}, {"search": {}}, {"scores": {"x": Score(math.nan, "", "")}}])
def test_results_that_no_table_can_be_made_of_are_refused(results, tmp_path, change):
    replace(Results.read(results), folder=tmp_path, **change).write()
    with pytest.raises(UserError, match=r"results\.json is not what ea-fairseq evaluate writes"):
        Results.read(tmp_path)


@pytest.mark.parametrize("command", [b"bash x 'unended data", b"\xff\xfe", b"# none", b""])
def test_what_is_no_command_made_no_data(tmp_path, command):
    (tmp_path / "recipe").write_bytes(b"[data]\n" + command + b"\n[train]\n")
    args = Namespace(folder=tmp_path, data=PROJECT / "data/data-bin", command="ea-fairseq evaluate")
    assert commands(args, TRAINING) == [None, TRAINING.called, "ea-fairseq evaluate"]


def test_a_data_set_may_have_any_name_that_a_folder_has(results, tmp_path):
    found = json.loads((results / "results.json").read_text())
    for name in ("my data", "my\xa0data", "a\\b", "naïve"):
        (tmp_path / "results.json").write_text(json.dumps(found | {"dataset": found["dataset"] | {"name": name}}))
        assert Results.read(tmp_path).dataset.name == printable(name)


def write_training(folder: Path, **changes: object) -> Path:
    (folder / "run.json").write_text(json.dumps(asdict(TRAINING) | changes))
    return folder


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("starts", []),
        ("starts", [{}]),
        ("command", "rm"),
        ("command", [1]),
        ("called", "'"),
        ("called", ""),
        ("model", 1),
    ],
)
def test_a_training_of_another_type_is_refused_by_its_field(tmp_path, field, value):
    with pytest.raises(UserError, match=rf"{tmp_path}/run.json is not what ea-fairseq train writes \("):
        TrainingRun.read(write_training(tmp_path, **{field: value}))


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(list(asdict(TRAINING))), st.sampled_from(HOSTILE)))
def test_any_training_is_read_or_refused(tmp_path_factory, changes):
    folder = write_training(tmp_path_factory.getbasetemp(), **changes)
    try:
        found = TrainingRun.read(folder)
    except UserError as error:
        assert str(error).isprintable()
    else:
        assert found.starts[-1].device and all(isinstance(word, str) for word in found.command)


@settings(max_examples=50)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["loss", "num_updates", "wall", "valid_loss", "valid_num_updates", "train_wall", "wps"]),
            st.sampled_from([*HOSTILE, "1", "nan", "inf", "1e999"]),
        ).map(json.dumps)
        | st.just("[" * 100_000)
        | st.just('{"a": ' * 100_000)
    )
)
def test_a_log_of_anything_has_the_curves_of_what_is_in_it(tmp_path_factory, lines):
    folder = tmp_path_factory.getbasetemp()
    (folder / LOG).write_text("\n".join(lines) + '\n{"loss": "3", "num_updates": "5", "wps": "7"}\n')
    train, _ = curves(folder)
    assert train[-1].loss == 3 and train[-1].updates == 5
    assert 7.0 in speeds(folder)
