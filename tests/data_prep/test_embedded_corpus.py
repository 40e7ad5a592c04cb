"""The embedded corpus: its files, and the laws of German and English its sentences keep."""

# ruff: noqa: E402

import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
import sacrebleu

DATA_PREP = Path(__file__).parents[2] / "data-prep"
sys.path.insert(0, str(DATA_PREP))

import embedded_corpus
from grammar import english, german
from grammar.clauses import Clause, Modal
from grammar.lexicon import ADJECTIVES, NOUNS, TIMES, VERBS
from grammar.phrases import COMMA, Fixed, NounPhrase, Prepositional, Pronoun, TimePhrase, Word, fixed
from grammar.sentence import sentence

NAMES = ["train.de", "train.en", "valid.de", "valid.en", "test.de", "test.en", "test.word-for-word.en"]
SIZES = ["--train", "1500", "--valid", "100", "--test", "200"]


def run(*arguments: object, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, str(DATA_PREP / "embedded_corpus.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def corpus(out: Path, seed: int = 1) -> dict[str, list[str]]:
    embedded_corpus.main(["--out", str(out), *SIZES, "--seed", str(seed)])
    return {name: (out / name).read_text("utf-8").splitlines() for name in NAMES}


@pytest.fixture(scope="module")
def lines(tmp_path_factory) -> dict[str, list[str]]:
    return corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def many() -> list:
    return embedded_corpus.distinct(3000, Random(5))


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


def test_same_seed_same_bytes_in_another_process(lines, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ran = run("--out", "again", *SIZES, "--seed", 1, cwd=elsewhere, env={"PYTHONHASHSEED": "3"})
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.name for path in (elsewhere / "again").iterdir()) == sorted(NAMES)
    for name in NAMES:
        assert (elsewhere / "again" / name).read_bytes().decode() == "".join(f"{line}\n" for line in lines[name])


def test_another_seed_other_sentences(lines, tmp_path):
    other = corpus(tmp_path, seed=2)
    assert len(set(other["test.de"]) & set(lines["test.de"])) < 20


def test_counts(lines):
    assert [len(lines[name]) for name in NAMES] == [1500, 1500, 100, 100, 200, 200, 200]


@pytest.mark.parametrize("language", ["de", "en"])
def test_distinct_and_disjoint(lines, language):
    every = [line for name in ("train", "valid", "test") for line in lines[f"{name}.{language}"]]
    assert len(set(every)) == len(every) == 1800


def test_lines_are_sentences(lines):
    for name in NAMES:
        for line in lines[name]:
            assert re.fullmatch(r"[A-ZÄÖÜ0-9].*[.?]", line), line
            assert not re.search(r"\s\s| [,.?]|,[^ ]|~|None|[,.?][.?]", line), line


def test_lengths(lines):
    lengths = [len(line.split()) for line in lines["train.de"]]
    assert min(lengths) >= 4
    assert max(lengths) <= 14


def test_every_word_has_a_gloss(lines):
    for source, rendition in zip(lines["test.de"], lines["test.word-for-word.en"], strict=True):
        assert len(rendition.split()) >= len(source.split())


def test_translating_word_for_word_is_not_enough(lines):
    reference = [lines["test.en"]]
    assert sacrebleu.corpus_bleu(lines["test.word-for-word.en"], reference).score < 40
    assert sacrebleu.corpus_bleu(lines["test.en"], reference).score == pytest.approx(100)


@pytest.mark.parametrize("flags", [["--train", "-1"], ["--test", "many"], ["--seed", "x"]])
def test_bad_flags(tmp_path, flags):
    ran = run("--out", tmp_path / "out", *flags)
    assert ran.returncode != 0
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "out").exists()


def test_out_is_a_file(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    ran = run("--out", taken, "--train", 5, "--valid", 1, "--test", 1)
    assert ran.returncode != 0
    assert len(ran.stderr.splitlines()) == 1
    assert ran.stderr.startswith("error: cannot write")
    assert taken.read_text() == "mine"


def test_too_many_asked(tmp_path, monkeypatch):
    class Parrot:
        def __init__(self, rng):
            pass

        def write(self):
            return sentence([Word("hallo", "hello")] * 4, "hello")

    monkeypatch.setattr(embedded_corpus, "Writer", Parrot)
    with pytest.raises(SystemExit, match=r"gave only 1 of the 25000 distinct sentences"):
        embedded_corpus.main(["--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


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


def test_a_comma_before_every_conjunction_within(many):
    for pair in many:
        assert not re.search(r"[^,] (dass|weil|obwohl|wenn|ob|während)\b", pair.german), pair.german


def test_generated_subordinate_clauses_end_in_a_finite_verb(many):
    finite = "ist|sind|bin|bist|war|waren|warst|hat|haben|habe|hast|hatten?|hattest|regnet|schneit|scheint"
    found = [match for pair in many if (match := re.search(r", (?:weil|obwohl) .* (\S+)\.$", pair.german))]
    assert len(found) > 50
    assert all(re.fullmatch(finite, match[1]) for match in found)


def test_generated_articles_agree_with_the_next_sound(many):
    for pair in many:
        assert not re.search(r"\b(a [aeio]\w|an [bcdfghjklmnpqrstvwxz])", pair.english), pair.english
        assert not re.search(r"\b(mit|von) (das|die|ein|eine)\b", pair.german.lower()), pair.german


def test_silent_words_leave_no_gap():
    asked = Clause(MAN, verb("helfen"), recipient=Fixed((), ""))
    assert sentence(asked.main(opener=[Word("wem", "who")]), asked.question("who"), "?").english == (
        "Who does the man help?"
    )
    assert sentence([Word("ja", "yes"), COMMA, Word("gut", "good"), COMMA], "yes, good").german == "Ja, gut."
