"""A sentence: words and a translation, written out with capitals and stops."""

from dataclasses import dataclass

from .phrases import Word


@dataclass(frozen=True)
class Sentence:
    """A German sentence, its English translation and its word-for-word rendition."""

    german: str
    english: str
    word_for_word: str


def sentence(words: list[Word], english: str, stop: str = ".") -> Sentence:
    return Sentence(
        written([word.form for word in words], stop),
        written(english.split(), stop),
        written([word.gloss for word in words], stop),
    )


def written(words: list[str], stop: str) -> str:
    """Words as text: commas close up, the first letter is a capital, `stop` ends the sentence."""
    text = " ".join(words).replace(" ,", ",").replace(",,", ",").rstrip(",") + stop
    return text[0].upper() + text[1:]
