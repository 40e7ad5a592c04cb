"""Moses' scripts, played by small shell scripts: text goes through them whole, or one sentence says why not."""

import subprocess
from pathlib import Path

import pytest

from ea_fairseq.data.tokenization import PINNED, SCRIPTS, Tokenization, moses_version
from ea_fairseq.errors import UserError

CHUNK = ["one two", "", "thr\u00e9\u00e9  four"]


@pytest.fixture
def moses(tmp_path: Path, monkeypatch) -> Path:
    """A folder of scripts that repeat their input, and a `perl` that is a shell."""
    folder = tmp_path / "a moses"
    (folder / "scripts/tokenizer").mkdir(parents=True)
    for script in SCRIPTS:
        write_script(folder, script, "exec cat")
    prefixes = folder / "scripts/share/nonbreaking_prefixes"
    prefixes.mkdir(parents=True)
    (prefixes / "nonbreaking_prefix.en").write_text("Mr\n")
    perl = tmp_path / "bin/perl"
    perl.parent.mkdir()
    perl.write_text('#!/bin/sh\nexec /bin/sh "$@"\n')
    perl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{perl.parent}:/usr/bin:/bin")
    return folder


def write_script(moses: Path, script: str, text: str) -> None:
    (moses / "scripts/tokenizer" / script).write_text(text + "\n")


def tokenized(moses: Path, chunk: list[str] = CHUNK, **settings: bool) -> list[str]:
    return Tokenization(moses=moses, **settings).tokenizer_for("de")(chunk)


def test_lines_go_through_and_come_back(moses: Path):
    assert tokenized(moses) == ["one two", "", "thr\u00e9\u00e9 four"]
    assert tokenized(moses, []) == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"normalize": False}, "x : tokenizer -q -l de -threads 1"),
        (
            {"dash_splits": True, "lowercase": True},
            "x : normalize-punctuation -l de : remove-non-printing-char : tokenizer -q -l de -a -threads 1 : lowercase",
        ),
    ],
)
def test_scripts_are_called_in_order_with_their_flags(moses: Path, settings: dict[str, bool], expected: str):
    for script in SCRIPTS:
        name = script.removesuffix(".perl")
        write_script(moses, script, f'while IFS= read -r line; do echo "$line : {name} $*"; done')
    assert tokenized(moses, ["x"], **settings) == [expected]


def test_no_variable_of_the_environment_reaches_the_scripts(moses: Path, monkeypatch):
    for variable in ("PERL_UNICODE", "PERL5OPT", "LANG", "LC_CTYPE"):
        monkeypatch.setenv(variable, "de_DE")
    monkeypatch.setenv("LC_ALL", "tr_TR")
    write_script(moses, "tokenizer.perl", 'read x; echo "$LC_ALL$LANG$LC_CTYPE$PERL_UNICODE$PERL5OPT"')
    assert tokenized(moses, ["x"], normalize=False) == ["C"]


@pytest.mark.parametrize(
    ("script", "text", "sentence"),
    [
        ("tokenizer.perl", "head -n 2", "tokenizer.perl made 2 lines of 3"),
        ("tokenizer.perl", "cat; echo", "tokenizer.perl made 4 lines of 3"),
        ("tokenizer.perl", "cat > /dev/null", "tokenizer.perl made 0 lines of 3"),
        ("tokenizer.perl", r"cat; printf '\377'", "tokenizer.perl made text that is not UTF-8"),
        ("normalize-punctuation.perl", "echo some; echo no such thing >&2; exit 3", "failed .no such thing.: "),
        ("lowercase.perl", "kill -9 $$", r"lowercase.perl failed .status -9.: "),
    ],
)
def test_scripts_that_lose_lines_or_fail_are_named(moses: Path, script: str, text: str, sentence: str):
    write_script(moses, script, text)
    with pytest.raises(UserError, match=sentence) as error:
        tokenized(moses, lowercase=True)
    assert str(error.value).endswith(".") and "\n" not in str(error.value)


def test_missing_script_and_missing_perl_are_named(moses: Path, monkeypatch):
    (moses / "scripts/tokenizer/lowercase.perl").unlink()
    assert tokenized(moses)
    with pytest.raises(UserError, match=r"there is no .*lowercase\.perl: give --moses a checkout"):
        tokenized(moses, lowercase=True)
    with pytest.raises(UserError, match=r"there is no .*lowercase\.perl"):
        moses_version(moses)
    monkeypatch.setenv("PATH", str(moses))
    for use in (tokenized, moses_version):
        with pytest.raises(UserError, match="needs perl, which is not installed"):
            use(moses)


def test_version_is_a_matter_of_content(moses: Path, capsys):
    version = moses_version(moses)
    assert version["commit"] is None and version["sha256"] != PINNED
    warning = capsys.readouterr().err
    assert warning.count("\n") == 1 and warning.endswith(".\n") and str(moses) in warning

    copy = moses.with_name("another")
    moses.rename(copy)
    for path in copy.rglob("*.perl"):
        path.touch()
    (copy / "README").write_text("new")
    assert moses_version(copy) == version
    for changed in ("scripts/tokenizer/tokenizer.perl", "scripts/share/nonbreaking_prefixes/nonbreaking_prefix.en"):
        before = (copy / changed).read_text()
        (copy / changed).write_text(before + "# more\n")
        assert moses_version(copy)["sha256"] != version["sha256"]
        (copy / changed).write_text(before)
    (copy / "scripts/share/nonbreaking_prefixes/nonbreaking_prefix.xx").write_text("")
    assert moses_version(copy)["sha256"] != version["sha256"]


def test_version_of_a_checkout_names_its_commit(moses: Path):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "init", "-q"], cwd=moses, check=True)
    assert moses_version(moses)["commit"] is None
    for command in (["add", "."], [*identity, "commit", "-q", "-m", "scripts"]):
        subprocess.run(["git", *command], cwd=moses, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=moses, capture_output=True, text=True, check=True)
    assert moses_version(moses)["commit"] == head.stdout.strip()
    assert moses_version(moses / "scripts/..")["commit"] == head.stdout.strip()
