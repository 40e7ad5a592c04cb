"""Subword models: merges and segments are those of subword-nmt, and no more text is learnt of than memory is for."""

import io
import tarfile
from collections import Counter
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe as learn_by_subword_nmt

from commands import ROOT
from corpora import sentence
from ea_fairseq.data import subword_models
from ea_fairseq.data.byte_pairs import learn_merges
from ea_fairseq.data.parallel import count_words
from ea_fairseq.data.subword_models import learn_bpe, learn_sentencepiece
from ea_fairseq.errors import UserError
from ea_fairseq.text import subwords
from ea_fairseq.text.subwords import Segments

MANY = 1000

lines = st.lists(st.text("abcäß&-", min_size=1, max_size=4), max_size=6).map(" ".join)
words = st.one_of(*(st.text(letters, min_size=1, max_size=12) for letters in ("a", "ab", "abcde", "aä-ß😀\\")))
vocabularies = st.dictionaries(words, st.integers(1, 50), max_size=40).filter(
    lambda words: max(map(len, words), default=0) > 1
)


def by_subword_nmt(counts: dict[str, int], merges: int) -> list[tuple[str, ...]]:
    codes = io.StringIO()
    with redirect_stderr(io.StringIO()):
        learn_by_subword_nmt([f"{word} {count}" for word, count in counts.items()], codes, merges, is_dict=True)
    return [tuple(line.split(" ")) for line in codes.getvalue().split("\n")[1:-1]]


@given(vocabularies, st.integers(1, 60))
def test_merges_are_those_of_subword_nmt(counts, merges):
    assert list(learn_merges(Counter(counts), merges)) == by_subword_nmt(counts, merges)


def test_merges_of_real_words_are_those_of_subword_nmt():
    with tarfile.open(ROOT / "ea_fairseq/data/embedded-corpus.tar.bz2") as corpus:
        counts = Counter(corpus.extractfile("train.de").read().decode("utf-8").split())
    expected = by_subword_nmt(counts, MANY)
    assert len(expected) == MANY
    assert list(learn_merges(counts, MANY)) == expected
    assert not counts


@settings(max_examples=20)
@given(st.lists(lines, min_size=1, max_size=50))
def test_merges_are_those_of_subword_nmt_on_the_text(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "text.xx"
    path.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    assert count_words([path], 1) == Counter(word for line in text for word in line.split(" ") if word)
    codes = path.with_suffix(".codes")
    try:
        learn_bpe([path], 20, codes)
    except UserError:
        with pytest.raises(ValueError):
            learn_by_subword_nmt(text, io.StringIO(), 20)
    else:
        expected = io.StringIO()
        learn_by_subword_nmt(text, expected, 20)
        assert codes.read_text(encoding="utf-8") == expected.getvalue()


@given(st.lists(lines, min_size=1))
def test_segments_are_those_of_subword_nmt_however_few_are_remembered(text):
    codes = "#version: 0.2\na b\nab c</w>\n& -</w>\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subwords, "CACHE_SIZE", 2)
        segments = Segments(io.StringIO(codes))
        bpe = BPE(io.StringIO(codes))
        for line in text:
            assert " ".join(map(segments.__getitem__, line.split(" "))) == bpe.process_line(line)
            assert len(segments) <= 2 and len(segments.bpe.cache) <= 2


def write(path: Path, numbers: range) -> Path:
    path.write_text("".join(f"{sentence('de', number)} {number % 7}\n" for number in numbers), encoding="utf-8")
    return path


def test_of_much_text_sentencepiece_sees_evenly_spaced_sentences(tmp_path: Path, monkeypatch):
    files = [write(tmp_path / "text.de", range(300)), write(tmp_path / "text.en", range(300, 600))]
    third = write(tmp_path / "third", range(0, 600, 3))
    models = [tmp_path / name for name in ("all.model", "some.model", "third.model")]
    learn_sentencepiece(files, 40, models[0])
    learn_sentencepiece([third], 40, models[2])
    monkeypatch.setattr(subword_models, "MAX_BYTES", sum(path.stat().st_size for path in files) // 3 + 1)
    learn_sentencepiece(files, 40, models[1])
    assert models[1].read_bytes() == models[2].read_bytes() != models[0].read_bytes()


@pytest.mark.parametrize("text", ["", "a b\nc\n"])
def test_bpe_needs_a_word_of_two_letters(tmp_path: Path, text):
    (tmp_path / "text.de").write_text(text)
    with pytest.raises(UserError, match="too little text"):
        learn_bpe([tmp_path / "text.de"], 5, tmp_path / "codes")
    assert not (tmp_path / "codes").exists()
