"""Vocabulary shortlists are learned from sentence pairs: translations of words, the most probable first."""

import subprocess
from collections import Counter
from random import Random

import numpy as np
import pytest
from fairseq.data import Dictionary
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import ROOT
from ea_fairseq.data.binary_text import make_dictionary, write_token_ids
from ea_fairseq.data.shortlist import Lexicon, learn_shortlist, read_pairs
from ea_fairseq.errors import UserError

WORDS = 7
SENTENCE = st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=6)
PAIRS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=20)


def arrays(pairs) -> list:
    return [tuple(np.array(sentence) for sentence in pair) for pair in pairs]


@settings(max_examples=30)
@given(pairs=PAIRS)
def test_probabilities_are_those_of_words_that_occur_together(pairs):
    lexicon = Lexicon(arrays(pairs), WORDS)
    together = {(one, other) for source, target in pairs for one in source for other in target}
    assert list(zip(lexicon.source.tolist(), lexicon.target.tolist(), strict=True)) == sorted(together)
    np.testing.assert_allclose(np.bincount(lexicon.source, lexicon.probability)[np.unique(lexicon.source)], 1)


@settings(max_examples=30)
@given(pairs=PAIRS, count=st.integers(1, WORDS))
def test_the_best_are_the_most_probable(pairs, count):
    lexicon = Lexicon(arrays(pairs), WORDS)
    found = dict(lexicon.best(count))
    assert found.keys() == {word for source, _ in pairs for word in source}
    for word, targets in found.items():
        known = lexicon.source == word
        probability = dict(zip(lexicon.target[known].tolist(), lexicon.probability[known].tolist(), strict=True))
        assert len(targets) == min(count, len(probability))
        left_out = probability.keys() - set(targets.tolist())
        ranks = [probability[target] for target in targets.tolist()]
        assert ranks == sorted(ranks, reverse=True)
        assert all(probability[target] <= ranks[-1] for target in left_out)


@settings(max_examples=30)
@given(pairs=PAIRS, batches=st.integers(1, 3))
def test_how_many_pairs_are_read_at_once_does_not_matter(pairs, batches):
    whole = Lexicon(arrays(pairs), WORDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ea_fairseq.data.shortlist.AT_ONCE", batches)
        parts = Lexicon(arrays(pairs), WORDS)
    np.testing.assert_array_equal(whole.target, parts.target)
    np.testing.assert_allclose(whole.probability, parts.probability)


def test_one_round_by_hand():
    """A source word shares each target word of its sentence evenly with the other source words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ea_fairseq.data.shortlist.ITERATIONS", 1)
        lexicon = Lexicon(arrays([([0, 1], [0]), ([0], [1])]), WORDS)
    words = zip(lexicon.source.tolist(), lexicon.target.tolist(), lexicon.probability.tolist(), strict=True)
    assert list(words) == [(0, 0, 1 / 3), (0, 1, 2 / 3), (1, 0, 1)]


@pytest.fixture
def data(tmp_path):
    """Binarised sentences and their reversal, from which each word translates itself."""
    draw, folder = Random(1), tmp_path / "data-bin"
    folder.mkdir()
    sentences = [[draw.choice("abcdefgh") for _ in range(draw.randint(2, 7))] for _ in range(60)]
    for language, step in (("src", 1), ("tgt", -1)):
        text = tmp_path / f"train.{language}"
        text.write_text("".join(" ".join(words[::step]) + "\n" for words in sentences))
        dictionary = make_dictionary([text], workers=1)
        dictionary.save(str(folder / f"dict.{language}.txt"))
        write_token_ids(text, len(sentences), dictionary, folder / f"train.src-tgt.{language}", workers=1)
    return folder


def test_a_shortlist_has_the_translation_of_each_word(data, tmp_path):
    path = tmp_path / "made" / "shortlist.tsv"
    path.parent.mkdir()
    learn_shortlist(data, path, words=1, frequent=2, most=1000)
    first, *lines = path.read_text().splitlines()
    assert sorted(lines) == [f"{letter}\t{letter}" for letter in "abcdefgh"]
    counts = Counter((tmp_path / "train.tgt").read_text().split())
    frequent = first.removeprefix("\t").split(" ")
    assert first.startswith("\t") and [counts[word] for word in frequent] == sorted(counts.values())[:-3:-1]
    assert [*path.parent.iterdir()] == [path]


def test_data_that_are_no_pairs_are_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UserError, match="no binarised sentence pairs"):
            learn_shortlist(folder, tmp_path / "shortlist.tsv", words=1, frequent=2, most=1000)


@pytest.mark.parametrize("most", [1, 7, 25, 59, 60, 61])
def test_of_many_pairs_some_are_read_that_are_evenly_spaced(data, most):
    everything, some = ([[*map(tuple, pair)] for pair in read_pairs(data, limit)[0]] for limit in (1000, most))
    spaced = next(found for step in range(1, 61) if len(found := everything[::step]) <= most)
    assert len(everything) == 60 and some == spaced


@pytest.mark.parametrize("lengths", [(101, 101), (101, 1), (1, 101)])
def test_data_whose_sentences_are_all_too_long_are_refused(data, tmp_path, lengths):
    for language, length in zip(("src", "tgt"), lengths, strict=True):
        text = tmp_path / f"train.{language}"
        text.write_text(" ".join("a" * length) + "\n")
        words = Dictionary.load(str(data / f"dict.{language}.txt"))
        write_token_ids(text, 1, words, data / f"train.src-tgt.{language}", workers=1)
    with pytest.raises(UserError, match="no training pair of at most 100 words"):
        learn_shortlist(data, tmp_path / "shortlist.tsv", words=1, frequent=2, most=1000)


def test_an_output_that_cannot_be_a_file_is_refused(data, tmp_path):
    for output in (tmp_path, tmp_path / "nowhere" / "shortlist.tsv"):
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(UserError, match="cannot be a file"):
            learn_shortlist(data, output, words=1, frequent=2, most=1000)
        assert sorted(tmp_path.rglob("*")) == before


def test_bad_flags_are_refused_in_one_sentence():
    command = ["bash", ROOT / "data-prep/make-shortlist.sh", "--words", "0", "a", "b"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 1 and found.stderr.count("\n") == 1
    assert "--words: needs a whole number of at least 1, not '0'" in found.stderr
