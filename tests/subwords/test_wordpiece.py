"""BERT's WordPiece: its words, the pieces of each, and the vocabulary as untrusted input."""

import argparse

import pytest
from fairseq.data import encoders
from hypothesis import given
from hypothesis import strategies as st

from ea_fairseq.errors import UserError
from ea_fairseq.subwords.wordpiece import LONGEST_WORD, SYMBOLS, WordPiece, WordPieceConfig, read_vocabulary, words

PIECES = [*SYMBOLS, *"abcdefgé!?漢", *(f"##{letter}" for letter in "abcdefg"), "bad", "##ge", "##gea", "Bad", "##Ge"]
TEXT = st.text(st.sampled_from("abcdefgABCÉé \t\u2028\x00\u200b!?漢[]#<>_😀"), max_size=30)


def write_vocabulary(folder, pieces=PIECES):
    path = folder / "vocab.txt"
    path.write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    return write_vocabulary(tmp_path_factory.mktemp("vocabulary"))


@pytest.fixture(scope="module")
def wordpiece(vocabulary):
    return WordPiece(WordPieceConfig(wordpiece_vocab=str(vocabulary)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bad", "bad"),
        ("badge, badge", "bad ##ge <unk> bad ##ge"),
        ("badgea", "bad ##gea"),
        ("ÉCafé", "e ##c ##a ##f ##e"),
        ("a漢b", "a 漢 b"),
        ("a!?b\x00\u200bc\ta\u2028b", "a ! ? b ##c a b"),
        ("bax", "<unk>"),
        ("a" * LONGEST_WORD, "a" + " ##a" * (LONGEST_WORD - 1)),
        ("a" * (LONGEST_WORD + 1), "<unk>"),
        ("[MASK] a", "<unk> <unk> <unk> a"),
        ("a \U0001fa77 a\ue000 \u0378", "a <unk> <unk> <unk>"),
        ("", ""),
    ],
)
def test_pieces(wordpiece, text, expected):
    assert wordpiece.encode(text) == expected


def test_cased_text_keeps_case_and_accents(vocabulary):
    cased = WordPiece(WordPieceConfig(wordpiece_vocab=str(vocabulary), wordpiece_cased=True))
    assert cased.encode("BadGe é bad A") == "Bad ##Ge é bad <unk>"


@given(text=TEXT)
def test_pieces_join_to_their_words(wordpiece, text):
    for word in words(text):
        pieces = wordpiece.encode(word).split()
        assert wordpiece.decode(" ".join(pieces)) in (word, "<unk>")
        assert [wordpiece.is_beginning_of_word(piece) for piece in pieces] == [True] + [False] * (len(pieces) - 1)


@given(text=TEXT)
def test_no_piece_could_be_longer(wordpiece, text):
    for word in words(text):
        rest, inside = word, ""
        for piece in wordpiece.encode(word).split():
            if piece == "<unk>":
                break
            fitting = [known for known in PIECES if known not in SYMBOLS and (inside + rest).startswith(known)]
            assert piece == max((known for known in fitting if known.startswith(inside)), key=len)
            rest, inside = rest[len(piece) - len(inside) :], "##"


@given(text=TEXT, cased=st.booleans())
def test_words_are_words(text, cased):
    found = list(words(text, cased))
    assert list(words(" ".join(found), cased)) == found
    assert all(word.split() == [word] for word in found)


def test_the_flags_are_fairseqs(vocabulary):
    args = argparse.Namespace(bpe="wordpiece", wordpiece_vocab=str(vocabulary), wordpiece_cased=True)
    assert encoders.build_bpe(args).encode("bad BAD") == "bad <unk>"
    with pytest.raises(UserError, match="needs --wordpiece-vocab"):
        encoders.build_bpe(argparse.Namespace(bpe="wordpiece"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\n", "is not UTF-8"),
        (b"", "line 1 of .* is no piece"),
        (b"[UNK]\na b\n", "line 2 of .* is no piece"),
        (b"[UNK]\n\n[PAD]\n", "line 2 of .* is no piece"),
        (b"[UNK]\na\n[UNK]\n", "lines 1 and 3 of .* are the same piece"),
        (b"[CLS]\n[PAD]\n</s>\n", "line 3 of .* is </s>, a symbol of fairseq"),
        (b"[CLS]\n[PAD]\n[SEP]\n[UNK]\n", r"has no \[MASK\]"),
    ],
)
def test_a_bad_vocabulary_is_refused_in_one_sentence(tmp_path, content, reason):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=reason) as refusal:
        read_vocabulary(path)
    assert "\n" not in str(refusal.value)


def test_a_missing_or_endless_vocabulary_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"vocab\.txt cannot be read: No such file"):
        read_vocabulary(tmp_path / "vocab.txt")
    with (tmp_path / "vocab.txt").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(UserError, match="larger than any"):
        read_vocabulary(tmp_path / "vocab.txt")
