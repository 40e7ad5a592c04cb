"""Tokenization by the port of Moses, by Moses' own perl scripts (named by commit and checksum), or none."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ea_fairseq.data.transform import Transform, each_side
from ea_fairseq.errors import UserError

SCRIPTS = ("normalize-punctuation.perl", "remove-non-printing-char.perl", "tokenizer.perl", "lowercase.perl")
# Checksum of the scripts of commit 3445289; tokenizing has not changed since March 2021.
PINNED = "b3836d5c8f30dd790fd6cd8c68182ffd9307a50baa625a4006cfd2175ee3fd41"


@dataclass(frozen=True)
class Tokenization:
    """Settings of tokenization; all but ``lowercase`` apply to the tokenizer "moses" only.

    Args:
        tokenizer: "moses", or "none" for text that is already tokenized
        normalize: whether to normalize punctuation and turn characters that do not print into spaces first
        dash_splits: whether a word splits at its hyphens, leaving "@-@" there
        lowercase: whether to lower-case
        moses: a checkout of Moses, whose scripts do the work; without one, sacremoses does
    """

    tokenizer: str = "moses"
    normalize: bool = True
    dash_splits: bool = False
    lowercase: bool = False
    moses: Path | None = None

    def tokenizer_for(self, language: str) -> Callable[[list[str]], list[str]]:
        """Returns a function from tidied lines to as many lines of tokens, separated by single spaces.

        It is slow to make and fast to call. With ``moses``, each call starts perl, so lists should be long.
        """
        if self.tokenizer == "moses" and self.moses:
            return partial(self._by_scripts, self.moses, language)
        from ea_fairseq.text.moses_port import make_tokenizer  # imports sacremoses, which takes time

        tokenize = make_tokenizer(self.tokenizer, language, self.normalize, self.dash_splits, self.lowercase)
        return lambda lines: list(map(tokenize, lines))

    def _by_scripts(self, moses: Path, language: str, lines: list[str]) -> list[str]:
        """Tokenizes lines by Moses' perl scripts; raises UserError if one fails."""
        steps = [("tokenizer.perl", "-q", "-l", language, *["-a"] * self.dash_splits, "-threads", "1")]
        if self.normalize:
            steps[:0] = [("normalize-punctuation.perl", "-l", language), ("remove-non-printing-char.perl",)]
        if self.lowercase:
            steps.append(("lowercase.perl",))
        for script, *arguments in steps:
            lines = run_script(moses, script, *arguments, lines=lines)
        return [" ".join(line.split()) for line in lines]


def make_tokenizers(tokenization: Tokenization, languages: tuple[str, ...]) -> Transform:
    """A transform that tokenizes each language."""
    return each_side(map(tokenization.tokenizer_for, languages))


def run_script(moses: Path, script: str, *arguments: str, lines: list[str]) -> list[str]:
    """Pipes lines through a script in scripts/tokenizer of Moses; returns as many lines.

    Raises:
        UserError: if perl or the script is missing, or it fails, or writes another number of lines or invalid UTF-8.
    """
    path = _script(moses, script)
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}  # perl obeys many variables
    text = "".join(line + "\n" for line in lines).encode()
    result = subprocess.run(["perl", path, *arguments], input=text, capture_output=True, env=environment)
    if result.returncode:
        last_words = result.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise UserError(f"{path} failed ({last_words or f'status {result.returncode}'}): see that it runs on its own.")
    try:
        output = result.stdout.decode().removesuffix("\n").split("\n") if result.stdout else []
    except UnicodeDecodeError:
        raise UserError(f"{path} made text that is not UTF-8: give --moses an unaltered Moses.") from None
    if len(output) != len(lines):
        raise UserError(f"{path} made {len(output)} lines of {len(lines)}: give --moses an unaltered Moses.")
    return output


def moses_version(moses: Path) -> dict[str, str | None]:
    """Returns the commit of a checkout of Moses (None without git) and the sha256 of the scripts that are used.

    Warns on stderr if the checksum is not ``PINNED``.

    Raises:
        UserError: if perl or a script is missing.
    """
    files = [_script(moses, script) for script in SCRIPTS]
    files += sorted((moses / "scripts/share/nonbreaking_prefixes").glob("nonbreaking_prefix.*"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    version = {"commit": _commit(moses), "sha256": digest.hexdigest()}
    if version["sha256"] != PINNED:
        print(
            f"the scripts of {moses} are not those of Moses' commit 3445289, which results are compared with: "
            "tokens may differ.",
            file=sys.stderr,
        )
    return version


def _script(moses: Path, name: str) -> Path:
    """The path of a tokenizer script; raises UserError if perl or the script is missing."""
    if shutil.which("perl") is None:
        raise UserError("Moses needs perl, which is not installed: install it, or leave --moses out.")
    path = moses / "scripts/tokenizer" / name
    if not path.is_file():
        raise UserError(f"there is no {path}: give --moses a checkout of github.com/moses-smt/mosesdecoder.")
    return path


def _commit(moses: Path) -> str | None:
    """Returns the commit of a checkout, or None for a plain folder or without git."""
    if not (moses / ".git").exists() or shutil.which("git") is None:
        return None
    result = subprocess.run(["git", "-C", moses, "rev-parse", "--verify", "HEAD"], capture_output=True, text=True)
    return result.stdout.strip() or None
