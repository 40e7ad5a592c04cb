"""Sources of rationales against what they are computed from: maps, slopes and linear models."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.rationales.classifier import DocumentClassifier, Windows
from ea_fairseq.experiments.rationales.sources import SOURCES, Decision, draw_texts, word_weights
from ea_fairseq.text.preparation import Preparation
from model_checks import by_our_forward
from rationales import POOLED, POSITIONS, drawn_document, load_classifier, save_classifier

MODELS = {"plain": ["roberta"], "evolving": ["ea_roberta_tiny"], "pooled": ["ea_bert_tiny", *POOLED]}
ROOM = POSITIONS - 2


@pytest.fixture(scope="module", params=MODELS.values(), ids=MODELS)
def classifier(request, tmp_path_factory):
    return DocumentClassifier(load_classifier(save_classifier(tmp_path_factory.mktemp("model"), *request.param)))


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    return DocumentClassifier(load_classifier(save_classifier(tmp_path_factory.mktemp("model"), *MODELS["pooled"])))


@pytest.fixture(scope="module")
def evolving(tmp_path_factory):
    return DocumentClassifier(load_classifier(save_classifier(tmp_path_factory.mktemp("model"))))


def decide(classifier, document, **options) -> Decision:
    return Decision(classifier, document, 0, np.random.default_rng(1), **options)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=80), st.integers(2, 11), st.integers(0, 3))
def test_a_word_has_its_score_from_the_window_in_whose_middle_it_stands(lengths, room, lead):
    bounds = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    stride, pieces = room // 2, bounds[-1]
    spans = [(start, min(start + room, pieces)) for start in range(0, max(pieces - room, 0) + stride, stride)]
    scores = [np.full(lead + end - start + 1, -99.0) for start, end in spans]
    for window, (start, end) in enumerate(spans):
        scores[window][lead : lead + end - start] = [1000 * window + piece for piece in range(start, end)]
    windows = Windows([], spans, lead, bounds)
    sums, maxima = windows.word_scores(scores), windows.word_scores(scores, "max")
    for word, (first, last) in enumerate(pairwise(bounds)):
        if first == last:
            assert sums[word] == maxima[word] == 0
            continue
        whole = [window for window, (start, end) in enumerate(spans) if start <= first and last <= end]
        if not whole:  # a word that is longer than half a window
            continue
        distance = {window: abs(first + last - sum(spans[window])) for window in whole}
        best = min(whole, key=distance.__getitem__)
        assert sums[word] == sum(1000 * best + piece for piece in range(first, last))
        assert maxima[word] == 1000 * best + last - 1


@pytest.mark.parametrize("words", [1, ROOM - 1, ROOM, ROOM + 1, 2 * ROOM, 3 * ROOM + 5])
def test_windows_are_full_overlap_by_half_and_cover_the_document(evolving, words):
    document = drawn_document(words)
    windows = evolving.windows(document)
    starts, ends = zip(*windows.spans, strict=True)
    assert starts == tuple(range(0, len(starts) * ROOM // 2, ROOM // 2)) and ends[-1] == words
    assert all(end - start == ROOM for start, end in windows.spans[:-1])
    assert len(starts) == 1 or ends[-2] < words  # none is in vain
    for tokens, (start, end) in zip(windows.tokens, windows.spans, strict=True):
        assert torch.equal(tokens, evolving.hub.encode(" ".join(document.words[start:end])))


def test_a_short_document_has_the_class_that_the_model_predicts(classifier):
    document = drawn_document(ROOM)
    (found,) = classifier.probabilities(document, [np.ones(ROOM, bool)])
    expected = classifier.hub.predict(" ".join(document.words)).probabilities
    assert dict(zip(classifier.classes, found, strict=True)) == pytest.approx(expected, abs=1e-5)


@torch.no_grad()
def test_a_long_document_has_the_class_of_the_mean_of_what_its_windows_are_pooled_to(pooled):
    document, model = drawn_document(3 * ROOM), pooled.hub.model
    windows = [window.unsqueeze(0) for window in pooled.windows(document).tokens]
    vectors = [pooled.head.pool(model(window, features_only=True)[0], window)[0] for window in windows]
    expected = pooled.head.classify(torch.cat(vectors).mean(dim=0, keepdim=True)).softmax(dim=-1)[0]
    (found,) = pooled.probabilities(document, [np.ones(3 * ROOM, bool)])
    assert found == pytest.approx(expected.numpy(), abs=1e-5)


@pytest.mark.parametrize("question", ["", "w1 w2 w3"])
def test_pooling_is_the_weight_of_each_word_in_its_window(pooled, question):
    document = drawn_document(2 * ROOM, question=question)
    windows = pooled.windows(document)
    weights = pooled.pooling(windows.tokens)
    for tokens, found in zip(windows.tokens, weights, strict=True):
        assert found.sum() == pytest.approx(1, abs=1e-5)
        assert ((found > 0) == np.isin(tokens, [0, 1, 2], invert=True)).all()
    scores = SOURCES["pooling"](decide(pooled, document))
    assert scores == pytest.approx(windows.word_scores(weights))
    assert (scores > 0).all() and scores.shape == (2 * ROOM,)


@pytest.mark.parametrize("arch", ["roberta", "ea_roberta_tiny"])
def test_a_long_document_has_the_class_of_the_mean_over_its_windows(arch, tmp_path):
    classifier = DocumentClassifier(load_classifier(save_classifier(tmp_path, arch)))
    document = drawn_document(3 * ROOM)
    texts = [" ".join(document.words[start:end]) for start, end in classifier.windows(document).spans]
    mean = torch.stack([states[0] for states in classifier.hub.features(texts)]).mean(dim=0)
    expected = classifier.head(mean[None, None]).softmax(dim=-1)[0]
    (found,) = classifier.probabilities(document, [np.ones(3 * ROOM, bool)])
    assert found == pytest.approx(expected.detach().numpy(), abs=1e-5)


def test_deleted_words_are_as_if_never_there(evolving):
    document, draw = drawn_document(2 * ROOM), np.random.default_rng(2)
    texts = [draw.random(2 * ROOM) < share for share in (0.0, 0.2, 0.5, 0.9)]
    found = evolving.probabilities(document, texts)
    for kept, probabilities in zip(texts, found, strict=True):
        shorter = replace(document, words=tuple(np.array(document.words)[kept]))
        (alone,) = evolving.probabilities(shorter, [np.ones(kept.sum(), bool)])
        assert probabilities == pytest.approx(alone, abs=1e-5)


def test_a_question_is_read_with_each_window_and_has_no_score(evolving):
    document = drawn_document(30, question="w1 w2 w3")
    windows = evolving.windows(document)
    assert windows.lead == 5 and len(windows.tokens) > 1
    for tokens, (start, end) in zip(windows.tokens, windows.spans, strict=True):
        assert torch.equal(tokens, evolving.hub.encode("w1 w2 w3", " ".join(document.words[start:end])))
        assert len(tokens) <= POSITIONS
    assert SOURCES["attention"](decide(evolving, document)).shape == (30,)
    with pytest.raises(UserError, match="the question of document 'd1' has 23 tokens, and the model reads at most 24"):
        evolving.windows(drawn_document(30, question="w1 " * 20))


def projected_attention(layer, states):
    """A plain attention's probabilities (S, S) by its definition, mean over heads, of one sentence's states (S, C)."""
    maps, size = 0, layer.head_dim
    queries, keys = layer.q_proj(states), layer.k_proj(states)
    for head in range(layer.num_heads):
        part = slice(head * size, (head + 1) * size)
        maps = maps + (queries[:, part] @ keys[:, part].T / size**0.5).softmax(dim=-1)
    return maps / layer.num_heads


@torch.no_grad()
def test_attention_is_that_of_the_class_token_in_the_last_layer(tmp_path):
    classifier = DocumentClassifier(load_classifier(save_classifier(tmp_path, "roberta")))
    document = drawn_document(ROOM)
    tokens = classifier.hub.encode(" ".join(document.words))
    _, extra = classifier.hub.model(tokens[None], features_only=True, return_all_hiddens=True)
    states = [state[:, 0] for state in extra["inner_states"]]
    layers = classifier.hub.model.encoder.sentence_encoder.layers
    maps = [projected_attention(one.self_attn, state) for one, state in zip(layers, states, strict=False)]
    found = SOURCES["attention"](decide(classifier, document))
    assert found == pytest.approx(maps[-1][0, 1:-1].numpy(), abs=1e-5)
    product = torch.eye(len(tokens))
    for one in maps:
        product = (one + torch.eye(len(tokens))) / 2 @ product
    found = SOURCES["rollout"](decide(classifier, document))
    assert found == pytest.approx(product[0, 1:-1].numpy(), abs=1e-5)


@pytest.mark.parametrize("source", ["attention", "rollout", "gradient"])
def test_a_word_of_two_pieces_has_their_sum_or_their_maximum(evolving, monkeypatch, source):
    apart = drawn_document(12)
    joined = replace(
        apart, words=tuple(f"{one}+{two}" for one, two in zip(apart.words[::2], apart.words[1::2], strict=True))
    )
    pieces = SimpleNamespace(encode=lambda text: text.replace("+", " "))
    monkeypatch.setattr(evolving.hub, "bpe", pieces)
    monkeypatch.setattr(evolving, "pieces", lambda text: evolving.hub.pieces(text).split())
    pairs = SOURCES[source](decide(evolving, apart)).reshape(6, 2)
    largest = pairs.max(axis=1)
    if source == "gradient":
        largest = largest / largest.sum()
    assert SOURCES[source](decide(evolving, joined)) == pytest.approx(pairs.sum(axis=1), rel=1e-4)
    assert SOURCES[source](decide(evolving, joined, word_score="max")) == pytest.approx(largest, rel=1e-4)


@pytest.mark.parametrize("words", [ROOM, 2 * ROOM + 3])
def test_gradients_are_slopes(classifier, words):
    """In float64: what the probability changes by if one token's embedding grows in one window."""
    model = classifier.hub.model
    by_our_forward(model.double())
    activations = {module: module.activation_fn for module in model.modules() if hasattr(module, "activation_fn")}
    for module in activations:
        module.activation_fn = torch.tanh  # fairseq's GELU is of float32
    try:
        windows = classifier.windows(drawn_document(words)).tokens
        found = classifier.gradients(windows, 1)
        for window, token in ((0, 0), (0, 3), (len(windows) - 1, 5)):
            slope = slope_of(classifier, windows, window, token)
            assert found[window][token] == pytest.approx(slope, rel=1e-4, abs=1e-9)
    finally:
        for module, activation in activations.items():
            module.activation_fn = activation
        model.float()


