"""Native search with a vocabulary shortlist chooses among its words, and otherwise searches as ever."""

import logging

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import save_loud
from ea_fairseq.errors import UserError
from ea_fairseq.search import native_search
from ea_fairseq.search.generation_options import StoreSearchOption
from ea_fairseq.search.shortlist import Shortlist
from generation import generated
from model_checks import native_only
from reversal import DATA
from searches import WORDS, assert_same, batch, model_of
from tiny import build

MODEL = model_of("all skips, kernel 5")
SPECIAL = set(range(WORDS.nspecial))
SEARCH = {"beam_size": 4, "max_len_b": 12}


def shortlist(always, **translations) -> Shortlist:
    by_word = {WORDS.index(word): torch.tensor(others) for word, others in translations.items()}
    return Shortlist(torch.tensor(sorted({*SPECIAL, *always})), by_word, len(WORDS))


def search(words: Shortlist, sample: dict, prefix=None, **options) -> list:
    generator = SequenceGenerator([MODEL], WORDS, **{**SEARCH, **options})
    generator.shortlist = words
    native_search.logged.clear()
    found = generator.generate([MODEL], sample, prefix_tokens=prefix)
    assert not native_search.logged
    return found


@native_only
def test_a_shortlist_of_all_words_is_none():
    sample = batch([3, 9, 1, 14], seed=1)
    everything = search(shortlist(range(len(WORDS))), sample)
    expected = SequenceGenerator([MODEL], WORDS, **SEARCH).generate([MODEL], sample)
    for ours, theirs in zip(everything, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert all(torch.equal(one[name], other[name]) for name in ("tokens", "score", "positional_scores"))


@native_only
@given(
    words=st.sets(st.integers(WORDS.nspecial, len(WORDS) - 1), min_size=12),
    lengths=st.lists(st.integers(1, 15), min_size=1, max_size=4),
    prefix=st.integers(WORDS.nspecial, len(WORDS) - 1),
    suppressed=st.integers(0, 39),
    seed=st.integers(0, 1000),
)
@settings(max_examples=12)
def test_it_is_the_search_of_a_model_that_has_no_other_words(words, lengths, prefix, suppressed, seed):
    sample, prefixes = batch(lengths, seed), torch.full((len(lengths), 1), prefix)
    more = {"tokens_to_suppress": [f"w{suppressed}"], "no_repeat_ngram_size": 3}
    found = search(shortlist(words), sample, prefixes, **more)
    known = sorted({*SPECIAL, *words, prefix, WORDS.index(f"w{suppressed}")})
    others = torch.ones(len(WORDS), dtype=torch.bool).index_fill(0, torch.tensor(known), False)
    output_layer = MODEL.decoder.output_layer
    with pytest.MonkeyPatch.context() as patch:
        of_known = lambda *args: output_layer(*args).masked_fill(others, -torch.inf)  # noqa: E731
        patch.setattr(MODEL.decoder, "output_layer", of_known)
        generator = SequenceGenerator([MODEL], WORDS, **SEARCH, **more)
        expected = native_search.fairseq_generate(generator, sample, prefixes)
    assert_same(found, expected)


def test_target_tokens_of_a_batch_are_those_of_its_source():
    words = shortlist([20, 21], w1=[7, 9], w2=[9, 30], w3=[31])
    source = torch.tensor([[WORDS.pad(), WORDS.index("w1")], [WORDS.index("w2"), WORDS.index("w8")]])
    assert words.target_tokens(source, torch.tensor([40])).tolist() == [*sorted(SPECIAL), 7, 9, 20, 21, 30, 40]


def test_a_file_of_words(tmp_path):
    path = tmp_path / "shortlist.tsv"
    path.write_text("\tw1 w2\nw3\tw4 w5\nw6\tw7\n")
    read = Shortlist.read(path, WORDS, WORDS)
    assert read.always.tolist() == [*SPECIAL, WORDS.index("w1"), WORDS.index("w2")]
    assert {WORDS[word]: [WORDS[one] for one in others] for word, others in read.translations.items()} == {
        "w3": ["w4", "w5"],
        "w6": ["w7"],
    }


@pytest.mark.parametrize(
    "text, flaw",
    [
        (b"w1 w2\n", "line 1 is not"),
        (b"w1\tw2\nw1\tw3\n", "line 2 is not"),
        (b"\tw1\nno\tw2\n", "line 2 is not"),
        (b"w1\tw2 no\n", "line 1 is not"),
        (b"w1\tw2  w3\n", "line 1 is not"),
        (b"w1\t\n", "line 1 is not"),
        (b"\n", "line 1 is not"),
        (b"\x1b[31m\tw1\n", "line 1 is not"),
        (b"w1\t\xff\n", "is not UTF-8"),
        (b"", "has no tokens"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_is_no_shortlist_is_refused_in_one_sentence(tmp_path, text, flaw):
    path = tmp_path / "shortlist.tsv"
    path.mkdir() if text is None else path.write_bytes(text)
    with pytest.raises(UserError, match=flaw) as refused:
        Shortlist.read(path, WORDS, WORDS)
    assert str(path) in str(refused.value) and str(refused.value).isprintable()


def test_a_file_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("ea_fairseq.search.shortlist.MAX_BYTES", 3)
    (tmp_path / "shortlist.tsv").write_text("w1\tw2\n")
    with pytest.raises(UserError, match="more than 3 bytes"):
        Shortlist.read(tmp_path / "shortlist.tsv", WORDS, WORDS)


@native_only
def test_fairseq_generate_has_the_option(home, tmp_path, monkeypatch):
    save_loud(home / DATA, tmp_path / "model.pt")
    (tmp_path / "shortlist.tsv").write_text("\ta b\n")
    flags = ["--path", tmp_path / "model.pt", "--beam", 2, "--max-len-b", 9]
    native_search.logged.clear()
    for more in (["--shortlist", tmp_path / "shortlist.tsv"], []):
        lines = generated(home / DATA, tmp_path, *flags, *more).splitlines()
        found = {word for line in lines if line.startswith("H-") for word in line.split("\t")[2].split()}
        assert (found <= {"a", "b", "<unk>", "<s>"}) == bool(more)
    assert not native_search.logged and not StoreSearchOption.values


@pytest.mark.parametrize("models", [2, 1])
def test_a_search_that_cannot_use_it_says_so(models, caplog):
    others = [build(arch="transformer", **{f"{side}_layers": 1 for side in ("encoder", "decoder")}) for _ in "ab"]
    generator = SequenceGenerator(others[:models], WORDS, beam_size=2, max_len_b=3)
    generator.shortlist = shortlist([7])
    native_search.logged.clear()
    with caplog.at_level(logging.INFO):
        generator.generate(others[:models], batch([3], seed=2))
    assert sum("without the shortlist" in message for message in caplog.messages) == 1
