"""--task span_corruption: source and target have the text between them, and the noise has the shares of T5."""

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, ListDataset
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import PLUGIN
from ea_fairseq.errors import UserError
from ea_fairseq.plain.sentinels import SENTINELS
from ea_fairseq.tasks.span_corruption import SpanCorruptionConfig, SpanCorruptionTask
from ea_fairseq.tasks.spans import SpanCorruptionDataset, add_sentinels, count_noise, cut, draw_noise
from forked import run_forked_well
from reversal import losses_of
from sentence_data import TEXT, binarize_sentences

WORDS = [f"w{number}" for number in range(50)]


def words() -> Dictionary:
    dictionary = Dictionary()
    for word in WORDS:
        dictionary.add_symbol(word)
    return dictionary


def dataset(sentences: list[list[int]], tokens: int, density=0.15, mean_length=3.0, seed=1):
    """Corrupted blocks of sentences of token ids, and their dictionary."""
    dictionary = words()
    ends = [torch.tensor([*sentence, dictionary.eos()]) for sentence in sentences]
    texts = ListDataset(ends, np.array(list(map(len, ends))))
    return SpanCorruptionDataset(texts, dictionary, tokens, density, mean_length, seed), dictionary


def put_together(source: list[str], target: list[str]) -> list[str]:
    """The text: each sentinel of the source is replaced by what follows it in the target."""
    spans: dict[str, list[str]] = {}
    for token in target:
        if token in SENTINELS:
            name = token
            spans[name] = []
        else:
            spans[name].append(token)
    assert list(spans) == list(SENTINELS[: len(spans)])  # in their order, each once
    return [token for name in source for token in (spans[name] if name in SENTINELS else [name])]


SENTENCES = st.lists(st.lists(st.integers(4, 53), max_size=12), min_size=1, max_size=30).filter(any)


@settings(deadline=None, max_examples=60)
@given(SENTENCES, st.integers(2, 64), st.floats(0.05, 0.9), st.floats(1, 6), st.integers(0, 9))
def test_source_and_target_put_together_are_the_text(sentences, tokens, density, mean_length, epoch):
    blocks, dictionary = dataset(sentences, tokens, density, mean_length)
    blocks.set_epoch(epoch)
    text = []
    for index in range(len(blocks)):
        item = blocks[index]
        assert (len(item["source"]), len(item["target"])) == blocks.size(index)
        sides = [[dictionary[token] for token in item[side].tolist()] for side in ("source", "target")]
        assert all(side.pop() == "</s>" for side in sides)
        text += put_together(*sides)
    assert text == [dictionary[token] for sentence in sentences for token in sentence]


@settings(deadline=None)
@given(st.integers(2, 600), st.floats(0.01, 0.99), st.floats(1, 10), st.integers(0, 99))
def test_the_share_of_noise_and_the_number_of_spans_are_exact(length, density, mean_length, seed):
    noise = draw_noise(length, density, mean_length, np.random.default_rng(seed))
    expected, spans = count_noise(length, density, mean_length)
    assert noise.sum() == expected and len(noise) == length
    assert abs(expected - length * density) <= 1
    assert (np.diff(noise.astype(int)) == 1).sum() == spans  # each span of noise follows one without
    assert not noise[0] and noise[-1]


def test_a_block_of_t5s_length_makes_512_tokens_of_114():
    blocks, _ = dataset([[4] * 568], 568)
    assert blocks.size(0) == (512, 114)


def test_each_way_to_cut_a_text_is_equally_likely():
    random = np.random.default_rng(1)
    drawn = [tuple(cut(5, 3, random)) for _ in range(6000)]
    counts = {ways: drawn.count(ways) for ways in drawn}
    assert len(counts) == 6  # 4 choose 2
    assert all(abs(count - 1000) < 120 for count in counts.values())  # four standard deviations


def test_noise_depends_on_seed_epoch_and_block_alone():
    text = [list(range(4, 54))] * 4
    epochs = []
    for epoch in (1, 2, 1):
        blocks, _ = dataset(text, 50)
        blocks.set_epoch(epoch)
        epochs.append([blocks[index]["source"].tolist() for index in (3, 2, 1, 0)])
    assert epochs[0] == epochs[2] and epochs[0] != epochs[1]
    assert len(set(map(tuple, epochs[0]))) == 4
    assert dataset(text, 50, seed=2)[0][0]["source"].tolist() != epochs[0][3]


def test_sentinels_are_added_in_t5s_order_once():
    dictionary = words()
    ids = add_sentinels(dictionary)
    assert [dictionary[index] for index in (len(dictionary) - 1, len(dictionary) - 100)] == [
        SENTINELS[0],
        SENTINELS[99],
    ]
    size = len(dictionary)
    assert add_sentinels(dictionary) == ids and len(dictionary) == size
    assert [dictionary[index] for index in ids] == list(SENTINELS)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"noise_density": 1.0}, "--noise-density must be a number between 0 and 1"),
        ({"mean_span_length": 0.5}, "--mean-span-length must be 1 or more"),
        ({"tokens_per_sample": 1}, "--tokens-per-sample must be 2 or more"),
        ({"tokens_per_sample": 4096}, "has 205 spans of noise, more than the 100 sentinels"),
    ],
)
def test_a_bad_flag_is_refused(flags, sentence):
    with pytest.raises(UserError, match=sentence):
        SpanCorruptionTask(SpanCorruptionConfig(data="", **flags), words())


def test_a_resumed_training_sees_the_same_noise(tmp_path):
    home = binarize_sentences(tmp_path)

    def train(folder: str, updates: int) -> dict[int, float]:
        command = ["fairseq-train", TEXT, "--user-dir", PLUGIN, "--task", "span_corruption", "--seed", 3]
        command += ["--arch", "ea_transformer_lite", "--encoder-layers", 1, "--decoder-layers", 1, "--cpu"]
        command += ["--share-all-embeddings", "--criterion", "cross_entropy", "--optimizer", "adam", "--lr", 1e-3]
        command += ["--tokens-per-sample", 30, "--batch-size", 4, "--max-update", updates, "--log-interval", 1]
        command += ["--save-dir", folder, "--log-format", "json", "--disable-validation", "--save-interval-updates", 1]
        return losses_of(run_forked_well(*command, cwd=home))

    whole, half = train("whole", 8), train("half", 5)
    assert half | train("half", 8) == whole