@torch.no_grad()
def slope_of(classifier, windows, window: int, token: int, step: float = 1e-6) -> float:
    """The slope of the probability of class 1 as the embedding of one token of one window is scaled."""

    def probability(factor: float) -> float:
        def scale(module, inputs, output):
            output = output.clone()
            output[0, token] *= factor
            return output

        vectors = []
        for number, tokens in enumerate(windows):
            with classifier.hub.model.encoder.sentence_encoder.embed_tokens.register_forward_hook(scale) as hook:
                if number != window:
                    hook.remove()
                features = classifier.hub.model(tokens[None], features_only=True)[0]
                vectors.append(classifier.hub.represented(features, tokens[None])[0])
        return classifier.classified(torch.stack(vectors).mean(dim=0))[1].item()

    return (probability(1 + step) - probability(1 - step)) / (2 * step)


def test_limes_texts_are_drawn_as_its_authors_do():
    kept = draw_texts(10, 5000, np.random.default_rng(1))
    assert kept[0].all() and not kept[1:].all(axis=1).any()
    deleted = np.bincount(10 - kept[1:].sum(axis=1), minlength=11)
    assert deleted[0] == 0 and deleted[1:].min() > 400  # each number of words, all of them included
    assert kept.mean(axis=0)[1:] == pytest.approx(0.45, abs=0.03)  # each word as often


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-0.1, 0.1), min_size=3, max_size=8), st.integers(0, 99))
def test_lime_recovers_a_linear_classifier_of_words(weights, seed):
    """Of three words or more: with two, nearly all texts of weight have one of them, which determines no sum."""
    kept = draw_texts(len(weights), 3000, np.random.default_rng(seed))
    assert word_weights(kept, 0.5 + kept @ np.array(weights)) == pytest.approx(weights, abs=0.005)


