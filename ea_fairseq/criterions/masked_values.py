"""The criterion ``masked_values``: the mean squared error of masked values of time series (CEAN eq. 8)."""

import math

import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.logging import metrics
from torch import Tensor, nn


@register_criterion("masked_values")
class MaskedValuesCriterion(FairseqCriterion):
    """The mean squared error of the masked values only."""

    def forward(self, model: nn.Module, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        """Returns loss, number of masked values and logging output of a batch.

        Args:
            sample: ``net_input``, ``target`` (B, T, C) and ``masked`` (B, T, C).
            reduce: whether to sum over values.
        """
        predicted, _ = model(**sample["net_input"])
        masked = sample["masked"]
        errors = predicted.float()[masked], sample["target"].float()[masked]
        loss = F.mse_loss(*errors, reduction="sum" if reduce else "none")
        size = max(1, int(masked.sum()))  # a short batch may have no masked values
        figures = {"loss": loss.detach().sum(), "sample_size": size}
        return loss, size, figures | {name: sample[name] for name in ("ntokens", "nsentences")}

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict]) -> None:
        """Logs ``loss``, the mean squared error, and ``rmse``, its root."""
        loss, size = (sum(output[name] for output in logging_outputs) for name in ("loss", "sample_size"))
        metrics.log_scalar("loss", loss / size, size, round=4)
        metrics.log_derived("rmse", lambda meters: math.sqrt(meters["loss"].avg))

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Returns True: several processes may sum the logging outputs."""
        return True
