"""Builds models from flags of fairseq-train, without data."""

import re
from argparse import Namespace
from types import SimpleNamespace
from typing import Any

from fairseq import options
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY

from ea_fairseq.attention.registry import PLAIN
from ea_fairseq.errors import UserError, flags_refused
from ea_fairseq.experiments.runs.recipe import last_value
from ea_fairseq.images.description import ImageDescription
from ea_fairseq.models import roberta, t5, transformer
from ea_fairseq.models.image import ImageModel
from ea_fairseq.models.time_series import TimeSeriesModel
from ea_fairseq.plain.commands import Parser
from ea_fairseq.series.description import SeriesDescription

ENCODERS = ("roberta", *roberta.MODELS)  # models without a decoder
TRANSLATING = (PLAIN["base"], *transformer.MODELS, *t5.MODELS)
CLASSES = {"time series": TimeSeriesModel, "images": ImageModel}  # of models, by what they read
TASKS = {"time series": "time_series_prediction", "images": "image_prediction", "text": "sentence_prediction"}
POSITIONS = 512  # of an encoder unless flags say otherwise, as in fairseq's sentence_prediction
HEAD = "sentence_classification_head"  # its name in fairseq's criterion


def is_encoder(arch: str | None) -> bool:
    """Whether an architecture is an encoder without a decoder."""
    return ARCH_MODEL_NAME_REGISTRY.get(arch) in ENCODERS


def read_by(arch: str | None) -> str:
    """What an architecture reads: ``time series``, ``images`` or ``text``."""
    model = ARCH_MODEL_REGISTRY.get(arch, object)
    return next((data for data, kind in CLASSES.items() if issubclass(model, kind)), "text")


def parse(flags: list[str], parser: Parser) -> Namespace:
    """Parses flags as fairseq does, including the architecture's defaults; an encoder classifies by default.

    Args:
        parser: its ``error`` is called with one sentence if fairseq cannot read a flag.

    Raises:
        UserError: if the architecture is not known here.
    """
    arch = last_value("--arch", flags)
    data = read_by(arch)
    if data == "text" and ARCH_MODEL_NAME_REGISTRY.get(arch) not in (*TRANSLATING, *ENCODERS):
        raise UserError(
            f"--arch {arch} is not known to profile.py: take {PLAIN['lite']}, ea_transformer_lite or another from "
            "docs/models.md, docs/encoders.md, docs/t5.md, docs/time-series.md or docs/images.md, or give the "
            "--user-dir that defines it."
        )
    if "--task" not in flags and (is_encoder(arch) or data != "text"):
        flags = ["--task", TASKS[data], "--criterion", "sentence_prediction", *flags]

    def refuse(message: str) -> None:
        parser.error(re.sub(r"^argument \S+: (?=--)", "", message))  # our messages name the flag themselves

    fairseq_parser = options.get_training_parser()
    fairseq_parser.error = refuse
    return options.parse_args_and_arch(fairseq_parser, ["data", *flags])


def build(args: Namespace, task: SimpleNamespace, outputs: int = 0) -> Any:
    """Builds the model, with a classification head if ``outputs`` is not 0.

    Args:
        task: the attributes of fairseq's task that the model reads, by one of the functions below.
    """
    with flags_refused():
        model = ARCH_MODEL_REGISTRY[args.arch].build_model(args, task)
        if outputs:
            model.register_classification_head(HEAD, outputs)
    return model


def task_of_text(source_types: int, target_types: int | None = None) -> SimpleNamespace:
    """A task with dictionaries of made-up words."""
    source, target = dictionary(source_types), dictionary(target_types or source_types)
    return SimpleNamespace(source_dictionary=source, target_dictionary=target, max_positions=lambda: POSITIONS)


def task_of_series(channels: int, steps: int, classes: int) -> SimpleNamespace:
    """A task with series of at most ``steps`` steps; with 0 classes it is a regression."""
    labels = tuple(map(str, range(classes))) or None
    return SimpleNamespace(description=SeriesDescription((0.0,) * channels, (1.0,) * channels, True, steps, labels))


def task_of_images(channels: int, image_size: int, classes: int) -> SimpleNamespace:
    """A task with square images of ``image_size`` pixels a side."""
    labels = tuple(map(str, range(classes)))
    numbers = (0.0,) * channels, (1.0,) * channels
    return SimpleNamespace(description=ImageDescription(image_size, image_size, *numbers, labels))


def dictionary(types: int) -> Dictionary:
    """A dictionary of this many types, fairseq's special ones included."""
    made = Dictionary()
    for number in range(types - len(made)):
        made.add_symbol(str(number))
    return made
