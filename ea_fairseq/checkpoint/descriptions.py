"""Checks of an untrusted checkpoint's description of its training data: a small file must not fill the memory."""

import re

from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.graphs.description import GraphDescription
from ea_fairseq.images.description import ImageDescription
from ea_fairseq.models.image_options import VitOptions
from ea_fairseq.series.description import SeriesDescription

SERIES_HEAD = re.compile(r"classification_heads\.\w+\.weight")


def require_descriptions(state: dict, parameters: dict[str, Tensor], options: dict, most: int) -> None:
    """Checks that time series, a graph or images are described as no larger than the parameters allow.

    Args:
        state: the task's state.
        parameters: the parameters by name.
        options: the model's options by name.
        most: maximum number of elements of a position embedding.

    Raises:
        UserError: naming the size that is too large.
    """
    largest = max((size for tensor in parameters.values() for size in tensor.shape), default=1)
    if "series" in state:
        require_series(SeriesDescription.from_state(state["series"]), parameters, options, largest, most)
    if "graph" in state:
        graph = GraphDescription.from_state(state["graph"])
        refuse_larger("its graph has", {"features": (graph.features, largest), "classes": (graph.classes, largest)})
    if "images" in state:
        images = ImageDescription.from_state(state["images"])
        limits = {"channels": (images.channels, largest), "classes": (images.outputs, largest)}
        if any(name.endswith("embed_positions") for name in parameters):
            patch = options.get("patch_size") or VitOptions().patch_size
            limits["patches"] = (images.height // patch) * (images.width // patch), largest
        refuse_larger("its images have", limits)


def require_series(
    description: SeriesDescription, parameters: dict[str, Tensor], options: dict, largest: int, most: int
) -> None:
    """Checks a description of time series; raises UserError as :func:`require_descriptions` does."""
    heads = [tensor.shape for name, tensor in parameters.items() if SERIES_HEAD.fullmatch(name) and tensor.dim() == 2]
    limits = {"channels": (description.channels, largest)}
    if heads:
        limits["classes"] = description.outputs, max(rows for rows, _ in heads)
        most = max(columns for _, columns in heads)
    limits["steps"] = description.longest, most // (options.get("width") or 1)
    refuse_larger("its series have", limits)


def refuse_larger(subject: str, limits: dict[str, tuple[int, int]]) -> None:
    """Raises UserError if a size is larger than its limit; ``subject`` begins the sentence."""
    for name, (size, limit) in limits.items():
        if size > limit:
            raise UserError(f"{subject} {size:,} {name}, and the model's parameters allow no more than {limit:,}")
