"""Labelled examples of a subset, and trained models that represent them: one function for each kind of data."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.binarised import GraphData, ImageData, SentenceData, SeriesData
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.runs.data_bin import read_data
from ea_fairseq.experiments.runs.trained_model import find_trained, load_encoder, on_device
from ea_fairseq.experiments.scoring.evaluation import require_short
from ea_fairseq.graphs.graph import Graph
from ea_fairseq.hub.files import ModelFiles
from ea_fairseq.hub.graph import EAGraph
from ea_fairseq.hub.image import EAImage
from ea_fairseq.hub.time_series import EATimeSeries
from ea_fairseq.images.folder import ImageFolder
from ea_fairseq.series.folder import SeriesFolder

NO_CLASSES = "{} has no classes, by which representations are shown: give data with classes."


@dataclass(frozen=True)
class Examples:
    """N examples and a model that represents them.

    Args:
        arch: of the model.
        checkpoint: its file.
        names: of the classes.
        classes: (N,), the number of each example's class.
        represent: returns representations (B, D) of some examples, given their numbers.
    """

    arch: str
    checkpoint: Path
    names: list[str]
    classes: np.ndarray
    represent: Callable[[list[int]], Tensor]


def nodes(files: ModelFiles, subset: str, cpu: bool) -> Examples:
    """The nodes of a graph, represented by the outputs of the last layer but one."""
    hub, graph = EAGraph.from_pretrained(files.folder, files.names), Graph.read(files.data)
    on_device(hub.model, cpu)
    found = graph.splits.get(subset)
    if not found:
        raise UserError(f"no node of {files.data} is in {subset}: name another --subset.")
    labels = np.array(graph.labels)
    names = [str(label) for label in range(labels.max() + 1)]

    def represent(numbers: list[int]) -> Tensor:
        return hub.representations(graph)[[found[number] for number in numbers]]

    return Examples(hub.model.args.arch, files.path, names, labels[found], represent)


def series(files: ModelFiles, subset: str, cpu: bool) -> Examples:
    """Time series, represented by all steps that the output layer reads."""
    hub, file = EATimeSeries.from_pretrained(files.folder, files.names), SeriesFolder(files.data).read(subset)
    on_device(hub.model, cpu)
    if file.labels is None or file.targets is None:
        raise UserError(NO_CLASSES.format(file.path))

    def represent(numbers: list[int]) -> Tensor:
        return hub.representations([file.series[number] for number in numbers])

    return Examples(hub.model.args.arch, files.path, list(file.labels), np.array(file.targets), represent)


def sentences(files: ModelFiles, subset: str, cpu: bool) -> Examples:
    """Sentences or pairs, represented by the class token, or by the mean over tokens if the model classifies by it."""
    hub = load_encoder(files, cpu)
    if hub.task.cfg.regression_target:
        raise UserError(NO_CLASSES.format(files.data))
    tokens, names = hub.subset(subset), hub.class_names
    longest = max(map(len, tokens))
    require_short(longest, hub.model.max_positions(), longest)
    dataset = hub.task.dataset(subset)
    classes = np.array([int(dataset[number]["target"]) for number in range(len(dataset))])
    if not 0 <= classes.min() <= classes.max() < len(names):
        raise UserError(f"{files.data} has labels in {subset} that label/dict.txt does not name.")

    def represent(numbers: list[int]) -> Tensor:
        return hub.representations_of_tokens([tokens[number] for number in numbers])

    return Examples(hub.model.args.arch, files.path, names, classes, represent)


def images(files: ModelFiles, subset: str, cpu: bool) -> Examples:
    """Images, represented by the vectors that the linear layer to the classes reads."""
    hub, file = EAImage.from_pretrained(files.folder, files.names), ImageFolder(files.data).read(subset)
    on_device(hub.model, cpu)

    def represent(numbers: list[int]) -> Tensor:
        return hub.representations([file.images[number] for number in numbers])

    return Examples(hub.model.args.arch, files.path, list(file.labels), file.targets, represent)


KINDS = {GraphData.task: nodes, ImageData.task: images, SeriesData.task: series, SentenceData.task: sentences}


def read_examples(model: Path, data: Path, subset: str, cpu: bool) -> Examples:
    """The examples of a subset, and a trained model that represents them.

    Args:
        model: the folder of a training, or a checkpoint in it.
        data: the folder of the data.

    Raises:
        UserError: naming what is missing, does not fit the model, or has no classes.
    """
    files = find_trained(model, data)
    if files.task_name not in KINDS:
        raise UserError(f"{files.path} is a model for --task {files.task_name}: give one for {', '.join(KINDS)}.")
    Checkpoint(files.path, files.states[0]).require_data(read_data(data))
    return KINDS[files.task_name](files, subset, cpu)
