"""LIME for text (Ribeiro et al., KDD 2016): a linear model of how deleting words changes a probability.

As in the authors' code, each position of a text is a feature, and texts that differ less from the whole one weigh more.
"""

import numpy as np
from sklearn.linear_model import Ridge

KERNEL_WIDTH = 25.0  # in hundredths of the cosine distance to the whole text


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
