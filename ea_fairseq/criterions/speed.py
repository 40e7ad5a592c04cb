"""Options of this package's criteria that speed up training: ``--autocast`` and ``--fast-dropout``.

``ea_masked_lm`` and ``ea_sentence_prediction`` are fairseq's criteria with these options.
"""

import logging
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache

import torch
from fairseq.criterions import FairseqCriterion, masked_lm, register_criterion, sentence_prediction
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.tasks import FairseqTask
from omegaconf import II
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ea_fairseq.errors import UserError
from ea_fairseq.kernels.dropout import replace_dropout


@dataclass
class SpeedConfig(FairseqDataclass):
    """``--autocast`` and ``--fast-dropout``, and fairseq's flags of half precision, which exclude autocast."""

    autocast: ChoiceEnum(["none", "bf16"]) = field(  # type: ignore[valid-type]
        default="none",
        metadata={"help": "dtype of model and loss where that is safe; parameters and optimizer stay float32"},
    )
    fast_dropout: bool = field(
        default=False,
        metadata={"help": "draw dropout masks faster on a CPU; for the same seed they differ from fairseq's"},
    )
    fp16: bool = II("common.fp16")
    bf16: bool = II("common.bf16")
    amp: bool = II("common.amp")


class Speed(FairseqCriterion):
    """A mixin that adds these options to a criterion of fairseq; list it before that base."""

    autocast: torch.dtype | None

    def speed_up(self, cfg: SpeedConfig) -> None:
        """Applies the options; ``--fast-dropout`` stays active for the rest of the process.

        Raises:
            UserError: if ``--autocast bf16`` is combined with fairseq's flags of half precision.
        """
        self.autocast = autocast_dtype(cfg)
        if cfg.fast_dropout:
            replace_dropout()

    def forward(self, model: nn.Module, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        """Returns loss, sample size and logging output of a batch, as fairseq's criterion does."""
        device = sample["target"].device.type
        with ExitStack() as contexts:
            if self.autocast:
                contexts.enter_context(torch.autocast(device, self.autocast))
                if device == "cpu":
                    warn_if_slow()
                if device == "cpu" and torch.is_grad_enabled():
                    # The backward pass of torch's flash attention takes six times as long as in float32.
                    contexts.enter_context(sdpa_kernel(SDPBackend.MATH))
            return super().forward(model, sample, reduce)


def autocast_dtype(cfg: SpeedConfig) -> torch.dtype | None:
    """Returns the dtype of ``--autocast``, or None if it is off.

    Raises:
        UserError: if it is combined with fairseq's flags of half precision.
    """
    if cfg.autocast == "none":
        return None
    if cfg.fp16 or cfg.bf16 or cfg.amp:
        raise UserError("--autocast bf16 takes the place of --fp16, --bf16 and --amp: leave those out.")
    return torch.bfloat16


def has_bfloat16() -> bool:
    """Whether torch has fast matrix products in bfloat16 on this processor."""
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


@cache
def warn_if_slow() -> None:
    """Warns once if bfloat16 is slower than float32 on this processor."""
    if not has_bfloat16():
        logging.getLogger(__name__).warning(
            "--autocast bf16: torch has no fast matrix products in bfloat16 on this processor, and training takes "
            "several times as long as in float32: leave the flag out"
        )


@dataclass
class EAMaskedLmConfig(SpeedConfig, masked_lm.MaskedLmConfig):
    """fairseq's options of ``masked_lm``, and of speed."""


@register_criterion("ea_masked_lm", dataclass=EAMaskedLmConfig)
class MaskedLmLoss(Speed, masked_lm.MaskedLmLoss):
    """fairseq's ``masked_lm``; the class has the same name, so that fairseq accepts its checkpoints."""

    def __init__(self, cfg: EAMaskedLmConfig, task: FairseqTask):
        """Raises UserError if ``--autocast bf16`` is combined with fairseq's flags of half precision."""
        super().__init__(cfg, task)
        self.speed_up(cfg)


@dataclass
class EASentencePredictionConfig(SpeedConfig, sentence_prediction.SentencePredictionConfig):
    """fairseq's options of ``sentence_prediction``, and of speed."""


@register_criterion("ea_sentence_prediction", dataclass=EASentencePredictionConfig)
class SentencePredictionCriterion(Speed, sentence_prediction.SentencePredictionCriterion):
    """fairseq's ``sentence_prediction``; the class has the same name, so that fairseq accepts its checkpoints."""

    def __init__(self, cfg: EASentencePredictionConfig, task: FairseqTask):
        """Raises UserError if ``--autocast bf16`` is combined with fairseq's flags of half precision."""
        super().__init__(cfg, task)
        self.speed_up(cfg)
