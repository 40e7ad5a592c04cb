"""Compound sentences: reported speech, reasons, purposes and relative clauses."""

from dataclasses import replace

from .chooser import AT_HOME, HOMEWARDS, PLAIN_VERBS
from .clauses import Clause, Relative, RelativeSubject
from .lexicon import ADJECTIVES, NOUNS, VERBS, Noun, Verb
from .phrases import COMMA, Expletive, Fixed, NounPhrase, Pronoun, Subject, Word, fixed
from .sentence import Sentence, sentence
from .simple import BE, NAMED, WHO, Simple, more, without_no
from .subjects import owner_of, pronoun_of, thing


def noun(german: str) -> Noun:
    return next(noun for noun in NOUNS if noun.german == german)


def adjective(english: str) -> Fixed:
    found = next(adjective for adjective in ADJECTIVES if adjective.english == english)
    return fixed(found.german, found.english)


HAVE, ASK, KNOW = NAMED["haben", "fixed"], NAMED["fragen", "fixed"], NAMED["wissen", "clause"]
REST = [NAMED[("schlafen",)], NAMED["bleiben", "loc"], NAMED["gehen", "dir"]]
WEATHER = Expletive("it")
THE_WEATHER, SUN = NounPhrase(noun("Wetter")), NounPhrase(noun("Sonne"))
TIME, NO_TIME = NounPhrase(noun("Zeit"), None), NounPhrase(noun("Zeit"), "kein")


