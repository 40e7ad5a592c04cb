"""Models of time series: an encoder of steps, and what is read out of its representation."""

import logging
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

import torch.nn.functional as F
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ea_fairseq.errors import UserError
from ea_fairseq.models.state_dict import refuse_mismatch
from ea_fairseq.models.time_series_options import TimeSeriesOptions
from ea_fairseq.options import Options
from ea_fairseq.series.description import SeriesDescription

logger = logging.getLogger(__name__)
OUTPUTS = ("classification_heads.", "value_head.")  # how the names of parameters begin that tasks add


class Readout(nn.Linear):
    """GELU, dropout, and a linear layer of all steps side by side, padding being zero.

    Args:
        longest: N, the most steps of a series.
        width: d channels of a step.
        outputs: numbers that it returns.
    """

    def __init__(self, longest: int, width: int, outputs: int, dropout: float):
        super().__init__(longest * width, outputs)
        self.longest, self.dropout = longest, nn.Dropout(dropout)

    def forward(self, x: Tensor, padding_mask: Tensor) -> Tensor:  # type: ignore[override]
        """(B, T, d) and its padding (B, T) -> (B, outputs)"""
        x = self.dropout(F.gelu(x)).masked_fill(padding_mask.unsqueeze(-1), 0.0)
        return super().forward(F.pad(x, (0, 0, 0, self.longest - x.size(1))).flatten(1))


class TimeSeriesModel(BaseFairseqModel):
    """An encoder, to which tasks add what they train: classification heads, or a linear layer to values.

    Args:
        args: the model's options.
        encoder: maps series (B, T, C) and their padding (B, T) to a representation (B, T, d).
        description: of the data set.
    """

    options: ClassVar[type[TimeSeriesOptions]] = TimeSeriesOptions

    def __init__(self, args: Any, encoder: nn.Module, description: SeriesDescription):
        super().__init__()
        self.args, self.encoder, self.description = args, encoder, description
        self.classification_heads = nn.ModuleDict()
        self.value_head: nn.Module | None = None

    @classmethod
    def description_of(cls, args: Any, task: FairseqTask) -> SeriesDescription:
        """
        Raises:
            UserError: where the task has no time series.
        """
        if not hasattr(task, "description"):
            raise UserError(f"--arch {args.arch} is for --task time_series_prediction and masked_time_series")
        return task.description

    def register_classification_head(self, name: str, outputs: int) -> None:
        """Adds a read-out of so many numbers."""
        options = self.options.from_namespace(self.args)
        self.classification_heads[name] = Readout(self.description.longest, options.width, outputs, options.dropout)

    def register_value_head(self) -> None:
        """Adds the linear layer from the representation of a step to its values (CEAN eq. 7)."""
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
            source: (B, T, C); padding_mask: (B, T), true at padding, which comes last.

        Returns:
            Values (B, T, C), the representation (B, T, d) or what a head returns, (B, outputs); and an empty
            dictionary, for criteria of fairseq.
        """
        x = self.encoder(source, padding_mask)
        if classification_head_name is not None:
            return self.classification_heads[classification_head_name](x, padding_mask), {}
        if not features_only and self.value_head is not None:
            x = self.value_head(x)
        return x, {}

    def max_positions(self) -> int:
        """The most steps of a series."""
        return self.description.longest

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Lets what this model's task trains start anew where the checkpoint was trained for another task."""
        super().upgrade_state_dict_named(state_dict, name)
        own = {key: tensor for key, tensor in self.state_dict().items() if key.startswith(OUTPUTS)}
        others = [key for key in state_dict if key.startswith(OUTPUTS)]
        if own and others and own.keys().isdisjoint(others):
            parameters = sum(map(Tensor.numel, own.values()))
            logger.info(f"the checkpoint was trained for another task: {parameters:,} parameters of this one's are new")
            for key in others:
                del state_dict[key]
            state_dict.update(own)

    def load_state_dict(
        self, state_dict: dict[str, Tensor], strict: bool = True, model_cfg: Any = None, args: Any = None
    ) -> Any:
        """
        Raises:
            UserError: naming the first parameter that does not fit, before any is loaded.
        """
        self.upgrade_state_dict(state_dict)
        if strict:
            refuse_mismatch(self, state_dict)
        return super().load_state_dict(state_dict, strict, model_cfg)


def set_options(args: Any, classes: tuple[type[Options], ...], defaults: Mapping[str, object]) -> None:
    """Sets the options that are not given, to those of an architecture, so that a checkpoint tells all of them."""
    for opt in (opt for options in classes for opt in fields(options)):
        setattr(args, opt.name, getattr(args, opt.name, defaults.get(opt.name, opt.default)))
