"""Encoders that nobody trained, as fairseq's trainer saves them, and binarised data for them, made in this process."""

import random
from collections.abc import Callable
from pathlib import Path

import torch
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer
from torch import nn

from binary_lines import write_binary
from encoders import louder
from tiny import dictionary, make_loud

EXAMPLES, LONGEST = 23, 9
TINY = ["--encoder-layers", "2", "--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "16"]
TINY += ["--encoder-attention-heads", "2", "--optimizer", "adam", "--cpu"]
OF_TASK = {
    "sentence_prediction": ["--num-classes", "2", "--init-token", "0", "--max-positions", "24"],
    "masked_lm": ["--tokens-per-sample", "12"],
}


def drawn_lines(seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(dictionary().symbols[4:], k=draw.randint(2, LONGEST))) for _ in range(EXAMPLES)]


def write_sentences(folder: Path, subset: str = "test", regression: bool = False) -> Path:
    """Pairs of sentences with labels 0 and 1, or with scores; returns the folder."""
    for number, name in enumerate(("input0", "input1")):
        write_binary(folder / name / subset, dictionary(), drawn_lines(number))
    dictionary().save(str(folder / "input0" / "dict.txt"))
    (folder / "label").mkdir(exist_ok=True)
    draw, labels = random.Random(2), Dictionary()
    if regression:
        (folder / "label" / f"{subset}.label").write_text("".join(f"{draw.random():.3f}\n" for _ in range(EXAMPLES)))
        return folder
    for label in "10":
        labels.add_symbol(label)
    labels.save(str(folder / "label" / "dict.txt"))
    write_binary(folder / "label" / subset, labels, draw.choices("01", k=EXAMPLES))
    return folder


def write_text(folder: Path, subset: str = "test") -> Path:
    """Text for masked words; returns the folder."""
    write_binary(folder / subset, dictionary(), drawn_lines(3))
    dictionary().save(str(folder / "dict.txt"))
    return folder


def save_encoder(
    data: Path, checkpoint: Path, task: str, *flags: str, arch: str = "ea_roberta_tiny", seed: int = 1
) -> Trainer:
    """Saves a model with loud weights for the data in a folder; returns its trainer."""
    command = [str(data), "--task", task, "--criterion", task, "--arch", arch, *TINY, *OF_TASK[task], *flags]
    return save_model(checkpoint, [*command, "--seed", str(seed)], louder)


def save_series(data: Path, checkpoint: Path, *flags: str, arch: str = "ea_dc_transformer", seed: int = 1) -> Trainer:
    """Saves a model of the series in a folder; returns its trainer."""
    command = [str(data), "--task", "time_series_prediction", "--criterion", "sentence_prediction", "--arch", arch]
    tiny = ["--width", "16", "--encoder-attention-heads", "2", "--blocks", "1", "--optimizer", "radam", "--cpu"]
    return save_model(checkpoint, [*command, *tiny, *flags, "--seed", str(seed)], make_loud)


def save_images(data: Path, checkpoint: Path, arch: str = "ea_vit_tiny") -> Trainer:
    """Saves a model of the images in a folder; returns its trainer."""
    command = [str(data), "--task", "image_prediction", "--criterion", "sentence_prediction", "--arch", arch]
    tiny = ["--encoder-embed-dim", "12", "--encoder-layers", "2", "--patch-size", "2"] if "vit" in arch else []
    return save_model(checkpoint, [*command, *tiny, "--optimizer", "adam", "--cpu"], make_loud)


def save_model(checkpoint: Path, command: list[str], change: Callable[[nn.Module], nn.Module]) -> Trainer:
    """Saves the model that a command would train, its weights changed; returns its trainer."""
    config = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), command))
    built = tasks.setup_task(config.task)
    torch.manual_seed(config.common.seed)
    model = change(built.build_model(config.model))
    trainer = Trainer(config, built, model, built.build_criterion(config.criterion))
    trainer.consolidate_optimizer()
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    trainer.save_checkpoint(str(checkpoint), {})
    return trainer
