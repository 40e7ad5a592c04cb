"""Scores of rationales as the ERASER benchmark defines them (DeYoung et al., ACL 2020).

Agreement with people is the area under the precision-recall curve. Faithfulness is how much the model's probability
drops without the best words (comprehensiveness), and with these words alone (sufficiency).
"""

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import accuracy_score, auc, f1_score, precision_recall_curve

PERCENTS = (1, 5, 10, 20, 50)  # of a document's words that are taken as its rationale


def auprc(gold: np.ndarray, scores: np.ndarray) -> float:
    """The area under the precision-recall curve of a document, by trapezoids.

    Equal scores for all words give the mean of 1 and the share of gold words, by the benchmark's definition.

    Args:
        gold: (n,), true where a word is in a human rationale; one word at least must be.
        scores: (n,), higher where a word is more important.
    """
    precision, recall, _ = precision_recall_curve(gold, scores)
    return float(auc(recall, precision))


def best_words(scores: np.ndarray, percent: int) -> np.ndarray:
    """The best ``percent`` of a document's words, rounded up, (n,), bool; of equally good words, the first."""
    count = -(-percent * len(scores) // 100)
    best = np.zeros(len(scores), bool)
    best[np.argsort(-scores, kind="stable")[:count]] = True
    return best


def erasures(scores: np.ndarray) -> np.ndarray:
    """The words that remain in each shortened text of a document, (2, len(PERCENTS), n), bool.

    The first row is the document without its best words, the second the best words alone.
    """
    best = np.stack([best_words(scores, percent) for percent in PERCENTS])
    return np.stack([~best, best])


def faithfulness(whole: float, shortened: np.ndarray) -> tuple[float, float]:
    """Comprehensiveness and sufficiency of a document, each the mean over PERCENTS.

    Args:
        whole: the probability of the predicted class, given the whole document.
        shortened: the probability of the same class, given the texts of :func:`erasures`, (2, len(PERCENTS)).
    """
    comprehensiveness, sufficiency = (whole - shortened).mean(axis=1)
    return float(comprehensiveness), float(sufficiency)


def performance(labels: Sequence[str], predictions: Sequence[str], classes: Sequence[str]) -> dict[str, float]:
    """``F1`` (the mean over all classes) and ``accuracy`` of predicted labels, between 0 and 1."""
    f1 = f1_score(labels, predictions, labels=classes, average="macro", zero_division=0)
    return {"F1": float(f1), "accuracy": float(accuracy_score(labels, predictions))}
