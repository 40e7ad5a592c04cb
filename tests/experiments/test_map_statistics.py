"""Statistics of attention maps: entropy, similarity of adjacent layers and the alignment error."""

import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ea_fairseq.attention.maps import by_layer
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.maps.map_statistics import entropy, map_statistics, similarity
from ea_fairseq.experiments.maps.subwords import labels, word_numbers
from ea_fairseq.experiments.maps.word_alignment import (
    AlignmentError,
    AttentionAlignment,
    WordAlignment,
    merge,
    read_alignments,
)
from ea_fairseq.experiments.runs.trained_model import find_model, load_translation
from mapped_models import PAIRS, write_models

LAYERS = HEADS = 2
GOLD = ["0-0 1-1", "0-0 1?1 1-0", "0-0 0-1 0?2", "4-0 1?0"]
sizes = st.integers(1, 6)
seeds = st.integers(0, 2**32 - 1)
links = st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 2)))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_models(tmp_path_factory.mktemp("a home"))


@pytest.fixture(scope="module", params=["ea model", "plain model"])
def model(home, request):
    return load_translation(find_model(home / request.param), cpu=True, max_tokens=100)


def draw_maps(seed: int, *shape: int):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).mul(3).softmax(-1)


@given(seeds, sizes)
def test_entropy_is_at_most_that_of_a_choice_among_all_keys(seed, keys):
    found = entropy(draw_maps(seed, 3, keys))
    assert (found >= 0).all() and (found <= math.log2(keys) + 1e-5).all()
    assert entropy(torch.full((keys,), 1 / keys)).item() == pytest.approx(math.log2(keys), abs=1e-5)
    assert (entropy(torch.eye(keys)) == 0).all()


@given(seeds, sizes, sizes)
def test_similarity_is_one_of_equal_maps_and_zero_of_those_that_share_no_key(seed, queries, keys):
    maps = draw_maps(seed, 1, queries, keys)
    assert torch.allclose(similarity(torch.cat([maps, maps])), torch.ones(1, queries))
    assert torch.equal(similarity(torch.stack([torch.eye(4), torch.eye(4).roll(1, 0)])), torch.zeros(1, 4))


def test_the_statistics_of_a_pair_are_those_of_its_maps(model):
    sources, targets = model.pairs("test")
    statistics = map_statistics(model, sources[3:], targets[3:])
    for attention, layers in by_layer(model.attention_of_tokens(sources[3], targets[3])).items():
        maps = torch.stack([layer.probabilities for layer in layers]).double()  # (L, K, T, S)
        maps = torch.cat([maps, maps.mean(1, keepdim=True)], 1)
        cosine = (maps[1:] * maps[:-1]).sum(-1) / (maps[1:].norm(dim=-1) * maps[:-1].norm(dim=-1))
        bits = -(maps * maps.clamp(min=1e-30).log2()).sum(-1)
        for measure, expected in (("entropy", bits.mean(-1)), ("similarity", cosine.mean(-1))):
            curve = statistics[measure][attention]
            torch.testing.assert_close(torch.cat([curve.heads, curve.mean[:, None]], 1), expected, atol=1e-5, rtol=0)


def test_pairs_add_up_to_the_same_in_one_padded_batch_and_one_by_one(home, model):
    gold = [WordAlignment.parse(line) for line in GOLD]
    found = []
    for max_tokens in (100, 1):
        model.cfg.dataset.max_tokens = max_tokens
        alignment = AttentionAlignment(model, gold)
        found.append(map_statistics(model, *model.pairs("test"), alignment))
        assert alignment.left_out == 1
    together, alone = found
    sizes = {"entropy": LAYERS, "similarity": LAYERS - 1, "alignment error": LAYERS}
    assert together.keys() == alone.keys() == sizes.keys()
    for measure, curves in together.items():
        assert list(curves) == (["cross"] if measure == "alignment error" else ["encoder", "decoder", "cross"])
        for attention, curve in curves.items():
            assert curve.heads.shape == (sizes[measure], HEADS) and curve.mean.shape == (sizes[measure],)
            torch.testing.assert_close(curve.heads, alone[measure][attention].heads, atol=1e-5, rtol=0)
            torch.testing.assert_close(curve.mean, alone[measure][attention].mean, atol=1e-5, rtol=0)


