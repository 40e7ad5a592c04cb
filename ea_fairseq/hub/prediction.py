"""Predictions of trained models: classes with their probabilities, or numbers."""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Prediction:
    """The class of a sentence, a pair of sentences, a time series, a node or an image.

    Args:
        label: the most probable class.
        probabilities: the probability of each class, by its name in the data.
    """

    label: str
    probabilities: dict[str, float]

    @classmethod
    def of(cls, logits: Tensor, labels: Iterable[str]) -> "Prediction":
        """Returns the prediction of a model with logits (classes,) of these classes."""
        probabilities = dict(zip(labels, logits.softmax(dim=-1).tolist(), strict=True))
        return cls(max(probabilities, key=probabilities.__getitem__), probabilities)


def sentence_of(prediction: Prediction | float) -> str:
    """Returns a sentence with a predicted class and its probability, or with a predicted number."""
    if isinstance(prediction, float):
        return f"Predicted value: {prediction:g}."
    return f"Predicted class: {prediction.label} (probability {prediction.probabilities[prediction.label]:.2f})."
