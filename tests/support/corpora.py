"""Small corpora in words that look German and English, and their preparation by `ea-fairseq prepare corpus`."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from ea_fairseq.plain.memory import MEMORY_SETTINGS
from forked import run_forked
from warm_python import folder_of_python

SCRIPT = Path(__file__).resolve().parents[2] / "data-prep/prepare-corpus.sh"
SIZES = {"train": 40, "valid": 6, "test": 5}
WORDS = {
    "de": ["Der", "die", "Hund", "Katze", "Baum", "läuft", "schläft", "größer", "über", "grünen", "Wiese"],
    "en": ["The", "a", "dog", "cat", "tree", "runs", "sleeps", "bigger", "over", "green", "meadow"],
}
LANGUAGES = ["--source-lang", "de", "--target-lang", "en"]
LOWERCASED = [*LANGUAGES, "--lowercase", "--merges", "80", "--joined-dictionary", "--workers", "1"]
SENTENCEPIECE = [*LANGUAGES, "--tokenizer", "none", "--subword", "sentencepiece", "--separate-subword"]
SENTENCEPIECE += ["--vocab-size", "32"]

# All else that Python's splitlines or other programs take for the end of a line, white space, and words.
NO_LINE_FEED = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\0\t \xa0\u3000\ufeffaßц漢😀"


ON_A_LARGE_DISK = """
import shutil
from types import SimpleNamespace
from ea_fairseq.cli import main
shutil.disk_usage = lambda path: SimpleNamespace(free=10**15)
main()
"""


def sentence(language: str, number: int) -> str:
    words = WORDS[language]
    return " ".join(words[(number * step + step) % len(words)] for step in range(1, 5 + number % 4)) + "."


def write_corpus(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for split, size in SIZES.items():
        for language in WORDS:
            lines = [sentence(language, number) + "\n" for number in range(size)]
            (folder / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
    return folder


def environment() -> dict[str, str]:
    """With our Python first on the path."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def warm_environment() -> dict[str, str]:
    """One for commands whose processes nobody kills, limits or measures: they take half the time."""
    env = environment()
    return env | MEMORY_SETTINGS | {"PATH": f"{folder_of_python()}{os.pathsep}{env['PATH']}"}


def run_prepare(data_set: str, *arguments: object, **variables: str) -> subprocess.CompletedProcess:
    """`ea-fairseq prepare` in a process that has imported fairseq already, on a machine whose disk is large."""
    return run_forked("ea-fairseq", "prepare", data_set, *arguments, cwd="/", code=ON_A_LARGE_DISK, **variables)


def prepare(*arguments: object) -> subprocess.CompletedProcess:
    return run_prepare("corpus", *arguments)


def prepared(*arguments: object) -> None:
    result = prepare(*arguments)
    assert result.returncode == 0, result.stderr


def checksums(out: Path) -> dict[str, str]:
    """Of all that a preparation left, but for its logs."""
    files = [path for path in out.rglob("*") if path.is_file() and "logs" not in path.parts]
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
