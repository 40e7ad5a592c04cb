"""Tokenization, by Moses' scripts or their port, or none."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ea_fairseq.data.moses import run_script
from ea_fairseq.data.selections import Selection
from ea_fairseq.data.transform import Transform, transform
from ea_fairseq.text.tokens import make_tokenizer


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
        """A function from tidied lines to as many lines of tokens, separated by single spaces.

        It is slow to make and fast to call, so make one for each process. With ``moses``, each call starts perl, so
        lists should be long.
        """
        if self.tokenizer == "moses" and self.moses:
            tokenize = partial(self._by_scripts, language)
        else:
            settings = self.normalize, self.dash_splits, self.lowercase
            tokenize = partial(map, make_tokenizer(self.tokenizer, language, *settings))
        return lambda lines: [" ".join(line.split()) for line in tokenize(lines)]

    def _by_scripts(self, language: str, lines: list[str]) -> list[str]:
        """The lines tokenized by Moses' perl scripts; raises UserError where one fails."""
        steps = [("tokenizer.perl", "-q", "-l", language, *["-a"] * self.dash_splits, "-threads", "1")]
        if self.normalize:
            steps[:0] = [("normalize-punctuation.perl", "-l", language), ("remove-non-printing-char.perl",)]
        if self.lowercase:
            steps.append(("lowercase.perl",))
        for script, *arguments in steps:
            lines = run_script(self.moses, script, *arguments, lines=lines)
        return lines


def make_tokenizers(tokenization: Tokenization, languages: tuple[str, ...]) -> Transform:
    """A transform that tokenizes each language."""
    tokenizers = list(map(tokenization.tokenizer_for, languages))
    return lambda *sides: (*(tokenize(lines) for tokenize, lines in zip(tokenizers, sides, strict=True)), Counter())


def tokenize(
    output: Path, *, tokenization: Tokenization, languages: tuple[str, ...], sample: Selection | None = None, **text
) -> None:
    """Writes tokenized sentences, or a sample of them, to a new text folder; ``text`` is what :func:`transform` takes.

    Args:
        languages: of the sides of the text.
    """
    make = partial(make_tokenizers, tokenization, languages)
    transform("tokenize", make, output=output, selection=sample, **text)
