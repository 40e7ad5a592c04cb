"""Checkpoints as fairseq's trainer writes them, of tiny models that nobody trained."""

from pathlib import Path

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

from commands import SIZES
from tiny import dictionary, make_loud, make_varied


def save_dictionaries(data: Path) -> Path:
    """Puts two dictionaries into a data folder; returns the folder."""
    for language in ("src", "tgt"):
        dictionary().save(str(data / f"dict.{language}.txt"))
    return data


def save_loud(data: Path, checkpoint: Path, *flags: str, **options):
    """Saves a model whose convolutions are loud, with the dictionaries of a data folder; returns the model."""
    trainer = loud_trainer(data, *flags, **options)
    trainer.consolidate_optimizer()
    trainer.save_checkpoint(str(checkpoint), {})
    return trainer.model


def loud_trainer(data: Path, *flags: str, arch="ea_transformer", languages=("src", "tgt"), seed=1) -> Trainer:
    """A training of such a model that has not begun."""
    source, target = languages
    command = [str(data), "-s", source, "-t", target, "--arch", arch, *SIZES]
    command += ["--ea-beta", "0.5"] * arch.startswith("ea_")
    command += ["--dropout", "0", "--optimizer", "adam", "--cpu", *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), command)
    config = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(config.task)
    torch.manual_seed(seed)
    model = make_varied(make_loud(task.build_model(config.model)))
    return Trainer(config, task, model, task.build_criterion(config.criterion))