class Compound(Simple):
    """Builds sentences of two clauses."""

    def reported(self) -> Sentence:
        """Somebody says that, or does not know whether."""
        clause = self.chooser.clause()
        if self.rng.random() < 0.3:
            clause = without_no(clause)
            asks = self.rng.random() < 0.5
            verb = ASK if asks else KNOW
            matrix = self.matrix(verb, negated=not asks)
            conjunction = Word("ob", "whether")
        else:
            verb = self.rng.choice([verb for verb in VERBS if "clause" in verb.governs])
            matrix = self.matrix(verb)
            conjunction = Word("dass", "that")
        words = [*matrix.main(), COMMA, *clause.verb_last([conjunction])]
        return sentence(words, f"{matrix.statement()} {conjunction.gloss} {clause.statement()}")

    def matrix(self, verb: Verb, negated: bool = False) -> Clause:
        subject = self.chooser.subject(verb.subjects)
        return Clause(subject, verb, negated=negated)

    def indirect_question(self) -> Sentence:
        opener, asked, english = self.asked()
        asks = self.rng.random() < 0.4
        matrix = self.matrix(ASK if asks else KNOW, negated=not asks and self.rng.random() < 0.5)
        who = asked.subject is WHO
        words = [*matrix.main(), COMMA, *asked.verb_last(opener, subject=not who)]
        said = asked.statement() if who else f"{english} {asked.statement()}"
        return sentence(words, f"{matrix.statement()} {said}")

    def reason(self) -> Sentence:
        """Because, although and when: somebody does something, and a circumstance beside it."""
        chooser = self.chooser
        while (pronoun := pronoun_of(subject := chooser.subject(frozenset(["person"])))) is None:
            pass
        tense = self.rng.choice(["present", "past"])
        conjunction, gloss = self.rng.choice([("weil", "because"), ("obwohl", "although"), ("wenn", "when")])
        rests = conjunction != "obwohl" and self.rng.random() < 0.5
        if conjunction == "wenn":
            tense = "present"
        verb = self.rng.choice(REST if rests else [verb for verb in PLAIN_VERBS if "r" in verb.flags])
        given = {"goal": HOMEWARDS, "place": None} if verb in REST and "dir" in verb.governs else {}
        given = {"place": AT_HOME} if "loc" in verb.governs else given
        clause = chooser.clause(verb, subject, tense=tense, **(given if rests else {}))
        hard = rests or conjunction == "obwohl"
        if self.rng.random() < 0.5:
            beside = self.circumstance(Pronoun(pronoun), tense, hard, rests)
            opener = [Word(conjunction, gloss)]
            words = [*clause.main(), COMMA, *beside.verb_last(opener)]
            return sentence(words, f"{clause.statement()} {gloss} {beside.statement()}")
        beside = self.circumstance(subject, tense, hard, rests)
        clause = replace(clause, subject=Pronoun(pronoun))
        opener = beside.verb_last([Word(conjunction, gloss)])
        words = clause.main(opener=[*opener, COMMA])
        return sentence(words, f"{gloss} {beside.statement()}, {clause.statement()}")

    def circumstance(self, subject: Subject, tense: str, hard: bool, rests: bool) -> Clause:
        """What speaks against going out (`hard`) or for it; `rests`: also for staying at home."""
        choice = self.rng.random()
        if choice < 0.45:
            unwell = ["tired", "sick", "sad", "nervous"] + ([] if rests else ["hungry", "thirsty"])
            states = unwell if hard else ["happy"]
            state = adjective(self.rng.choice(states))
            if self.rng.random() < 0.3:
                state = more("sehr", "very", state)
            return Clause(subject, BE, tense, predicate=state)
        if choice < 0.65 and not rests:
            return Clause(subject, HAVE, tense, negated=hard, object=NO_TIME if hard else TIME)
        if hard:
            falls = self.rng.choice([verb for verb in VERBS if verb.subjects == {"weather"}][:2])
            return self.rng.choice(
                [Clause(WEATHER, falls, tense), Clause(WEATHER, BE, tense, predicate=adjective("cold"))]
            )
        shines = NAMED["scheinen", "fixed"]
        nice = Clause(THE_WEATHER, BE, tense, predicate=adjective("beautiful"))
        return self.rng.choice([nice, Clause(SUN, shines, tense)])

    def meanwhile(self) -> Sentence:
        """While one does this, the other does that."""
        chooser = self.chooser

        def one() -> Clause:
            subject = chooser.subject(frozenset(["person"]))
            if isinstance(subject, Pronoun) and subject.person == "er":
                return one()
            verb = chooser.verb(lambda verb: "person" in verb.subjects and not verb.flags & {"s", "o", "a"})
            return chooser.clause(verb, subject, tense="present", reading="now")

        first, second = one(), one()
        while second.subject == first.subject or isinstance(second.subject, Pronoun):
            second = one()
        opener = first.verb_last([Word("während", "while")])
        words = second.main(opener=[*opener, COMMA])
        return sentence(words, f"while {first.statement()}, {second.statement()}")

    def purpose(self) -> Sentence:
        """Somebody goes somewhere in order to do something."""
        chooser = self.chooser
        aim = chooser.verb(lambda verb: "e" in verb.flags)
        where = aim.places or frozenset(["city"])
        goes = chooser.verb(lambda verb: verb.governs.get("dir", frozenset()) & where)
        clause = chooser.clause(goes, tense=self.rng.choice(["present", "past", "later"]))
        goal = chooser.goal(where & goes.governs["dir"], owner_of(clause.subject))
        clause = replace(clause, companion=None, goal=goal)
        if goal is HOMEWARDS or thing(clause.subject):
            return self.purpose()
        if clause.tense != "present" and self.rng.random() < 0.5:
            timely = chooser.time(lambda time: clause.tense in time.others and not {"every", "exact"} & time.others)
            clause = replace(clause, time=timely)
        deed = replace(chooser.clause(aim, clause.subject, tense="present"), place=None)
        front = self.front(clause)
        words = [*clause.main(front), COMMA, *deed.purpose()]
        return sentence(words, f"{clause.statement(front)} {deed.english_purpose()}")

    def relative_subject(self) -> Sentence:
        """The woman who works in Berlin does something; I know the woman who works in Berlin."""
        chooser = self.chooser
        verb = chooser.verb(lambda verb: "person" in verb.subjects)
        heads = ["job"] if "a" in verb.flags else ["job", "young"]
        head = replace(chooser.noun_phrase(heads, kind="definite"), determiner="der", adjective=None)
        relative = RelativeSubject(head.person, True)
        inner = chooser.clause(verb, relative)
        head = replace(head, relative=Relative(inner, "nom", head.gender, True))
        if self.rng.random() < 0.5:
            clause = Clause(head, BE, predicate=self.predicate(head))
        else:
            verb = self.rng.choice([NAMED["kennen", "acc"], NAMED["suchen", "acc"], NAMED["sehen", "acc"]])
            clause = Clause(chooser.subject(frozenset(["person"])), verb, object=head)
        return sentence(clause.main(), clause.statement())

    def relative_object(self) -> Sentence:
        """The book that my brother has bought is interesting."""
        chooser = self.chooser
        verb = chooser.verb(
            lambda verb: (
                set(verb.governs) == {"acc"}
                and verb.subjects == {"person"}
                and not verb.governs["acc"] & {"person", "kin", "own", "job"}
            )
        )
        inner = without_no(chooser.clause(verb))
        while inner.gladly:
            inner = without_no(chooser.clause(verb))
        plural = inner.object.plural
        head = NounPhrase(inner.object.noun, "der", None, plural)
        if not (predicate := self.predicate(head)):
            return self.relative_object()
        bare = replace(inner, object=None, beneficiary=None)
        head = replace(head, relative=Relative(bare, "acc", head.gender, False))
        clause = Clause(head, BE, predicate=predicate)
        return sentence(clause.main(), clause.statement())
