"""Phrases: what fills a place in a clause. Each says itself in both languages.

`german(case)` gives the words, each with its gloss; `english(case)` gives a string.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from . import english, german
from .lexicon import NUMBERS, PREPOSITIONS, TIME_GLOSSES, Adjective, Noun, Time


class Word(NamedTuple):
    """A German word and the English word a dictionary gives for it."""

    form: str
    gloss: str


COMMA = Word(",", ",")
POSSESSIVES = {"mein": "my", "dein": "your", "sein": "his", "ihr": "her", "unser": "our"}
DETERMINERS = {"der": "the", "jed": "every", "viel": "many", **POSSESSIVES, **NUMBERS}


class Phrase(Protocol):
    def german(self, case: str) -> list[Word]: ...

    def english(self, case: str) -> str: ...


class Subject(Phrase, Protocol):
    @property
    def person(self) -> str: ...


@dataclass(frozen=True)
class Fixed:
    """Words that never change: a name, a city, an adverb."""

    words: tuple[Word, ...]
    translation: str
    person: str = "er"
    pronoun: str | None = None

    def german(self, case: str) -> list[Word]:
        return list(self.words)

    def english(self, case: str) -> str:
        return self.translation


def fixed(form: str, translation: str, pronoun: str | None = None) -> Fixed:
    """One German word with its translation; `pronoun` ("er", "sie") takes up a name."""
    return Fixed((Word(form, translation),), translation, pronoun=pronoun)


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun: "ich", "du", "er", "sie1" (she), "wir" or "sie" (they)."""

    key: str

    @property
    def person(self) -> str:
        return "er" if self.key == "sie1" else self.key

    def german(self, case: str) -> list[Word]:
        return [Word(german.PRONOUNS[case][self.key], self.english(case))]

    def english(self, case: str) -> str:
        return english.PRONOUNS["nom" if case == "nom" else "acc"][self.key]


@dataclass(frozen=True)
class Expletive:
    """The es of "es regnet" and "es gibt"; English may agree with something else."""

    translation: str
    english_person: str = "er"
    person: str = "er"

    def german(self, case: str) -> list[Word]:
        return [Word("es", "it")]

    def english(self, case: str) -> str:
        return self.translation


@dataclass(frozen=True)
class NounPhrase:
    """Determiner, adjective, noun and relative clause; `determiner` is None, a key or a name's genitive."""

    noun: Noun
    determiner: str | None = "der"
    adjective: Adjective | None = None
    plural: bool = False
    relative: Phrase | None = None

    @property
    def person(self) -> str:
        return "sie" if self.plural else "er"

    @property
    def gender(self) -> str:
        return "p" if self.plural else self.noun.gender

    @property
    def definite(self) -> bool:
        return self.determiner is not None and self.determiner in ("der", "dies", *POSSESSIVES)

    def german(self, case: str) -> list[Word]:
        words = []
        ends = self.determiner if self.determiner in ("der", "ein", "kein", "dies", "jed", *POSSESSIVES) else None
        if self.determiner:
            inflects = ends or self.determiner == "viel"
            form = german.article(self.determiner, case, self.gender) if inflects else self.determiner
            words.append(Word(form, self.determiner_gloss()))
        if self.adjective:
            ending = german.adjective_ending(ends, case, self.gender)
            words.append(Word(self.adjective.stem + ending, self.adjective.english))
        words.append(Word(german.noun_form(self.noun, case, self.plural), self.english_noun()))
        return words + (self.relative.german(case) if self.relative else [])

    def determiner_gloss(self) -> str:
        if self.determiner == "dies":
            return "these" if self.plural else "this"
        if self.determiner in ("ein", "kein"):
            return {"ein": "a", "kein": "no"}[self.determiner]
        return DETERMINERS.get(self.determiner) or self.determiner.removesuffix("s") + "'s"

    def english_noun(self) -> str:
        return english.plural(self.noun.english) if self.plural else self.noun.english

    def english(self, case: str) -> str:
        words = self.english_noun()
        if self.adjective:
            words = f"{self.adjective.english} {words}"
        if self.determiner == "kein" and (self.plural or self.noun.mass):
            words = f"any {words}"
        elif self.determiner in ("ein", "kein"):
            words = english.with_article(words)
        elif self.determiner:
            words = f"{self.determiner_gloss()} {words}"
        return f"{words} {self.relative.english(case)}" if self.relative else words


@dataclass(frozen=True)
class Prepositional:
    """A preposition, the case it governs and its phrase; `translation` "" leaves English without one."""

    preposition: str
    case: str
    phrase: Phrase
    translation: str
    gloss: str | None = None

    def german(self, case: str = "") -> list[Word]:
        words = self.phrase.german(self.case)
        gloss = self.gloss or PREPOSITIONS[self.preposition]
        contracted = german.CONTRACTIONS.get((self.preposition, words[0].form))
        if contracted:
            return [Word(contracted, f"{gloss} the"), *words[1:]]
        return [Word(self.preposition, gloss), *words]

    def english(self, case: str = "") -> str:
        return f"{self.translation} {self.phrase.english('acc')}".strip()


@dataclass(frozen=True)
class TimePhrase:
    """When something happens."""

    time: Time

    def german(self, case: str = "") -> list[Word]:
        forms = self.time.german.split()
        if len(forms) == 1:
            return [Word(self.time.german, self.time.english)]
        return [Word(form, TIME_GLOSSES.get(form, form)) for form in forms]

    def english(self, case: str = "") -> str:
        return self.time.english
