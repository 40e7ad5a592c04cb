"""Sources of rationales: each scores the words of a document by their importance for the classifier's decision."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import Ridge

from ea_fairseq.attention.maps import by_layer
from ea_fairseq.data.documents import Document
from ea_fairseq.experiments.rationales.classifier import DocumentClassifier

KERNEL_WIDTH = 25.0  # of LIME, in hundredths of the cosine distance to the whole text


@dataclass(frozen=True)
class Decision:
    """A classifier's decision about a document, which a source is to explain.

    Args:
        chosen: the class that the classifier predicts, given the whole document.
        draw: random number generator for this document.
        word_score: ``sum`` or ``max`` over the pieces of a word.
        lime_samples: the number of shortened texts that LIME reads.
    """

    classifier: DocumentClassifier
    document: Document
    chosen: int
    draw: np.random.Generator
    word_score: str = "sum"
    lime_samples: int = 500


def attention(decision: Decision) -> np.ndarray:
    """The probabilities with which the class token attends to each word in the last layer, mean over heads."""
    return by_maps(decision, lambda maps: maps[-1][0])


def rollout(decision: Decision) -> np.ndarray:
    """The class token's row of the product of all layers' (A + I) / 2 (Abnar and Zuidema, ACL 2020)."""

    def row(maps: list[np.ndarray]) -> np.ndarray:
        found = np.eye(1, len(maps[-1]))[0]
        for one in reversed(maps):
            found = (found @ one + found) / 2
        return found

    return by_maps(decision, row)


def by_maps(decision: Decision, row: Callable[[list[np.ndarray]], np.ndarray]) -> np.ndarray:
    """Scores words by the attention maps of each window.

    Args:
        row: the scores of a window's tokens (S,), given the layers' probabilities (S, S), mean over heads.
    """
    windows = decision.classifier.windows(decision.document)
    scores = []
    for tokens in windows.tokens:
        layers = by_layer(decision.classifier.hub.attention_of_tokens(tokens))["encoder"]
        scores.append(row([one.probabilities.double().mean(dim=0).numpy() for one in layers]))
    return windows.word_scores(scores, decision.word_score)


def pooling(decision: Decision) -> np.ndarray:
    """The weights with which the pooled head reads each word."""
    windows = decision.classifier.windows(decision.document)
    return windows.word_scores(decision.classifier.pooling(windows.tokens), decision.word_score)


def gradient(decision: Decision) -> np.ndarray:
    """The absolute embedding times gradient of the predicted class's probability, normalized to a sum of 1."""
    windows = decision.classifier.windows(decision.document)
    slopes = decision.classifier.gradients(windows.tokens, decision.chosen)
    scores = windows.word_scores([np.abs(slope) for slope in slopes], decision.word_score)
    return scores / (scores.sum() or 1.0)


def draw_texts(words: int, samples: int, draw: np.random.Generator) -> np.ndarray:
    """Draws texts without some words of a document: the words that each keeps, (samples, words), bool.

    The first is the whole document. Each other text lacks a random number of words, from one to all.
    """
    kept = np.ones((samples, words), bool)
    for text in kept[1:]:
        text[draw.permutation(words)[: draw.integers(1, words + 1)]] = False
    return kept


def word_weights(kept: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """The weight of each word for a probability, (n,), by ridge regression.

    Args:
        kept: the words of each text, (samples, n), bool.
        probabilities: of a class, given these texts, (samples,).
    """
    distance = 100 * (1 - np.sqrt(kept.mean(axis=1)))  # of the cosine between a text and the whole document
    nearness = np.exp(-((distance / KERNEL_WIDTH) ** 2) / 2)
    return Ridge(alpha=1.0).fit(kept.astype(float), probabilities, sample_weight=nearness).coef_


def lime(decision: Decision) -> np.ndarray:
    """LIME's weights for the predicted class (Ribeiro et al., KDD 2016); negative ones count as 0.

    A linear model of how deleting words changes a probability. As in the authors' code, each position of a text is a
    feature, and texts that differ less from the whole one weigh more.
    """
    kept = draw_texts(len(decision.document.words), decision.lime_samples, decision.draw)
    probabilities = decision.classifier.probabilities(decision.document, kept)[:, decision.chosen]
    return np.maximum(word_weights(kept, probabilities), 0.0)


def gold(decision: Decision) -> np.ndarray:
    """1 for the words of human rationales, else 0; the scores that people would reach."""
    return decision.document.gold.astype(float)


def position(decision: Decision) -> np.ndarray:
    """A higher score for an earlier word."""
    return -np.arange(len(decision.document.words), dtype=float)


def random(decision: Decision) -> np.ndarray:
    """Random scores, for chance level."""
    return decision.draw.random(len(decision.document.words))


SOURCES: dict[str, Callable[[Decision], np.ndarray]] = {
    source.__name__: source for source in (attention, rollout, pooling, gradient, lime, position, gold, random)
}
