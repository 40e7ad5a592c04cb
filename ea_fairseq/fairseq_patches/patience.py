"""A resumed training stops early, by ``--patience``, where it would have stopped without the interruption.

``should_stop_early`` (fairseq_cli/train.py) keeps the best validation and the number of validations since then as
attributes of itself, and no checkpoint has them, so a resumption counts anew. Here checkpoints carry them.
"""

import sys
from typing import Any

from fairseq.trainer import Trainer

KEY = "early_stopping"  # in a checkpoint's extra_state
fairseq_save = Trainer.save_checkpoint
fairseq_load = Trainer.load_checkpoint


def patch_patience() -> None:
    """Replaces ``Trainer.save_checkpoint`` and ``Trainer.load_checkpoint`` by the functions below."""
    Trainer.save_checkpoint = save_checkpoint
    Trainer.load_checkpoint = load_checkpoint


def patience_state() -> dict:
    """The attributes of ``should_stop_early``: ``best`` and ``num_runs``, or an empty dict outside of training.

    It is the function's own dict, so an update of it sets the attributes.
    """
    training = sys.modules.get("fairseq_cli.train")
    return vars(training.should_stop_early) if training else {}


def save_checkpoint(self: Trainer, filename: str, extra_state: dict) -> None:
    """Saves a checkpoint as fairseq does, with :func:`patience_state` added to its extra state."""
    fairseq_save(self, filename, {**extra_state, KEY: {**patience_state()}})


def load_checkpoint(self: Trainer, filename: str, *args: Any, reset_meters: bool = False, **kwargs: Any) -> dict | None:
    """Loads a checkpoint as fairseq does, and restores :func:`patience_state` unless ``--reset-meters`` is given.

    Returns:
        The checkpoint's extra state, or None where there is no such file.
    """
    extra_state = fairseq_load(self, filename, *args, reset_meters=reset_meters, **kwargs)
    if extra_state is not None and not reset_meters:
        patience_state().update(extra_state.get(KEY, {}))
    return extra_state
