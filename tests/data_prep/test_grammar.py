"""The embedded corpus's grammar: the laws of German and English, a phrase and a clause at a time."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "data-prep"))

from grammar import english, german
from grammar.clauses import Clause, Modal
from grammar.lexicon import ADJECTIVES, NOUNS, TIMES, VERBS
from grammar.phrases import COMMA, Fixed, NounPhrase, Prepositional, Pronoun, TimePhrase, Word, fixed
from grammar.sentence import sentence


def noun(name: str):
    return next(noun for noun in NOUNS if noun.german == name)


def verb(infinitive: str, *governs: str):
    return next(
        verb
        for verb in VERBS
        if verb.prefix + verb.infinitive == infinitive and (not governs or set(governs) == set(verb.governs))
    )


def adjective(name: str):
    return next(adjective for adjective in ADJECTIVES if adjective.german == name)


def time(name: str) -> TimePhrase:
    return TimePhrase(next(time for time in TIMES if time.german == name))


MAN, DOG = NounPhrase(noun("Mann")), NounPhrase(noun("Hund"))
ANNA = fixed("Anna", "Anna", "sie")


def forms(words: list[Word]) -> str:
    return " ".join(word.form for word in words)


ADJECTIVE_TABLE = """
der nom alte alte alte alten
der acc alten alte alte alten
der dat alten alten alten alten
mein nom alter alte altes alten
mein acc alten alte altes alten
mein dat alten alten alten alten
- nom alter alte altes alte
- acc alten alte altes alte
- dat altem alter altem alten
"""


@pytest.mark.parametrize("row", ADJECTIVE_TABLE.strip().splitlines())
def test_adjective_endings(row):
    determiner, case, *expected = row.split()
    determiner = None if determiner == "-" else determiner
    assert ["alt" + german.adjective_ending(determiner, case, gender) for gender in "resp"] == expected


@pytest.mark.parametrize(
    ("phrase", "case", "expected"),
    [
        (NounPhrase(noun("Student"), "ein"), "acc", "einen Studenten"),
        (NounPhrase(noun("Kind"), "der", plural=True), "dat", "den Kindern"),
        (NounPhrase(noun("Auto"), "zwei", adjective("teuer"), True), "dat", "zwei teuren Autos"),
        (NounPhrase(noun("Kind"), "viel", adjective("müde"), True), "nom", "viele müde Kinder"),
        (NounPhrase(noun("Milch"), None, adjective("kalt")), "acc", "kalte Milch"),
        (NounPhrase(noun("Bruder"), "Annas", adjective("klug")), "dat", "Annas klugem Bruder"),
        (NounPhrase(noun("Katze"), "unser"), "dat", "unserer Katze"),
        (NounPhrase(noun("Haus"), "dies", adjective("alt")), "nom", "dieses alte Haus"),
    ],
)
def test_noun_phrases(phrase, case, expected):
    assert forms(phrase.german(case)) == expected


def test_mit_takes_the_dative_and_fuer_the_accusative():
    friend = NounPhrase(noun("Freund"), "mein", plural=True)
    assert forms(Prepositional("mit", "dat", friend, "with").german()) == "mit meinen Freunden"
    assert forms(Prepositional("für", "acc", DOG, "for").german()) == "für den Hund"


def test_prepositions_contract():
    park = NounPhrase(noun("Park"))
    assert forms(Prepositional("in", "dat", park, "in").german()) == "im Park"
    assert forms(Prepositional("in", "acc", park, "to").german()) == "in den Park"
    assert forms(Prepositional("zu", "dat", NounPhrase(noun("Universität")), "to").german()) == "zur Universität"


@pytest.mark.parametrize(
    ("infinitive", "expected"),
    [
        ("arbeiten", "arbeite arbeitest arbeitet arbeiten arbeiten"),
        ("lesen", "lese liest liest lesen lesen"),
        ("fahren", "fahre fährst fährt fahren fahren"),
        ("wandern", "wandere wanderst wandert wandern wandern"),
        ("tanzen", "tanze tanzt tanzt tanzen tanzen"),
        ("öffnen", "öffne öffnest öffnet öffnen öffnen"),
    ],
)
def test_present(infinitive, expected):
    assert " ".join(german.present(verb(infinitive), person) for person in german.PERSONS) == expected


def test_participles():
    expected = "gekauft repariert besucht eingekauft aufgestanden vorgelesen verkauft geöffnet gewandert erzählt"
    infinitives = "kaufen reparieren besuchen einkaufen aufstehen vorlesen verkaufen öffnen wandern erzählen"
    assert [verb(infinitive).participle for infinitive in infinitives.split()] == expected.split()


def test_separable_verbs_split_and_join():
    rises = Clause(MAN, verb("aufstehen"), time=time("heute"), reading="now")
    assert forms(rises.main()) == "der Mann steht heute auf"
    assert forms(rises.main("time")) == "heute steht der Mann auf"
    assert forms(rises.verb_last([Word("weil", "because")])) == "weil der Mann heute aufsteht"
    assert forms(Clause(MAN, verb("aufstehen"), "past").main()) == "der Mann ist aufgestanden"
    assert forms(Clause(MAN, verb("aufräumen"), object=NounPhrase(noun("Küche"))).purpose()) == (
        "um die Küche aufzuräumen"
    )


def test_verb_goes_last_in_subordinate_clauses():
    wants = Clause(MAN, verb("lesen", "acc"), modal=Modal("müssen", "present", "have to", "must"), object=BOOK)
    assert forms(wants.main()) == "der Mann muss das Buch lesen"
    assert forms(wants.verb_last([Word("weil", "because")])) == "weil der Mann das Buch lesen muss"
    assert wants.statement() == "the man has to read the book"


BOOK = NounPhrase(noun("Buch"))


def test_objects_before_the_verb_keep_their_case():
    sees = Clause(MAN, verb("sehen", "acc"), object=DOG)
    assert forms(sees.main("object")) == "den Hund sieht der Mann"
    assert sees.statement("object") == "the man sees the dog"


def test_negation():
    reads = Clause(MAN, verb("lesen", "acc"), object=BOOK, negated=True)
    assert forms(reads.main()) == "der Mann liest das Buch nicht"
    assert reads.statement() == "the man does not read the book"
    nothing = Clause(MAN, verb("lesen", "acc"), "past", object=NounPhrase(noun("Buch"), "kein"), negated=True)
    assert forms(nothing.main()) == "der Mann hat kein Buch gelesen"
    assert nothing.statement() == "the man did not read a book"
    bread = Clause(MAN, verb("essen", "acc"), object=NounPhrase(noun("Brot"), "kein"), negated=True)
    assert bread.statement() == "the man does not eat any bread"
    home = Clause(MAN, verb("gehen", "dir"), goal=Prepositional("in", "acc", NounPhrase(noun("Park")), "to"))
    assert forms(Clause(**{**vars(home), "negated": True}).main()) == "der Mann geht nicht in den Park"


@pytest.mark.parametrize(
    ("clause", "german_question", "english_question"),
    [
        (
            Clause(MAN, verb("lesen", "acc"), object=BOOK),
            "liest der Mann das Buch",
            "does the man read the book",
        ),
        (Clause(MAN, verb("schlafen"), "past"), "hat der Mann geschlafen", "did the man sleep"),
        (
            Clause(ANNA, verb("anrufen"), "later", object=Pronoun("ich")),
            "wird Anna mich anrufen",
            "will Anna call me",
        ),
        (
            Clause(MAN, verb("tanzen"), reading="now", time=time("jetzt")),
            "tanzt der Mann jetzt",
            "is the man dancing now",
        ),
        (
            Clause(Pronoun("sie1"), verb("wohnen"), reading="since", place=fixed("hier", "here")),
            "wohnt sie hier",
            "has she lived here",
        ),
    ],
)
def test_questions(clause, german_question, english_question):
    assert forms(clause.verb_first()) == german_question
    assert clause.question() == english_question


def test_frequency_stands_before_the_english_verb():
    reads = Clause(MAN, verb("lesen", "acc"), object=BOOK, time=time("oft"))
    assert reads.statement() == "the man often reads the book"
    assert reads.question() == "does the man often read the book"


def test_gern_and_gefallen_turn_round():
    assert Clause(ANNA, verb("tanzen"), gladly=True).statement() == "Anna likes to dance"
    pleases = Clause(BOOK, verb("gefallen"), "past", recipient=Pronoun("ich"))
    assert forms(pleases.main()) == "das Buch hat mir gefallen"
    assert pleases.statement() == "I liked the book"


def test_recipients():
    gives = Clause(MAN, verb("geben", "dat", "acc"), recipient=ANNA, object=BOOK)
    assert gives.statement() == "the man gives the book to Anna"
    assert Clause(MAN, gives.verb, recipient=Pronoun("ich"), object=BOOK).statement() == ("the man gives me the book")


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("apple", "an apple"),
        ("old man", "an old man"),
        ("university", "a university"),
        ("new egg", "a new egg"),
    ],
)
def test_a_or_an(phrase, expected):
    assert english.with_article(phrase) == expected


def test_english_forms():
    assert [english.plural(word) for word in ["city", "boy", "knife", "tomato", "bus", "child"]] == (
        ["cities", "boys", "knives", "tomatoes", "buses", "children"]
    )
    assert [english.progressive(word) for word in ["swim", "write", "open", "lie-in", "get"]][:3] == (
        ["swimming", "writing", "opening"]
    )
    assert [english.past(word) for word in ["buy", "try", "visit", "plan"]] == [
        "bought",
        "tried",
        "visited",
        "planned",
    ]
    assert [english.comparative(word) for word in ["big", "nice", "heavy", "expensive"]] == (
        ["bigger", "nicer", "heavier", "more expensive"]
    )


def test_silent_words_leave_no_gap():
    asked = Clause(MAN, verb("helfen"), recipient=Fixed((), ""))
    assert sentence(asked.main(opener=[Word("wem", "who")]), asked.question("who"), "?").english == (
        "Who does the man help?"
    )
    assert sentence([Word("ja", "yes"), COMMA, Word("gut", "good"), COMMA], "yes, good").german == "Ja, gut."
