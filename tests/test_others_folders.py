"""What scripts read in a folder of checkpoints from others does nothing but what it is there for."""

import os
import subprocess
from pathlib import Path

import pytest

from commands import ROOT
from corpora import environment

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
    assert "--beam needs a whole number of at least 1, not '0'" in evaluate(home, "--beam", "0")


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
    assert f"{recipe} is not the recipe of a training" in evaluate(home)


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
