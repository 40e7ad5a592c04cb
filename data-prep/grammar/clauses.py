"""Clauses: one set of parts, put in order by German rules and by English rules."""

from dataclasses import dataclass

from . import english, german
from .lexicon import PARTICLES, Verb
from .phrases import COMMA, NounPhrase, Phrase, Prepositional, Pronoun, Subject, TimePhrase, Word


@dataclass(frozen=True)
class Modal:
    german: str
    tense: str
    english: str
    gloss: str


@dataclass(frozen=True)
class Clause:
    """What is said. `tense` is present, past or later (werden); `reading` is what a German present
    means: habit, now, later or since. English has the time in front when German has."""

    subject: Subject
    verb: Verb
    tense: str = "present"
    reading: str = "habit"
    modal: Modal | None = None
    gladly: bool = False
    negated: bool = False
    object: Phrase | None = None
    recipient: Phrase | None = None
    about: Prepositional | None = None
    predicate: Phrase | None = None
    goal: Phrase | None = None
    place: Phrase | None = None
    companion: Phrase | None = None
    beneficiary: Phrase | None = None
    time: TimePhrase | None = None

    @property
    def turned(self) -> bool:
        """Whether the German dative is the English subject: gefallen, like."""
        return "w" in self.verb.flags

    def gloss(self, tense: str, person: str) -> str:
        return english.finite(self.verb.english.split()[0], tense, person)

    def german_verbs(self) -> tuple[Word, list[Word]]:
        """The finite verb and what stands at the end of the clause."""
        person, verb = self.subject.person, self.verb
        head = verb.english.split()[0]
        infinitive = Word(verb.prefix + verb.infinitive, head)
        if self.modal:
            form = german.irregular(self.modal.german, self.modal.tense, person)
            return Word(form, self.modal.gloss), [infinitive]
        if self.tense == "later":
            return Word(german.irregular("werden", "present", person), "will"), [infinitive]
        if self.tense == "past" and (verb.infinitive, "past") in german.IRREGULAR:
            return Word(german.irregular(verb.infinitive, "past", person), self.gloss("past", person)), []
        if self.tense == "past":
            gloss = english.finite("have", "present", person)
            auxiliary = Word(german.irregular(verb.perfect, "present", person), gloss)
            return auxiliary, [Word(verb.participle, english.participle(head))]
        particle = [Word(verb.prefix, PARTICLES[verb.prefix])] if verb.prefix else []
        return Word(german.present(verb, person), self.gloss("present", person)), particle

    def german_middle(self) -> dict[str, list[Word]]:
        """What stands between the finite verb (with the subject) and the end, by role, in order."""
        pronoun_object = isinstance(self.object, Pronoun)
        pronoun_recipient = isinstance(self.recipient, Pronoun)
        known = isinstance(self.object, NounPhrase) and self.object.definite
        says_no = isinstance(self.object, NounPhrase) and self.object.determiner == "kein"
        early_object = self.object if known or not isinstance(self.object, NounPhrase) else None
        late_object = self.object if early_object is None else None
        reflexive = [Word(german.REFLEXIVES[self.subject.person], "self")] if self.verb.reflexive else []
        parts: list[tuple[str, list[Word]]] = [
            ("pronoun", reflexive or spoken(self.object if pronoun_object else None, "acc")),
            ("pronoun", spoken(self.recipient if pronoun_recipient else None, "dat")),
            ("time", spoken(self.time)),
            ("gladly", [Word("gern", "gladly")] if self.gladly else []),
            ("recipient", spoken(None if pronoun_recipient else self.recipient, "dat")),
            ("object", spoken(None if pronoun_object else early_object, "acc")),
            ("not", [Word("nicht", "not")] if self.negated and not says_no else []),
            ("companion", spoken(self.companion, "dat")),
            ("beneficiary", spoken(self.beneficiary if early_object else None)),
            ("place", spoken(self.place)),
            ("about", spoken(self.about)),
            ("object", spoken(late_object, "acc")),
            ("beneficiary", spoken(None if early_object else self.beneficiary)),
            ("goal", spoken(self.goal)),
            ("predicate", spoken(self.predicate, "nom")),
        ]
        return {role: words for role, words in parts if words}

    def main(self, front: str = "subject", opener: list[Word] | None = None) -> list[Word]:
        """The verb-second clause with the part named `front` (or the words `opener`) before the verb."""
        finite, end = self.german_verbs()
        middle = self.german_middle()
        subject = self.subject.german("nom")
        if opener is None and front == "subject":
            first, subject = subject, []
        else:
            first = middle.pop(front) if opener is None else opener
        return [*first, finite, *self.around(subject, middle), *end]

    def around(self, subject: list[Word], middle: dict[str, list[Word]]) -> list[Word]:
        """Subject and middle; a pronoun stands before a definite noun phrase: hilft mir der Mann."""
        if isinstance(self.subject, NounPhrase) and self.subject.definite:
            return [*middle.pop("pronoun", []), *subject, *flat(middle)]
        return [*subject, *flat(middle)]

    def verb_first(self) -> list[Word]:
        """The German yes-no question."""
        return self.main(opener=[])

    def verb_last(self, opener: list[Word], subject: bool = True) -> list[Word]:
        """The subordinate clause after `opener`; without `subject` the opener is the subject."""
        finite, end = self.german_verbs()
        if end and end[-1].form == self.verb.prefix:
            end, finite = [], Word(self.verb.prefix + finite.form, finite.gloss)
        words = self.subject.german("nom") if subject else []
        return [*opener, *self.around(words, self.german_middle()), *end, finite]

    def purpose(self) -> list[Word]:
        """The German infinitive clause with um ... zu."""
        head = self.verb.english.split()[0]
        zu = german.zu_infinitive(self.verb).split()
        glosses = ["to", head] if len(zu) == 2 else [f"to {head}"]
        return [Word("um", "around"), *flat(self.german_middle()), *map(Word, zu, glosses)]

    def english_purpose(self) -> str:
        head = self.verb.english.split()[0]
        return " ".join(["to", head, *self.english_rest()])

    def statement(self, front: str = "subject") -> str:
        """The English clause in its plain order, the time first if `front` is "time"."""
        time_first = front == "time" and self.time and "pre" not in self.time.time.others
        return self.english_clause("", inverted=False, time_first=bool(time_first))

    def question(self, opener: str = "") -> str:
        """The English question with the subject after the finite verb."""
        return self.english_clause(opener, inverted=True)

    def english_clause(self, opener: str, inverted: bool, time_first: bool = False) -> str:
        who = self.recipient if self.turned else self.subject
        person = getattr(who, "english_person", who.person)
        verbs, tense = self.english_verbs()
        if (self.negated or inverted) and verbs[0] not in english.AUXILIARIES:
            verbs.insert(0, "do")
        auxiliary = verbs[0] in english.AUXILIARIES or verbs[0] == "do"
        finite, rest = english.finite(verbs[0], tense, person), verbs[1:]
        often = self.time.english() if self.time and "pre" in self.time.time.others else ""
        subject = who.english("nom")
        negation = "not" if self.negated else ""
        if inverted:
            core = [opener, finite, subject, negation, often]
        elif auxiliary:
            core = [subject, finite, negation, often]
        else:
            core = [subject, often, finite]
        time = [self.time.english()] if self.time and not often else []
        words = [*core, *rest, *self.english_rest(), *([] if time_first else time)]
        return " ".join(filter(None, [*(time if time_first else []), *words]))

    def english_verbs(self) -> tuple[list[str], str]:
        """The English verbs in order, the first to be made finite in the tense given with them."""
        head = self.verb.english.split()[0]
        if self.modal:
            return [*self.modal.english.split(), head], self.modal.tense
        if self.gladly:
            return ["like", "to", head], "present"
        if "later" in (self.tense, self.reading):
            return ["will", head], "present"
        if self.tense == "past":
            return [head], "past"
        if self.reading == "now":
            return ["be", english.progressive(head)], "present"
        if self.reading == "since":
            return ["have-aux", english.participle(head)], "present"
        return [head], "present"

    def english_rest(self) -> list[str]:
        """What follows the verbs: objects, particle, places."""
        tail = self.verb.english.split()[1:]
        recipient, thing = self.recipient, self.subject if self.turned else self.object
        if self.turned:
            recipient = None
        said_to = recipient and thing and ("to" in tail or not isinstance(recipient, Pronoun))
        if said_to:
            objects = [*particles(tail), thing.english("acc"), "to", recipient.english("acc")]
        elif recipient and thing:
            objects = [recipient.english("acc"), *particles(tail), thing.english("acc")]
        elif isinstance(thing, Pronoun) and any(word.startswith("~") for word in tail):
            objects = [thing.english("acc"), *particles(tail)]
        else:
            objects = [*(word.lstrip("~") for word in tail)]
            objects += [phrase.english("acc") for phrase in (thing, recipient) if phrase]
        rest = [self.about, self.beneficiary, self.goal, self.companion, self.predicate, self.place]
        return objects + [phrase.english("acc") for phrase in rest if phrase]


@dataclass(frozen=True)
class Relative:
    """A relative clause about a noun of the given gender, which is the clause's subject ("nom") or object."""

    clause: Clause
    role: str
    gender: str
    human: bool

    def german(self, case: str) -> list[Word]:
        pronoun = Word(german.DEFINITE[self.role][self.gender], "who" if self.human else "that")
        return [COMMA, *self.clause.verb_last([pronoun], subject=self.role != "nom"), COMMA]

    def english(self, case: str) -> str:
        if self.role == "nom":
            return self.clause.statement()
        return f"that {self.clause.statement()}"


@dataclass(frozen=True)
class RelativeSubject:
    """The English who or that of a relative clause, agreeing with its noun."""

    person: str
    human: bool

    def german(self, case: str) -> list[Word]:
        return []

    def english(self, case: str) -> str:
        return "who" if self.human else "that"


def particles(tail: list[str]) -> list[str]:
    return [word.lstrip("~") for word in tail if word.startswith("~")]


def spoken(phrase: Phrase | None, case: str = "") -> list[Word]:
    return phrase.german(case) if phrase else []


def flat(parts: dict[str, list[Word]]) -> list[Word]:
    return [word for words in parts.values() for word in words]
