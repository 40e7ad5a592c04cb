"""Models built from flags of fairseq-train, without data."""

import re
from argparse import Namespace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from fairseq import options
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY

from ea_fairseq.attention.registry import PLAIN
from ea_fairseq.errors import UserError, flags_refused
from ea_fairseq.models import roberta, t5, transformer
from ea_fairseq.models.time_series import TimeSeriesModel
from ea_fairseq.plain.commands import Parser
from ea_fairseq.series.description import SeriesDescription

ENCODERS = ("roberta", *roberta.MODELS)  # models that are an encoder alone
TRANSLATING = (PLAIN["base"], *transformer.MODELS, *t5.MODELS)
PREDICTING = ["--task", "time_series_prediction", "--criterion", "sentence_prediction"]
CLASSIFYING = ["--task", "sentence_prediction", "--criterion", "sentence_prediction"]
POSITIONS = 512  # that an encoder has unless flags say otherwise, as in fairseq's sentence_prediction
HEAD = "sentence_classification_head"  # what fairseq's criterion calls it


def arch_of(flags: list[str]) -> str | None:
    """The architecture that flags name."""
    return next((value for flag, value in pairwise(flags) if flag == "--arch"), None)


def is_encoder(arch: str | None) -> bool:
    """Whether an architecture is an encoder alone."""
    return ARCH_MODEL_NAME_REGISTRY.get(arch) in ENCODERS


def is_of_series(arch: str | None) -> bool:
    """Whether an architecture reads time series."""
    return issubclass(ARCH_MODEL_REGISTRY.get(arch, object), TimeSeriesModel)


def parse(flags: list[str], parser: Parser) -> Namespace:
    """What fairseq makes of flags, the defaults of the architecture included; an encoder is to classify by default.

    Args:
        parser: ends with one sentence where fairseq cannot read a flag.

    Raises:
        UserError: where the architecture is no Transformer.
    """
    arch = arch_of(flags)
    if not is_of_series(arch) and ARCH_MODEL_NAME_REGISTRY.get(arch) not in (*TRANSLATING, *ENCODERS):
        raise UserError(
            f"--arch {arch} is no Transformer that profile.py knows: take {PLAIN['lite']}, ea_transformer_lite or "
            "another that docs/models.md, docs/encoders.md, docs/t5.md or docs/time-series.md names, or give the "
            "--user-dir that brings it."
        )
    if "--task" not in flags and (is_encoder(arch) or is_of_series(arch)):
        flags = [*(CLASSIFYING if is_encoder(arch) else PREDICTING), *flags]

    def refuse(message: str) -> None:
        parser.error(re.sub(r"^argument \S+: (?=--)", "", message))  # our sentences name their flag

    fairseq_parser = options.get_training_parser()
    fairseq_parser.error = refuse
    return options.parse_args_and_arch(fairseq_parser, ["data", *flags])


def build(args: Namespace, task: SimpleNamespace, outputs: int = 0) -> Any:
    """The model of these options, with a classification head where it has outputs.

    Args:
        task: what the model reads of fairseq's task, by ``task_of_text`` or ``task_of_series``.
    """
    with flags_refused():
        model = ARCH_MODEL_REGISTRY[args.arch].build_model(args, task)
        if outputs:
            model.register_classification_head(HEAD, outputs)
    return model


def task_of_text(source_types: int, target_types: int | None = None) -> SimpleNamespace:
    """A task with dictionaries of invented words."""
    source, target = dictionary(source_types), dictionary(target_types or source_types)
    return SimpleNamespace(source_dictionary=source, target_dictionary=target, max_positions=lambda: POSITIONS)


def task_of_series(channels: int, steps: int, classes: int) -> SimpleNamespace:
    """A task with series of so many steps at most; without classes a number is predicted."""
    labels = tuple(map(str, range(classes))) or None
    return SimpleNamespace(description=SeriesDescription((0.0,) * channels, (1.0,) * channels, True, steps, labels))


def dictionary(types: int) -> Dictionary:
    """A dictionary of this many types, fairseq's special ones included."""
    made = Dictionary()
    for number in range(types - len(made)):
        made.add_symbol(str(number))
    return made
