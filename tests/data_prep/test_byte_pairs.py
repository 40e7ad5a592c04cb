"""Merges of byte pair encoding are those of subword-nmt."""

import io
import tarfile
from collections import Counter
from contextlib import redirect_stderr
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from subword_nmt.learn_bpe import learn_bpe

from ea_fairseq.data.byte_pairs import learn_merges

MANY = 1000

words = st.one_of(*(st.text(letters, min_size=1, max_size=12) for letters in ("a", "ab", "abcde", "aä-ß😀\\")))
vocabularies = st.dictionaries(words, st.integers(1, 50), max_size=40).filter(
    lambda words: max(map(len, words), default=0) > 1
)


def by_subword_nmt(counts: dict[str, int], merges: int) -> list[tuple[str, ...]]:
    codes = io.StringIO()
    with redirect_stderr(io.StringIO()):
        learn_bpe([f"{word} {count}" for word, count in counts.items()], codes, merges, is_dict=True)
    return [tuple(line.split(" ")) for line in codes.getvalue().split("\n")[1:-1]]


@given(vocabularies, st.integers(1, 60))
def test_merges_are_those_of_subword_nmt(counts, merges):
    assert list(learn_merges(Counter(counts), merges)) == by_subword_nmt(counts, merges)


def test_merges_of_real_words_are_those_of_subword_nmt():
    with tarfile.open(Path(__file__).resolve().parents[2] / "ea_fairseq/data/embedded-corpus.tar.bz2") as corpus:
        counts = Counter(corpus.extractfile("train.de").read().decode("utf-8").split())
    expected = by_subword_nmt(counts, MANY)
    assert len(expected) == MANY
    assert list(learn_merges(counts, MANY)) == expected
    assert not counts
