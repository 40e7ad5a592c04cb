"""Moses' tokenization in Python: sacremoses, corrected where it differs from Moses' scripts.

Tokens are those of Moses for every language but Catalan, Finnish, Irish, Somali, Swedish and Tetun, for which Moses
has rules that sacremoses lacks.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import partial, reduce

import regex
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
CLASSES = {
    MosesTokenizer.IsAlnum: r"\p{Alphabetic}\p{Nd}",
    MosesTokenizer.IsAlpha: r"\p{Alphabetic}",
    MosesTokenizer.IsN: r"\p{N}",
}
# The rules of punctuation change no line without one of these; \xc2 begins no-break spaces, \xe2 most quotation marks.
CHANGED = re.compile(rb"[\r()%:;`\"\xc2\xe2]|''|  ")
LAST_PERIOD = re.compile(r"(?<=\S)\.$")
ENDING_PERIOD = re.compile(r"\S\.(?!\S)")


def make_normalizer(language: str) -> Callable[[str], str]:
    """A function that normalizes the punctuation of a line; it works on bytes and adds the line feed, as Moses does."""
    normalizer = MosesPunctNormalizer(language, perl_parity=True)
    rules = normalizer.substitutions
    if language not in ("cs", "cz", "de", "en", "es", "fr"):
        rules = [*rules[:-1], *normalizer.DE_ES_FR_QUOTATION_FOLLOWED_BY_COMMA, rules[-1]]
    compiled = [(re.compile(pattern.encode()), replacement.encode()) for pattern, replacement in rules]

    def normalize(line: str) -> str:
        text = f"{line}\n".encode()
        if not CHANGED.search(text):
            return line
        for pattern, replacement in compiled:
            text = pattern.sub(replacement, text)
        return text.decode().removesuffix("\n")

    return normalize


def replace_non_printing(line: str) -> str:
    """The line with a space for each character of Unicode's category C, such as a soft hyphen."""
    if line.isprintable():
        return line
    return "".join(" " if unicodedata.category(character)[0] == "C" else character for character in line)


class Tokenizer(MosesTokenizer):
    """sacremoses' tokenizer with two corrections: all of Unicode's letters, and a last period that is always split."""

    def __init__(self, language: str) -> None:
        """Compiles sacremoses' rules with Unicode's classes of characters; ``language`` is an ISO code."""
        super().__init__(language)
        for name, value in vars(MosesTokenizer).items():
            if isinstance(value, tuple) and isinstance(value[0], re.Pattern):
                setattr(self, name, _with_classes(value))
        for name in ("ENGLISH_SPECIFIC_APOSTROPHE", "FR_IT_SPECIFIC_APOSTROPHE"):
            setattr(self, name, list(map(_with_classes, getattr(self, name))))
        for name in ("NONBREAKING_PREFIXES", "NUMERIC_ONLY_PREFIXES"):
            setattr(self, name, set(getattr(self, name)))
        self.has_letter = regex.compile(r"\p{Alphabetic}").search

    def handles_nonbreaking_prefixes(self, text: str) -> str:
        """Splits the period off the last word, then off others as sacremoses does."""
        text = LAST_PERIOD.sub(" .", text.rstrip())
        if not ENDING_PERIOD.search(text):
            return " ".join(text.split())
        return super().handles_nonbreaking_prefixes(text)

    def isanyalpha(self, text: str) -> bool:
        """Whether a text has a letter."""
        return self.has_letter(text) is not None

    def islower(self, text: str) -> bool:
        """Whether the letters of a text are lower-case, and there are some."""
        return text.islower()


def make_tokenizer(
    tokenizer: str, language: str, normalize: bool, dash_splits: bool, lowercase: bool
) -> Callable[[str], str]:
    """A function from a tidied line to its tokens, separated by single spaces.

    Args:
        tokenizer: "moses", or "none" for text that is tokenized already: then only ``lowercase`` matters.
        language: an ISO code.
        normalize: whether to normalize punctuation and turn characters that do not print into spaces first.
        dash_splits: whether a word splits at its hyphens, leaving "@-@" there.
        lowercase: whether to lower-case.
    """
    steps: list[Callable[[str], str]] = []
    if tokenizer == "moses":
        if normalize:
            steps += [make_normalizer(language), replace_non_printing]
        steps.append(partial(Tokenizer(language).tokenize, aggressive_dash_splits=dash_splits, return_str=True))
    if lowercase:
        steps.append(lowercase_as_perl)
    return lambda line: " ".join(reduce(lambda text, step: step(text), steps, line).split())


def make_detokenizer(tokenizer: str, language: str) -> Callable[[str], str]:
    """A function from tokens, separated by spaces, to raw text."""
    if tokenizer == "none":
        return str
    detokenizer = MosesDetokenizer(language)
    return lambda tokens: detokenizer.detokenize(tokens.split())


def lowercase_as_perl(line: str) -> str:
    """The line in lower case as perl does it: one character at a time, so that no sigma becomes a final sigma."""
    return SIGMA.join(part.lower() for part in line.split(SIGMA.upper()))


def _with_classes(rule: tuple[re.Pattern, str]) -> tuple[regex.Pattern, str]:
    """A rule of sacremoses (pattern, replacement) with ``\\p{...}`` in place of its lists of characters."""
    pattern = rule[0].pattern
    for table, name in CLASSES.items():
        pattern = pattern.replace(table, name)
    return regex.compile(pattern), rule[1]