def test_attention_links_the_words_that_are_predicted(model):
    """The alignment that the maps themselves make has no error, and one of other words has."""
    sources, targets = model.pairs("test")
    pair = 3
    maps = by_layer(model.attention_of_tokens(sources[pair], targets[pair]))["cross"][0].probabilities[0]
    words = merge(maps, [0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 3, 3, 4, 5])[:2, :5]  # the rows that predict the two words
    gold = [
        " ".join(f"{source}-{target}" for target, source in enumerate(links))
        for links in (words.argmax(1), words.argmin(1))
    ]
    for line, expected in zip(gold, (0.0, 1.0), strict=True):
        counted = AttentionAlignment(model, [WordAlignment.parse(line)])
        statistics = map_statistics(model, sources[pair:], targets[pair:], counted)
        assert statistics["alignment error"]["cross"].heads[0, 0] == expected


@pytest.mark.parametrize(
    ("pieces", "subword", "numbers", "shown"),
    [
        ("läu@@ ft ü@@ b@@ er </s>", "bpe", [0, 0, 1, 1, 1, 2], "läu· ft ü· b· er </s>"),
        ("\u2581läu ft \u2581über t </s>", "sentencepiece", [0, 0, 1, 1, 2], "läu· ft über· t </s>"),
        ("läuft über@@ </s>", "none", [0, 1, 2], "läuft über@@ </s>"),
        ("a@@ </s>", "bpe", [0, 1], "a </s>"),
        ("<s> läu ##ft er </s>", "wordpiece", [0, 1, 1, 2, 3], "<s> läu· ft er </s>"),
        ("<s> läu ##ft er </s>", "cased_wordpiece", [0, 1, 1, 2, 3], "<s> läu· ft er </s>"),
    ],
)
def test_pieces_know_their_words(pieces, subword, numbers, shown):
    assert word_numbers(pieces.split(), subword) == numbers
    assert labels(pieces.split(), subword) == shown.split()


@given(st.data(), seeds, sizes, sizes)
def test_words_get_all_that_their_pieces_get_and_no_more(data, seed, queries, keys):
    numbers = [
        sorted(data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))) for count in (queries, keys)
    ]
    numbers = [[sorted(set(side)).index(number) for number in side] for side in numbers]
    maps = draw_maps(seed, 2, queries, keys)
    words = merge(maps, *numbers)
    assert words.shape == (2, len(set(numbers[0])), len(set(numbers[1])))
    torch.testing.assert_close(words.sum(-1), torch.ones(words.shape[:2]))
    pieces = Counter(numbers[0])
    given_by_words = sum(words[:, word] * count for word, count in pieces.items()).sum(-1)
    torch.testing.assert_close(given_by_words, maps.sum((-1, -2)))


@given(links, links, seeds)
def test_the_alignment_error_is_that_of_och_and_ney(sure, others, seed):
    maps = draw_maps(seed, 3, 4)
    found = {(maps[target].argmax().item(), target) for target in range(3)}
    errors = AlignmentError()
    errors.add(maps, WordAlignment(sure, sure | others))
    expected = 1 - (len(found & sure) + len(found & (sure | others))) / (len(found) + len(sure))
    assert errors.rate().item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        *[("0-0 1-1", 0.0), ("0-1 1-0", 1.0), ("0-0 1?1", 0.0), ("0-0 1?0", 1 / 3), ("0?0 1?1", 0.0), ("", 1.0)],
        ("0-0 1-1 / 0-1 1-0", 0.5),  # two pairs
    ],
)
def test_alignment_errors_by_hand(lines, error):
    errors = AlignmentError()
    for line in lines.split(" / "):
        errors.add(torch.eye(2), WordAlignment.parse(line))
    assert errors.rate().item() == pytest.approx(error)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (None, ["no file", "gold", "--alignment"]),
        (b"0-0\n1=1\n", ["gold, line 2", "'1=1' is no link"]),
        (b"0-0\n\n0-0", ["3 lines for 2 pairs"]),
        (b"\xff\n\n", ["is not text"]),
    ],
)
def test_an_alignment_that_cannot_be_read_is_refused(tmp_path, text, parts):
    if text is not None:
        (tmp_path / "gold").write_bytes(text)
    with pytest.raises(UserError) as refusal:
        read_alignments(tmp_path / "gold", 2)
    assert all(part in str(refusal.value) for part in parts)


def test_a_link_to_a_word_that_is_not_there_is_named(model):
    for link in ("1-0", "0-3"):
        gold = [WordAlignment.parse(line) for line in (*GOLD[:2], link, GOLD[3])]
        with pytest.raises(UserError, match=f"line 3, links word {link[0]} to {link[2]}.* 1 source and 3 target words"):
            map_statistics(model, *model.pairs("test"), AttentionAlignment(model, gold))


def test_there_are_as_many_pairs_as_in_the_data(model):
    assert all(len(side) == len(PAIRS) for side in model.pairs("test"))
    with pytest.raises(UserError, match=r"there is no valid in .*data: .*--data"):
        model.pairs("valid")
