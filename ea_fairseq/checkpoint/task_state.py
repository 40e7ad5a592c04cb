"""What tasks keep in a checkpoint, checked as untrusted input."""

import re

from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.series.description import SeriesDescription

HEAD = re.compile(r"classification_heads\.\w+\.weight")


def require_series(state: dict, parameters: dict[str, Tensor], options: dict, most: int):
    """Checks that a description of time series describes no larger model than the parameters.

    Args:
        state: of the task.
        options: of the model, by name.
        most: numbers of a table of positions.

    Raises:
        UserError: naming what cannot be right.
    """
    if "series" not in state:
        return
    description, largest = SeriesDescription.from_state(state["series"]), max_size(parameters)
    heads = [tensor.shape for name, tensor in parameters.items() if HEAD.fullmatch(name) and tensor.dim() == 2]
    limits = {"channels": (description.channels, largest)}
    if heads:
        limits["classes"] = description.outputs, max(rows for rows, _ in heads)
        most = max(columns for _, columns in heads)
    limits["steps"] = description.longest, most // (options.get("width") or 1)
    for name, (size, limit) in limits.items():
        if size > limit:
            raise UserError(f"its series have {size:,} {name}, and the model's parameters allow no more than {limit:,}")


def max_size(parameters: dict[str, Tensor]) -> int:
    """The largest dimension of any parameter."""
    return max((size for tensor in parameters.values() for size in tensor.shape), default=1)