def test_lime_explains_the_models_own_decision(evolving):
    """Its positive weights belong to words without which, one at a time, the probability drops most."""
    document = drawn_document(6)
    found = SOURCES["lime"](decide(evolving, document, lime_samples=2000))
    whole, *without = evolving.probabilities(document, [np.ones(6, bool), *~np.eye(6, dtype=bool)])[:, 0]
    drops = whole - np.array(without)
    assert (found >= 0).all() and found.any()
    assert np.corrcoef(found, np.maximum(drops, 0))[0, 1] > 0.5


def test_the_floor_and_the_ceiling(evolving):
    document = drawn_document(20)
    assert (np.diff(SOURCES["position"](decide(evolving, document))) < 0).all()
    assert SOURCES["gold"](decide(evolving, document)).tolist() == document.gold.tolist()
    one, two = (SOURCES["random"](decide(evolving, document)) for _ in range(2))
    assert np.array_equal(one, two) and len(set(one)) == 20


def test_classes_have_the_names_of_their_preparation(evolving, monkeypatch):
    assert evolving.classes == evolving.hub.labels == ["1", "0"]
    preparation = Preparation(Path(), "none", False, "none", [], classes=["NEG", "POS"])
    monkeypatch.setattr(evolving.hub, "preparation", preparation)
    assert DocumentClassifier(evolving.hub).classes == ["POS", "NEG"]


def test_other_models_are_refused_in_a_sentence(tmp_path):
    hub = load_classifier(save_classifier(tmp_path, "ea_transformer_classifier"))
    with pytest.raises(UserError, match=r"^the model must classify by its class token"):
        DocumentClassifier(hub)


def test_pooling_of_another_head_is_refused(evolving):
    with pytest.raises(UserError, match=r"^--source pooling is for models that were trained with --classification-"):
        SOURCES["pooling"](decide(evolving, drawn_document(5)))
