"""What a trained classifier says."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Prediction:
    """The class of a sentence, a pair of sentences or a time series.

    Args:
        label: the most probable class.
        probabilities: of all classes, by their names in the data.
    """

    label: str
    probabilities: dict[str, float]
