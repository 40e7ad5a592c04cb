"""The option ``--autocast`` of our criteria: bfloat16 where torch's autocast allows it, on a CPU, too."""

from contextlib import ExitStack
from dataclasses import dataclass, field

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from omegaconf import II
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ea_fairseq.user_error import UserError


@dataclass
class AutocastConfig(FairseqDataclass):
    """``--autocast``, and fairseq's own flags of half precision, which cannot stand beside it."""

    autocast: ChoiceEnum(["none", "bf16"]) = field(
        default="none",
        metadata={"help": "what model and loss compute in where that is safe; parameters and optimizer stay float32"},
    )
    fp16: bool = II("common.fp16")
    bf16: bool = II("common.bf16")
    amp: bool = II("common.amp")


class Autocast:
    """What stands before a criterion of fairseq as a base, so that it runs under ``autocast``, a dtype or None."""

    autocast: torch.dtype | None

    def forward(self, model: nn.Module, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        """Loss, sample size and logged figures of a batch, as fairseq's."""
        device = sample["target"].device.type
        with ExitStack() as contexts:
            if self.autocast:
                contexts.enter_context(torch.autocast(device, self.autocast))
                if device == "cpu":  # torch's flash attention takes six times as long for gradients as in float32
                    contexts.enter_context(sdpa_kernel(SDPBackend.MATH))
            return super().forward(model, sample, reduce)


def autocast_dtype(cfg: AutocastConfig) -> torch.dtype | None:
    """The dtype that ``--autocast`` names, None where it is off.

    Raises:
        UserError: where it meets fairseq's own flags of half precision.
    """
    if cfg.autocast == "none":
        return None
    if cfg.fp16 or cfg.bf16 or cfg.amp:
        raise UserError("--autocast bf16 takes the place of --fp16, --bf16 and --amp: leave those out.")
    return torch.bfloat16
