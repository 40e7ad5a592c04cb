"""Simple sentences: statements, questions and descriptions of one clause."""

from dataclasses import replace
from random import Random

from .chooser import MODALS, Chooser
from .clauses import Clause
from .english import comparative, with_article
from .lexicon import ADJECTIVES, NOUNS, VERBS
from .phrases import Expletive, Fixed, NounPhrase, Phrase, Word, fixed
from .sentence import Sentence, sentence
from .subjects import pronoun_of, thing

NAMED = {(verb.prefix + verb.infinitive, *verb.governs): verb for verb in VERBS}
BE, BECOME, THERE_IS = NAMED["sein", "fixed"], NAMED["werden", "fixed"], NAMED["geben", "fixed"]
COST = NAMED["kosten", "fixed"]
WHO = fixed("wer", "who")
SILENT = Fixed((), "")
CHEAP = ([5, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80], ["clothes", "toy"])
DEAR = ([100, 150, 200, 250, 300, 400, 500, 600, 800], ["machine", "furniture"])


class Simple:
    """Builds sentences of one clause with the choices of `rng`."""

    def __init__(self, rng: Random):
        self.rng = rng
        self.chooser = Chooser(rng)

    def statement(self) -> Sentence:
        clause = self.chooser.clause()
        front = self.front(clause)
        return sentence(clause.main(front), clause.statement(front))

    def front(self, clause: Clause) -> str:
        """The part that stands before the German verb."""
        fronts = ["subject"]
        if clause.time and clause.time.time.german not in ("immer", "nie", "selten", "oft", "gerade"):
            fronts.append("time")
        if clause.place and not clause.negated:
            fronts.append("place")
        thing = clause.object
        if isinstance(thing, NounPhrase) and thing.definite and thing.gender == "r":
            fronts += ["object"] if not clause.negated and not clause.verb.reflexive else []
        return self.rng.choice(fronts)

    def yes_no_question(self) -> Sentence:
        clause = without_no(self.chooser.clause())
        return sentence(clause.verb_first(), clause.question(), "?")

    def wh_question(self) -> Sentence:
        opener, asked, english = self.asked()
        if asked.subject is WHO:
            return sentence(asked.main(), asked.statement(), "?")
        return sentence(asked.main(opener=opener), asked.question(english), "?")

    def asked(self) -> tuple[list[Word], Clause, str]:
        """A question word in German, the clause it asks about and the question word in English."""
        clause = without_no(self.chooser.clause())
        if "t" in clause.verb.flags and not (clause.object or human(clause.subject)):
            return self.asked()
        while True:
            kind = self.rng.choice(["who", "object", "recipient", "about", "place", "time", "why", "goal"])
            if kind == "who" and not thing(clause.subject):
                return [Word("wer", "who")], replace(clause, subject=WHO), "who"
            if kind == "object" and clause.object and not clause.beneficiary:
                word = Word("wen", "who") if human(clause.object) else Word("was", "what")
                return [word], replace(clause, object=None), word.gloss
            if kind == "recipient" and clause.recipient and not clause.turned:
                return [Word("wem", "who")], replace(clause, recipient=SILENT), "who"
            if kind == "about" and clause.about:
                return self.asked_about(clause)
            if kind == "place" and clause.place:
                return [Word("wo", "where")], replace(clause, place=None), "where"
            if kind == "goal" and clause.goal and "dir" in clause.verb.governs:
                return [Word("wohin", "where")], replace(clause, goal=None), "where"
            if kind == "time" and "s" not in clause.verb.flags and (clause.time is None or clause.tense != "present"):
                return [Word("wann", "when")], replace(clause, time=None), "when"
            if kind == "why" and "t" not in clause.verb.flags:
                return [Word("warum", "why")], clause, "why"

    def asked_about(self, clause: Clause) -> tuple[list[Word], Clause, str]:
        about = clause.about
        without = replace(clause, about=None)
        preposition = about.german()[0].gloss.split()[0]
        if human(about.phrase):
            who = Word("wen" if about.case == "acc" else "wem", "who")
            return [Word(about.preposition, preposition), who], without, "who"
        link = "r" if about.preposition[0] in "aäeiouü" else ""
        return [Word(f"wo{link}{about.preposition}", "what")], without, "what"

    def property(self) -> Sentence:
        """Something is, was, or is not so."""
        chooser = self.chooser
        choice = self.rng.random()
        if choice < 0.4:
            state = self.rng.choice([adjective for adjective in ADJECTIVES if "state" in adjective.classes])
            subject, predicate = chooser.subject(frozenset(["person"])), fixed(state.german, state.english)
        else:
            subject = replace(
                chooser.noun_phrase(
                    [
                        "thing",
                        "building",
                        "show",
                        "pet",
                        "food",
                        "town",
                        "clothes",
                        "furniture",
                        "question",
                        "plant",
                        "kin",
                    ],
                    kind="definite",
                )
            )
            subject = replace(subject, adjective=None)
            predicate = self.predicate(subject)
            if predicate is None:
                return self.property()
        tense = self.rng.choice(["present", "past"])
        clause = Clause(subject, BE, tense, predicate=predicate, negated=self.rng.random() < 0.2)
        if self.rng.random() < 0.25:
            clause = replace(clause, negated=False)
            return sentence(clause.verb_first(), clause.question(), "?")
        return sentence(clause.main(), clause.statement())

    def predicate(self, subject: NounPhrase) -> Fixed | None:
        """An adjective that can be said of the noun phrase, bare or with very or too."""
        found = self.chooser.adjective(subject.noun)
        if found is None:
            return None
        bare = fixed(found.german, found.english)
        choice = self.rng.random()
        return more("sehr", "very", bare) if choice < 0.3 and (found.comparative or "state" in found.classes) else bare

    def comparison(self) -> Sentence:
        """One thing is bigger than the other, or as big."""
        chooser = self.chooser
        group = self.rng.choice(
            [
                "kin",
                "animal",
                "pet",
                "building",
                "clothes",
                "machine",
                "show",
                "event",
                "text",
                "furniture",
                "vehicle",
                "town",
                "job",
            ]
        )
        first, second = (replace(chooser.noun_phrase([group], kind="definite"), adjective=None) for _ in range(2))
        comparable = [
            adjective
            for adjective in ADJECTIVES
            if adjective.comparative and all(adjective in chooser.adjectives(phrase.noun) for phrase in (first, second))
        ]
        if first.noun == second.noun or not comparable:
            return self.comparison()
        found = self.rng.choice(comparable)
        other = second.english("nom")
        if self.rng.random() < 0.7:
            higher = comparative(found.english)
            words = [
                Word(found.comparative, higher.replace(" ", "-")),
                Word("als", "as"),
                *second.german("nom"),
            ]
            predicate = Fixed(tuple(words), f"{higher} than {other}")
        else:
            so = [Word("so", "so"), Word(found.german, found.english), Word("wie", "like")]
            predicate = Fixed((*so, *second.german("nom")), f"as {found.english} as {other}")
        clause = Clause(first, BE, predicate=predicate)
        if self.rng.random() < 0.3:
            return sentence(clause.verb_first(), clause.question(), "?")
        return sentence(clause.main(), clause.statement())

    def profession(self) -> Sentence:
        """Somebody is, was or would like to become a doctor."""
        subject = self.chooser.subject(frozenset(["person"]))
        female = isinstance(subject, NounPhrase) and subject.gender == "e"
        female = female or pronoun_of(subject) == "sie1"
        if subject.person in ("wir", "sie") or (isinstance(subject, NounPhrase) and "kin" not in subject.noun.classes):
            return self.profession()
        gender = "e" if female else "r"
        jobs = [noun for noun in NOUNS if "job" in noun.classes and noun.gender == gender]
        job = self.rng.choice(jobs)
        predicate = fixed(job.german, with_article(job.english))
        clause = self.rng.choice(
            [
                Clause(subject, BE, self.rng.choice(["present", "past"]), predicate=predicate),
                Clause(subject, BECOME, modal=self.rng.choice(MODALS), predicate=predicate),
                Clause(subject, BECOME, tense="past", predicate=predicate),
            ]
        )
        return sentence(clause.main(), clause.statement())

    def existence(self) -> Sentence:
        """There is something somewhere."""
        chooser = self.chooser
        where, what = self.rng.choice(
            [
                ("town", ["sight", "eatery", "building"]),
                ("room", ["furniture", "thing"]),
                ("outside", ["animal", "plant"]),
                ("market", ["food", "drink", "clothes"]),
                ("eatery", ["dish", "drink", "baked"]),
            ]
        )
        place = chooser.place([where], None)
        nothing = self.rng.random() < 0.2
        found = chooser.noun_phrase(what, kind="none" if nothing else "indefinite")
        clause = Clause(Expletive("there", found.person), THERE_IS, object=found, negated=nothing, place=place)
        if not nothing and self.rng.random() < 0.25:
            return sentence(clause.verb_first(), clause.question(), "?")
        front = self.rng.choice(["place", "subject"])
        return sentence(clause.main(front), clause.statement())

    def price(self) -> Sentence:
        """Something costs so many euros."""
        prices, classes = self.rng.choice([CHEAP, DEAR])
        subject, euros = self.chooser.noun_phrase(classes, kind="definite"), str(self.rng.choice(prices))
        amount = Fixed((Word(euros, euros), Word("Euro", "euros")), f"{euros} euros")
        clause = Clause(subject, COST, self.rng.choice(["present", "past"]), object=amount)
        if self.rng.random() < 0.3:
            asked = replace(clause, object=None)
            return sentence(asked.main(opener=[Word("was", "what")]), asked.question("what"), "?")
        return sentence(clause.main(), clause.statement())


def more(words: str, glosses: str, phrase: Fixed) -> Fixed:
    """The phrase with words before it: sehr müde, very tired."""
    before = tuple(map(Word, words.split(), glosses.split()))
    return Fixed((*before, *phrase.words), f"{glosses} {phrase.translation}")


def human(phrase: Phrase) -> bool:
    return not thing(phrase)


def without_no(clause: Clause) -> Clause:
    """The clause affirmed: nothing of nicht or kein."""
    phrase = clause.object
    if isinstance(phrase, NounPhrase) and phrase.determiner == "kein":
        bare = phrase.plural or phrase.noun.mass
        phrase = replace(phrase, determiner=None if bare else "ein")
    return replace(clause, negated=False, object=phrase)
