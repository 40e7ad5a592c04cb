"""The embedded corpus: its files, and what holds for all of its sentences."""

# ruff: noqa: E402

import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
import sacrebleu

DATA_PREP = Path(__file__).parents[2] / "data-prep"
sys.path.insert(0, str(DATA_PREP))

import embedded_corpus
from grammar.phrases import Word
from grammar.sentence import sentence

NAMES = ["train.de", "train.en", "valid.de", "valid.en", "test.de", "test.en", "test.word-for-word.en"]
SIZES = ["--train", "1500", "--valid", "100", "--test", "200"]
PUBLISHED = {  # SHA-256 of the text that docs/results/12-quick-start and checkpoints/ were made from
    "test.de": "3ecfba73110f011835b378edb5bdefb6d6f6ae487083ebbbd0c6b6cbd1fccea2",
    "test.en": "e26900d83461dc0b60d24a6e00e917d7387767b0b4261b1e5b62a625fe283b28",
    "valid.de": "c7fc334832e34ffea0a2acbfea6a7f65cc451a10039ad4f3a2b53019a3212b6e",
    "valid.en": "39137bc99874a2f88e183706d15a53198a699d5a5d934e8005cd751780bfa098",
}


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


def test_same_seed_same_bytes_in_another_process(lines, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ran = run("--out", "again", *SIZES, "--seed", 1, cwd=elsewhere, env={"PYTHONHASHSEED": "3"})
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.name for path in (elsewhere / "again").iterdir()) == sorted(NAMES)
    for name in NAMES:
        assert (elsewhere / "again" / name).read_bytes().decode() == "".join(f"{line}\n" for line in lines[name])


def test_unless_told_otherwise_it_is_the_corpus_of_the_published_results(tmp_path):
    """Else the quick start finds no published seeds to show. How many training sentences there are moves no other."""
    embedded_corpus.main(["--out", str(tmp_path), "--train", "0"])
    assert {name: sha256((tmp_path / name).read_bytes()).hexdigest() for name in PUBLISHED} == PUBLISHED


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


def test_a_corpus_of_others_is_left_as_it_is(tmp_path):
    sizes, mine = ["--train", "5", "--valid", "1", "--test", "1"], tmp_path / "mine"
    mine.mkdir()
    (mine / "train.de").write_text("mine")
    with pytest.raises(SystemExit, match="mine holds other files: give a new folder"):
        embedded_corpus.main(["--out", str(mine), *sizes])
    assert [path.read_text() for path in mine.iterdir()] == ["mine"]
    for _ in range(2):
        embedded_corpus.main(["--out", str(tmp_path / "out"), *sizes])


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
