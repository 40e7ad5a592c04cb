"""The log of a resumed training tells the time since the training began.

``Trainer.load_checkpoint`` (fairseq/trainer.py) restores how long the training took, and checkpoints have it (as a
tensor where several processes train), but the log's ``wall`` begins at 0 again or, where an epoch is resumed in its
middle, stays 0.
"""

import time
from typing import Any

from fairseq.logging import metrics
from fairseq.trainer import Trainer


def patch_wall_clock() -> None:
    """Has ``Trainer.load_checkpoint`` set the clock, unless ``--reset-meters`` is given."""
    load = Trainer.load_checkpoint

    def load_checkpoint(
        self: Trainer, filename: str, *args: Any, reset_meters: bool = False, **kwargs: Any
    ) -> dict | None:
        extra_state = load(self, filename, *args, reset_meters=reset_meters, **kwargs)
        clock = metrics.get_meter("default", "wall")
        if extra_state is not None and clock is not None and not reset_meters:
            clock.start_time = time.perf_counter() - float(self.cumulative_training_time())
        return extra_state

    Trainer.load_checkpoint = load_checkpoint
