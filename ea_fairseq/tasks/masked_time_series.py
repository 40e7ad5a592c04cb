"""The task ``masked_time_series``: pre-training (CEAN eq. 7, 8), for the criterion ``masked_values``."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fairseq.criterions import FairseqCriterion
from fairseq.models import BaseFairseqModel
from fairseq.tasks import register_task

from ea_fairseq.criterions.masked_values import MaskedValuesCriterion
from ea_fairseq.errors import UserError
from ea_fairseq.series.dataset import MaskedSeriesDataset
from ea_fairseq.series.ts_file import SeriesFile
from ea_fairseq.tasks.time_series import TimeSeriesConfig, TimeSeriesTask


@dataclass
class MaskedTimeSeriesConfig(TimeSeriesConfig):
    """Flags of the task."""

    mask_ratio: float = field(default=0.15, metadata={"help": "share of the values that are masked"})
    mask_length: float = field(default=3.0, metadata={"help": "mean number of steps that are masked in a row"})


@register_task("masked_time_series", dataclass=MaskedTimeSeriesConfig)
class MaskedTimeSeriesTask(TimeSeriesTask):
    """Predicts masked values of a series; classes and targets in its file are ignored."""

    @classmethod
    def check(cls, cfg: MaskedTimeSeriesConfig) -> None:
        """Checks the values of flags.

        Raises:
            UserError: naming the flag whose value is out of range.
        """
        super().check(cfg)
        if not 0 < cfg.mask_ratio < 1:
            raise UserError(f"--mask-ratio must be a number between 0 and 1, not {cfg.mask_ratio}")
        lowest = max(1.0, cfg.mask_ratio / (1 - cfg.mask_ratio))
        if not lowest <= cfg.mask_length < math.inf:
            raise UserError(
                f"--mask-length must be {lowest:g} or more with --mask-ratio {cfg.mask_ratio:g}, not "
                f"{cfg.mask_length:g}"
            )

    def build_dataset(self, file: SeriesFile, indices: np.ndarray, training: bool) -> MaskedSeriesDataset:
        """Builds series whose masked values change from epoch to epoch in training, but not in validation."""
        series = [file.series[index] for index in indices]
        how = self.cfg.mask_ratio, self.cfg.mask_length, self.cfg.seed
        return MaskedSeriesDataset(series, self.description, training, *how)

    def build_criterion(self, cfg: Any, from_checkpoint: bool = False) -> FairseqCriterion:
        """Builds the criterion.

        Raises:
            UserError: if the criterion is for another task.
        """
        self.require_criterion(cfg, MaskedValuesCriterion, "masked_values")
        return super().build_criterion(cfg, from_checkpoint)

    def add_output(self, model: BaseFairseqModel) -> None:
        """Adds the linear layer from a step's representation to its values (CEAN eq. 7)."""
        model.register_value_head()
