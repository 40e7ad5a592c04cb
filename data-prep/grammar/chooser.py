"""The chooser: picks words that belong together and builds phrases and clauses from them."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from .clauses import Clause, Modal
from .lexicon import ADJECTIVES, CITIES, NAMES, NOUNS, NUMBERS, TIMES, VERBS, Adjective, Noun, Time, Verb
from .phrases import Fixed, NounPhrase, Phrase, Prepositional, Pronoun, Subject, TimePhrase, Word, fixed
from .subjects import OWNERS, is_child, owner_of, thing

OWNED = frozenset(
    [
        "pet",
        "farm",
        "own",
        "kin",
        "thing",
        "clothes",
        "costly",
        "text",
        "machine",
        "vehicle",
        "room",
        "opening",
    ]
)
MODALS = [
    Modal("können", "present", "can", "can"),
    Modal("müssen", "present", "have to", "must"),
    Modal("wollen", "present", "want to", "wants"),
    Modal("dürfen", "present", "be allowed to", "may"),
    Modal("sollen", "present", "should", "should"),
    Modal("mögen", "wish", "would like to", "would-like"),
]
PAST_MODALS = [
    Modal("können", "past", "could", "could"),
    Modal("müssen", "past", "have to", "had-to"),
    Modal("wollen", "past", "want to", "wanted"),
    Modal("dürfen", "past", "be allowed to", "might"),
]
UNITS = {"Stunden": "hours", "Tagen": "days", "Wochen": "weeks"}
AT_HOME = Fixed((Word("zu", "to"), Word("Hause", "house")), "at home")
HOMEWARDS = Fixed((Word("nach", "to"), Word("Hause", "house")), "home")
PLAIN_VERBS = [verb for verb in VERBS if not {"clause", "fixed"} & verb.governs.keys()]


class Chooser:
    """Chooses by `rng`; the same state of `rng` makes the same choices."""

    def __init__(self, rng: Random):
        self.rng = rng
        self.nouns: dict[tuple[str, ...], list[Noun]] = {}

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def noun(self, classes: Iterable[str]) -> Noun:
        key = tuple(sorted(classes))
        if key not in self.nouns:
            self.nouns[key] = [noun for noun in NOUNS if noun.classes.intersection(key)]
        return self.rng.choice(self.nouns[key])

    def adjectives(self, noun: Noun) -> list[Adjective]:
        """The adjectives that suit the noun."""
        classes = noun.classes & {"kin", "young", "own"} or noun.classes
        return [adjective for adjective in ADJECTIVES if adjective.classes & classes]

    def adjective(self, noun: Noun) -> Adjective | None:
        suitable = self.adjectives(noun)
        return self.rng.choice(suitable) if suitable else None

    def noun_phrase(self, classes: Iterable[str], owner: str | None = None, kind: str = "any") -> NounPhrase:
        """A noun of one of the classes with what stands before it.

        `owner` is the possessive that may be used (None: a possessive of the first or second person);
        `kind` is "definite", "indefinite", "none" (kein) or "any".
        """
        noun = self.noun(classes)
        plural = not noun.mass and noun.at is None and "single" not in noun.classes and self.chance(0.25)
        adjective = self.adjective(noun) if self.chance(0.1 if "kin" in noun.classes else 0.35) else None
        return NounPhrase(noun, self.determiner(noun, owner, kind, plural), adjective, plural)

    def determiner(self, noun: Noun, owner: str | None, kind: str, plural: bool) -> str | None:
        possessive = owner or self.rng.choice(["mein", "dein", "unser"])
        if "kin" in noun.classes and kind != "none":
            return possessive
        if kind == "none":
            return "kein"
        if kind == "any":
            kind = "definite" if self.chance(0.55) else "indefinite"
        if kind == "definite" or "room" in noun.classes:
            if noun.classes & OWNED and self.chance(0.4):
                return possessive
            return "dies" if self.chance(0.12) and not noun.mass else "der"
        if noun.mass:
            return None
        if not plural:
            return "ein"
        return self.rng.choice([None, None, "viel", self.rng.choice(list(NUMBERS))])

    def subject(self, classes: frozenset[str]) -> Subject:
        person = "person" in classes and (len(classes) == 1 or self.chance(0.8))
        if not person:
            return self.noun_phrase(classes - {"person"}, kind="definite")
        choice = self.rng.random()
        if choice < 0.3:
            return self.pronoun()
        if choice < 0.45:
            return self.name()
        owner = self.rng.choice(["mein", "dein", "unser", "sein", self.rng.choice(list(NAMES)) + "s"])
        phrase = self.noun_phrase(["person"], owner, "definite")
        if phrase.determiner == "der" and not phrase.plural and self.chance(0.08):
            return replace(phrase, determiner="jed", adjective=None)
        if phrase.determiner == "der" and phrase.plural and self.chance(0.3):
            return replace(phrase, determiner=self.rng.choice(["viel", *NUMBERS]))
        return phrase

    def pronoun(self) -> Pronoun:
        return Pronoun(self.rng.choice(list(OWNERS)))

    def name(self) -> Fixed:
        name = self.rng.choice(list(NAMES))
        return fixed(name, name, NAMES[name])

    def other_pronoun(self, subject: Subject, keys: str) -> Pronoun | None:
        """One of the pronouns `keys` that does not mean the subject, for a known subject."""
        banned = {"ich": ["ich", "wir"], "wir": ["ich", "wir", "du"], "du": ["du", "wir"]}.get(subject.person, [])
        free = [key for key in keys.split() if key not in banned]
        return Pronoun(self.rng.choice(free)) if free else None

    def other(self, subject: Subject, classes: frozenset[str], pronouns: str, kind: str) -> Phrase:
        """An object that is not the subject: a pronoun, a name or a noun phrase."""
        if "person" in classes and kind in ("any", "definite"):
            pronoun = self.other_pronoun(subject, pronouns) if self.chance(0.25) else None
            if pronoun:
                return pronoun
            if isinstance(subject, Pronoun) and self.chance(0.2):
                return self.name()
        taken = subject.noun if isinstance(subject, NounPhrase) else None
        while True:
            phrase = self.noun_phrase(classes, owner_of(subject), kind)
            if phrase.noun is not taken:
                return phrase

    def place(self, classes: Iterable[str], owner: str | None) -> Phrase:
        """Where something happens."""
        classes = set(classes)
        if "home" in classes and self.chance(0.2):
            return AT_HOME
        if "town" in classes and self.chance(0.4):
            city, english = self.rng.choice(list(CITIES.items()))
            return Prepositional("in", "dat", fixed(city, english), "in")
        phrase = self.place_phrase(classes, owner)
        german, english = phrase.noun.at
        gloss = {"on": "on"}.get(english)
        return Prepositional(german, "dat", phrase, english, gloss)

    def place_phrase(self, classes: Iterable[str], owner: str | None) -> NounPhrase:
        noun = self.noun(classes)
        choice = self.rng.random()
        if choice < 0.7:
            return NounPhrase(noun)
        if choice < 0.8 and noun.classes & {"home", "work"} and owner:
            return NounPhrase(noun, owner)
        if noun.classes & {"town", "eatery", "outside", "sight"}:
            return NounPhrase(noun, self.rng.choice(["ein", "dies", "der"]), self.adjective(noun))
        return NounPhrase(noun)

    def goal(self, classes: frozenset[str], owner: str | None) -> Phrase:
        """Where somebody goes."""
        if "city" in classes and (len(classes) == 1 or self.chance(0.4)):
            city, english = self.rng.choice(list(CITIES.items()))
            return Prepositional("nach", "", fixed(city, english), "to")
        if self.chance(0.15):
            return HOMEWARDS
        phrase = self.place_phrase(classes - {"city"}, owner)
        to = phrase.noun.to
        return Prepositional(to, "dat" if to == "zu" else "acc", phrase, "to")

    def surface(self, case: str) -> Phrase:
        """On or in what something lies or is put."""
        phrase = self.noun_phrase(["onto", "into"], "mein", "definite")
        phrase = replace(phrase, plural=False)
        german, english = ("in", "in") if "into" in phrase.noun.classes else ("auf", "on")
        return Prepositional(german, case, phrase, english)

    def time(self, allowed) -> TimePhrase:
        """A time for which `allowed` holds."""
        number, english = self.rng.choice(list(NUMBERS.items()))
        unit, units = self.rng.choice(list(UNITS.items()))
        made = [
            Time(f"um {number} Uhr", f"at {english} o'clock", "habit", frozenset(["past", "later", "modal"])),
            Time(f"vor {number} {unit}", f"{english} {units} ago", "-", frozenset(["past", "exact"])),
            Time(f"in {number} {unit}", f"in {english} {units}", "later", frozenset(["later", "exact"])),
            Time(f"seit {number} {unit}", f"for {english} {units}", "since", frozenset(["every"])),
            Time(f"seit {number} Jahren", f"for {english} years", "since", frozenset(["every"])),
        ]
        suitable = [time for time in made * 3 + TIMES if allowed(time)]
        return TimePhrase(self.rng.choice(suitable))

    def verb(self, allowed=lambda verb: True) -> Verb:
        return self.rng.choice([verb for verb in PLAIN_VERBS if allowed(verb)])

    def clause(self, verb: Verb | None = None, subject: Subject | None = None, **fixed_parts) -> Clause:
        """A whole clause; a verb, a subject and parts of the clause may be given."""
        verb, drawn = verb or self.verb(), subject is None
        while subject is None or (drawn and is_child(subject) and "a" in verb.flags):
            subject = self.subject(verb.subjects)
        parts = self.tense(verb, subject) if "tense" not in fixed_parts else {}
        parts |= self.complements(verb, subject, parts)
        parts |= fixed_parts
        return Clause(subject, verb, **parts)

    def tense(self, verb: Verb, subject: Subject) -> dict:
        """Tense, modal, time and negation that suit the verb."""
        steady, once = "s" in verb.flags, "o" in verb.flags
        willing = not steady and "person" in verb.subjects and not thing(subject)
        form = self.rng.choice(
            ["present", "present", "timed", "timed", "past", "past", "past timed", "past timed"]
            + (["later", "modal", "modal", "modal timed"] if willing else [])
            + (["gladly"] if "g" in verb.flags else [])
        )
        barred = {"pre", "every"} if once or steady else set()
        parts: dict = {}
        if form == "timed":
            readings = set() if once or steady else {"habit"}
            readings |= set() if steady else {"now", "later"}
            readings |= {"since"} if "d" in verb.flags else set()
            if readings:
                time = self.time(lambda time: time.present in readings)
                parts = {"reading": time.time.present, "time": time}
        elif form.startswith("past"):
            timed = form == "past timed" and "t" not in verb.flags
            time = self.time(lambda time: "past" in time.others and not barred & time.others) if timed else None
            parts = {"tense": "past", "time": time}
        elif form == "later":
            parts = {"tense": "later", "time": self.time(lambda time: "later" in time.others)}
        elif form.startswith("modal"):
            time = (
                self.time(lambda time: "modal" in time.others and not barred & time.others)
                if form == "modal timed"
                else None
            )
            parts = {"modal": self.rng.choice(MODALS), "time": time}
            if time is None and self.chance(0.4):
                parts = {"modal": self.rng.choice(PAST_MODALS)}
                if self.chance(0.5):
                    parts["time"] = self.time(lambda time: time.present == "-" and time.others == {"past"})
        elif form == "gladly":
            parts = {"gladly": True}
        fixed_time = parts.get("time") and {"every", "exact"} & parts["time"].time.others
        counted = isinstance(subject, NounPhrase) and not subject.definite
        if not fixed_time and not counted and form != "gladly" and self.chance(0.15):
            parts["negated"] = True
        return parts

    def complements(self, verb: Verb, subject: Subject, parts: dict) -> dict:
        """Objects, goals, places and companions that suit the verb."""
        owner, chosen = owner_of(subject), {}
        negated = parts.get("negated", False)
        kind = "definite" if negated or "w" in verb.flags else "any"
        for role, classes in verb.governs.items():
            if role == "acc":
                nothing = negated and not classes & {"kin", "own", "person"} and self.chance(0.5)
                usual = "indefinite" if parts.get("gladly") and "person" not in classes else kind
                chosen["object"] = self.other(subject, classes, "ich du er wir", "none" if nothing else usual)
            elif role == "dat":
                chosen["recipient"] = self.other(subject, classes, "ich du er sie1 wir", "definite")
            elif role == "dir":
                chosen["goal"] = self.goal(classes, owner)
            elif role in ("onto", "on"):
                chosen["goal" if role == "onto" else "place"] = self.surface("acc" if role == "onto" else "dat")
            elif role == "loc":
                chosen["place"] = self.place(classes, owner)
            else:
                preposition, _, case = role.partition("+")
                pronouns = "ich du er wir" if case == "acc" else "ich du er sie1 wir"
                phrase = self.other(subject, classes, pronouns, "definite" if self.chance(0.8) else kind)
                chosen["about"] = Prepositional(preposition, case, phrase, "")
        if verb.places and self.chance(0.35):
            chosen["place"] = self.place(verb.places, owner)
        if "c" in verb.flags and not negated and self.chance(0.2):
            chosen["companion"] = self.with_whom("mit", "dat", subject)
        if "f" in verb.flags and not negated and self.chance(0.2):
            chosen["beneficiary"] = self.with_whom("für", "acc", subject)
        return chosen

    def with_whom(self, preposition: str, case: str, subject: Subject) -> Prepositional:
        keys = "ich du er sie1 wir" if case == "dat" else "ich du er wir"
        phrase = self.other(subject, frozenset(["person", "kin", "own"]), keys, "definite")
        return Prepositional(preposition, case, phrase, "with" if preposition == "mit" else "for")
