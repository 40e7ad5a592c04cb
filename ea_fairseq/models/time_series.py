"""Models of time series: an encoder of steps, and output layers that read its representation."""

import logging
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ea_fairseq.errors import UserError
from ea_fairseq.models.state_dict import refuse_mismatch
from ea_fairseq.models.time_series_options import TimeSeriesOptions
from ea_fairseq.series.description import SeriesDescription

logger = logging.getLogger(__name__)
OUTPUT_PREFIXES = ("classification_heads.", "value_head.")  # of parameters that tasks add


class StepNorm(nn.BatchNorm1d):
    """Batch norm over the steps of series. Padding changes neither the statistics nor the output."""

    def forward(self, x: Tensor, padded: Tensor | None) -> Tensor:  # type: ignore[override]
        """(T, B, C) -> (T, B, C); in training the output is zero at padding.

        Args:
            padded: (B, T), true at padding.
        """
        if padded is None or not self.training:
            return self.normalized(x.flatten(0, 1)).view_as(x)
        real, output = ~padded.T, torch.zeros_like(x)
        output[real] = self.normalized(x[real])
        return output

    def normalized(self, x: Tensor) -> Tensor:
        """Normalizes steps (N, C); a batch of one step has no variance, so the running statistics are used."""
        if self.training and len(x) == 1:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x)


class Readout(nn.Linear):
    """GELU, dropout, and a linear layer over the concatenation of all steps, with zeros at padding.

    Args:
        longest: N, the maximum number of steps of a series.
        width: d channels of a step.
        outputs: the number of output values.
    """

    def __init__(self, longest: int, width: int, outputs: int, dropout: float):
        super().__init__(longest * width, outputs)
        self.longest, self.dropout = longest, nn.Dropout(dropout)

    def forward(self, x: Tensor, padding_mask: Tensor) -> Tensor:  # type: ignore[override]
        """(B, T, d) and its padding (B, T) -> (B, outputs)"""
        return super().forward(self.concatenated(x, padding_mask))

    def concatenated(self, x: Tensor, padding_mask: Tensor) -> Tensor:
        """Returns what the linear layer reads: (B, T, d) and its padding (B, T) -> (B, N d)"""
        x = self.dropout(F.gelu(x)).masked_fill(padding_mask.unsqueeze(-1), 0.0)
        return F.pad(x, (0, 0, 0, self.longest - x.size(1))).flatten(1)


class TimeSeriesModel(BaseFairseqModel):
    """An encoder; tasks add a classification head, or a linear layer from its representation to values.

    Args:
        args: the model's options.
        encoder: maps series (B, T, C) and their padding (B, T) to a representation (B, T, d).
        description: the data set's description.
    """

    options: ClassVar[type[TimeSeriesOptions]] = TimeSeriesOptions

    def __init__(self, args: Any, encoder: nn.Module, description: SeriesDescription):
        super().__init__()
        self.args, self.encoder, self.description = args, encoder, description
        self.classification_heads = nn.ModuleDict()
        self.value_head: nn.Module | None = None

    @classmethod
    def description_of(cls, args: Any, task: FairseqTask) -> SeriesDescription:
        """Returns the description of the task's data set.

        Raises:
            UserError: if the task has no time series.
        """
        if not isinstance(getattr(task, "description", None), SeriesDescription):
            raise UserError(f"--arch {args.arch} is for --task time_series_prediction and masked_time_series")
        return task.description

    def register_classification_head(self, name: str, outputs: int) -> None:
        """Adds a classification head with so many outputs."""
        options = self.options.from_namespace(self.args)
        self.classification_heads[name] = Readout(self.description.longest, options.width, outputs, options.dropout)

    def register_value_head(self) -> None:
        """Adds the linear layer from a step's representation to its values (CEAN eq. 7)."""
        self.value_head = nn.Linear(self.options.from_namespace(self.args).width, self.description.channels)

    def forward(
        self,
        source: Tensor,
        padding_mask: Tensor,
        features_only: bool = False,
        classification_head_name: str | None = None,
    ) -> tuple[Tensor, dict]:
        """
        Args:
            source: (B, T, C).
            padding_mask: (B, T), true at padding, which comes last.

        Returns:
            Values (B, T, C), the representation (B, T, d) or the output of a head, (B, outputs); and an empty
            dictionary, which fairseq's criteria expect.
        """
        # Encoder, then the output layer of the task.
        x = self.encoder(source, padding_mask)
        if classification_head_name is not None:
            return self.classification_heads[classification_head_name](x, padding_mask), {}
        if not features_only and self.value_head is not None:
            x = self.value_head(x)
        return x, {}

    def max_positions(self) -> int:
        """Returns the maximum number of steps of a series."""
        return self.description.longest

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Keeps the new output layer of this model if the checkpoint was trained for another task."""
        super().upgrade_state_dict_named(state_dict, name)
        own = {key: tensor for key, tensor in self.state_dict().items() if key.startswith(OUTPUT_PREFIXES)}
        others = [key for key in state_dict if key.startswith(OUTPUT_PREFIXES)]
        if own and others and own.keys().isdisjoint(others):
            parameters = sum(map(Tensor.numel, own.values()))
            logger.info(f"the checkpoint was trained for another task: {parameters:,} parameters of this task are new")
            for key in others:
                del state_dict[key]
            state_dict.update(own)

    def load_state_dict(
        self, state_dict: dict[str, Tensor], strict: bool = True, model_cfg: Any = None, args: Any = None
    ) -> Any:
        """Loads the parameters of a checkpoint.

        Raises:
            UserError: naming the first parameter that does not fit, before any is loaded.
        """
        self.upgrade_state_dict(state_dict)
        if strict:
            refuse_mismatch(self, state_dict)
        return super().load_state_dict(state_dict, strict, model_cfg)
