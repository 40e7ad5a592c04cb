"""A resumed training stops early, by ``--patience``, where it would have stopped without the interruption."""

import sys

from fairseq.trainer import Trainer

COUNT = "early_stopping"
fairseq_save = Trainer.save_checkpoint
fairseq_load = Trainer.load_checkpoint


def resume_patience():
    """Puts the functions below into fairseq, which counts validations without improvement anew after a resumption."""
    Trainer.save_checkpoint = save_checkpoint
    Trainer.load_checkpoint = load_checkpoint


def patience_count() -> dict:
    """The best validation and how many came after it, which fairseq keeps as attributes of a function."""
    training = sys.modules.get("fairseq_cli.train")
    return vars(training.should_stop_early) if training else {}


def save_checkpoint(self: Trainer, filename: str, extra_state: dict):
    """Saves a checkpoint as fairseq does, with the count in it."""
    return fairseq_save(self, filename, {**extra_state, COUNT: {**patience_count()}})


def load_checkpoint(self: Trainer, filename: str, *args, reset_meters: bool = False, **kwargs) -> dict | None:
    """Loads a checkpoint as fairseq does, and the count in it unless the validations so far are to be forgotten."""
    extra_state = fairseq_load(self, filename, *args, reset_meters=reset_meters, **kwargs)
    if extra_state is not None and not reset_meters:
        patience_count().update(extra_state.get(COUNT, {}))
    return extra_state
