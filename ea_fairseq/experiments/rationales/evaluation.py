"""Explains a classifier's decisions about documents by each source, and evaluates the explanations."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ea_fairseq.data.documents import Document
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.rationales.classifier import DocumentClassifier
from ea_fairseq.experiments.rationales.metrics import auprc, erasures, faithfulness, performance
from ea_fairseq.experiments.rationales.options import Settings
from ea_fairseq.experiments.rationales.results import METRICS
from ea_fairseq.experiments.rationales.sources import SOURCES, Decision
from ea_fairseq.plain.text_lines import progress


@dataclass(frozen=True)
class Explanation:
    """The scores of a document's words by one source, and their quality.

    Args:
        auprc: None for a document without a gold word.
        scores: of the n words; for random scores, of the first draw.
    """

    auprc: float | None
    comprehensiveness: float
    sufficiency: float
    scores: list[float]


@dataclass(frozen=True)
class Explanations:
    """One source's explanations of all documents, in order."""

    documents: list[Explanation]

    def means(self) -> dict[str, float | None]:
        """Each metric's mean over the documents that have it; None if none has."""
        columns = {name: [getattr(one, name) for one in self.documents] for name in METRICS}
        known = {name: [value for value in column if value is not None] for name, column in columns.items()}
        return {name: float(np.mean(column)) if column else None for name, column in known.items()}


@dataclass(frozen=True)
class Predictions:
    """A classifier's probabilities of the classes, by name, for each whole document."""

    documents: list[dict[str, float]]

    @property
    def labels(self) -> list[str]:
        """The most probable class of each document."""
        return [max(found, key=found.__getitem__) for found in self.documents]

    def performance(self, documents: Sequence[Document]) -> dict[str, float]:
        """F1 and accuracy of the predicted labels."""
        return performance([one.label for one in documents], self.labels, list(self.documents[0]))


def predict(classifier: DocumentClassifier, documents: Sequence[Document]) -> Predictions:
    """Classifies whole documents.

    Raises:
        UserError: if a document's label is not one of the model's classes.
    """
    for one in documents:
        if one.label not in classifier.classes:
            raise UserError(
                f"document '{one.name}' has the label '{one.label}', and the model's classes are "
                f"{', '.join(classifier.classes)}: give documents of the model's own task."
            )
    found = []
    for one in progress(documents, "predictions", "documents"):
        (probabilities,) = classifier.probabilities(one, [np.ones(len(one.words), bool)])
        found.append(dict(zip(classifier.classes, probabilities.tolist(), strict=True)))
    return Predictions(found)


def explain(
    source: str,
    classifier: DocumentClassifier,
    documents: Sequence[Document],
    predictions: Predictions,
    settings: Settings,
) -> Explanations:
    """Scores the words of documents by one source and evaluates the scores.

    Args:
        source: a name of SOURCES.
        predictions: of the whole documents.
    """
    found = []
    for number, one in enumerate(progress(documents, source, "documents")):
        label = predictions.labels[number]
        chosen, draw = classifier.classes.index(label), np.random.default_rng([settings.seed, number])
        decision = Decision(classifier, one, chosen, draw, settings.word_score, settings.lime_samples)
        draws = settings.draws if source == "random" else 1
        scores = [SOURCES[source](decision) for _ in range(draws)]
        shortened = erasures(scores[0])
        left = classifier.probabilities(one, shortened.reshape(-1, len(one.words)))[:, chosen]
        drops = faithfulness(predictions.documents[number][label], left.reshape(shortened.shape[:2]))
        area = float(np.mean([auprc(one.gold, score) for score in scores])) if one.gold.any() else None
        found.append(Explanation(area, *drops, scores[0].tolist()))
    return Explanations(found)
