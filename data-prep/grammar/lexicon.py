"""The words of the grammar, read from the tables beside this file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Noun:
    german: str
    plural: str
    english: str
    gender: str
    classes: frozenset[str]
    at: tuple[str, str] | None
    to: str | None

    @property
    def mass(self) -> bool:
        return self.plural == "-"


@dataclass(frozen=True)
class Verb:
    prefix: str
    infinitive: str
    third: str
    participle: str
    perfect: str
    reflexive: bool
    english: str
    subjects: frozenset[str]
    governs: dict[str, frozenset[str]]
    places: frozenset[str]
    flags: frozenset[str]


@dataclass(frozen=True)
class Adjective:
    german: str
    stem: str
    comparative: str
    english: str
    classes: frozenset[str]


@dataclass(frozen=True)
class Time:
    german: str
    english: str
    present: str
    others: frozenset[str]


def rows(table: str) -> Iterator[list[str]]:
    """The rows of a table, each a list of its cells."""
    for line in (HERE / table).read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            yield [cell.strip() for cell in line.split("|")]


def read_nouns() -> list[Noun]:
    nouns = []
    for german, plural, english, classes, *places in rows("nouns.txt"):
        article, singular = german.split()
        at, at_english, to = places[0].split() if places else (None, None, None)
        where = (at, at_english) if at else None
        nouns.append(Noun(singular, plural, english, article[-1], frozenset(classes.split()), where, to))
    return nouns


def read_verbs() -> list[Verb]:
    verbs = []
    for infinitive, third, participle, english, subjects, frame, places, flags in rows("verbs.txt"):
        bare = infinitive.removeprefix("sich ")
        prefix, _, stem = bare.rpartition("+")
        governs = {}
        for part in filter(None, frame.split(", ")):
            role, _, classes = part.partition(" ")
            governs[role] = frozenset(classes.split("/"))
        verbs.append(
            Verb(
                prefix,
                stem,
                third or regular_third(stem),
                participle.strip("*-") or regular_participle(prefix, stem),
                "sein" if participle.startswith("*") else "haben",
                infinitive.startswith("sich "),
                english,
                frozenset(subjects.split("/")),
                governs,
                frozenset(filter(None, places.split("/"))),
                frozenset(flags.split()),
            )
        )
    return verbs


def stem_with_t(infinitive: str) -> str:
    """The stem before -t: arbeiten, arbeitet; öffnen, öffnet; wandern, wandert."""
    if infinitive.endswith(("eln", "ern")):
        return infinitive[:-1]
    stem = infinitive[:-2]
    needs_e = stem.endswith(("t", "d", "ffn", "chn"))
    return stem + "e" if needs_e else stem


def regular_third(infinitive: str) -> str:
    return stem_with_t(infinitive) + "t"


def regular_participle(prefix: str, infinitive: str) -> str:
    unstressed = infinitive.endswith("ieren") or infinitive.startswith(("be", "er", "ver"))
    return prefix + ("" if unstressed else "ge") + stem_with_t(infinitive) + "t"


def read_adjectives() -> list[Adjective]:
    return [
        Adjective(german, stem or german, comparative.strip("-"), english, frozenset(classes.split()))
        for german, stem, comparative, english, classes in rows("adjectives.txt")
    ]


def read_times() -> list[Time]:
    return [
        Time(german, english, present, frozenset(others.split()))
        for german, english, present, others in rows("times.txt")
    ]


NOUNS = read_nouns()
VERBS = read_verbs()
ADJECTIVES = read_adjectives()
TIMES = read_times()
NAMES = {
    **dict.fromkeys(["Paul", "Peter", "Jan", "Daniel", "Martin", "Stefan", "Oliver", "Simon"], "er"),
    **dict.fromkeys(["Anna", "Maria", "Julia", "Laura", "Sophie", "Nina", "Eva", "Sarah"], "sie"),
}
CITIES = {
    "Berlin": "Berlin",
    "München": "Munich",
    "Wien": "Vienna",
    "Köln": "Cologne",
    "Hamburg": "Hamburg",
    "Paris": "Paris",
    "Rom": "Rome",
    "London": "London",
}
NUMBERS = {
    "zwei": "two",
    "drei": "three",
    "vier": "four",
    "fünf": "five",
    "sechs": "six",
    "sieben": "seven",
    "acht": "eight",
    "neun": "nine",
    "zehn": "ten",
    "elf": "eleven",
    "zwölf": "twelve",
}
PREPOSITIONS = {
    "in": "in",
    "an": "at",
    "auf": "on",
    "zu": "to",
    "mit": "with",
    "von": "of",
    "für": "for",
    "über": "about",
    "um": "around",
    "nach": "to",
}
PARTICLES = {
    "auf": "up",
    "ein": "in",
    "aus": "out",
    "an": "on",
    "ab": "off",
    "mit": "along",
    "vor": "before",
    "zu": "to",
    "zurück": "back",
    "weg": "away",
}
TIME_GLOSSES = {
    "am": "on the",
    "im": "in the",
    "um": "at",
    "vor": "before",
    "nach": "after",
    "in": "in",
    "seit": "since",
    "dem": "the",
    "jeden": "every",
    "jede": "every",
    "letzte": "last",
    "letztes": "last",
    "letzten": "last",
    "nächste": "next",
    "nächstes": "next",
    "nächsten": "next",
    "heute": "today",
    "morgen": "tomorrow",
    "gestern": "yesterday",
    "Woche": "week",
    "Wochen": "weeks",
    "Monat": "month",
    "Monaten": "months",
    "Jahr": "year",
    "Jahren": "years",
    "Tagen": "days",
    "Stunden": "hours",
    "Tag": "day",
    "Uhr": "o'clock",
    "Morgen": "morning",
    "Abend": "evening",
    "Nachmittag": "afternoon",
    "Wochenende": "weekend",
    "Frühstück": "breakfast",
    "Mittagessen": "lunch",
    "Abendessen": "dinner",
    **NUMBERS,
}
