"""Measures how far representations are from the centres of their classes, and projects them by t-SNE."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from ea_fairseq.errors import UserError


@dataclass(frozen=True)
class Compactness:
    """How near points are to the centres of their classes.

    Args:
        average_distance: AvgWCD, the mean distance to the centre of the class (CEAN eq. 13).
        normalised: AvgWCD divided by the mean distance to the centre of all points.
    """

    average_distance: float
    normalised: float

    @classmethod
    def of(cls, points: np.ndarray, classes: np.ndarray) -> Self:
        """Measures points (N, D), which must not all be equal, given the number of each point's class (N,)."""
        within, overall = (average_distance(points, of) for of in (classes, np.zeros(len(points))))
        return cls(within, within / overall)


def average_distance(points: np.ndarray, classes: np.ndarray) -> float:
    """The mean distance of points (N, D) to the centre of their class, given classes (N,)."""
    total = 0.0
    for number in np.unique(classes):
        members = points[classes == number].astype(np.float64)
        total += np.linalg.norm(members - members.mean(axis=0), axis=1).sum()
    return float(total / len(points))


def tsne(points: np.ndarray, perplexity: float, seed: int) -> np.ndarray:
    """Projects points (N, D) to (N, 2) by t-SNE, starting from the first two principal components.

    Raises:
        UserError: if there are too few points, all points are equal, or a value is not finite.
    """
    from sklearn.manifold import TSNE  # importing takes a second
    from threadpoolctl import threadpool_limits

    if len(points) <= perplexity:
        raise UserError(
            f"t-SNE needs more examples than --perplexity {perplexity:g}, but there are {len(points)}: lower it."
        )
    if not np.isfinite(points).all():
        raise UserError("the representations have values that are infinite or not a number.")
    if points.shape[1] < 2 or (points == points[0]).all():
        raise UserError("the representations are all equal, or have a single channel.")
    with threadpool_limits(1):  # threads that share a core with other processes make it several times slower
        return TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(points)
