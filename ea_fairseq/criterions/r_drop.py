"""The criterion ``r_drop``: Wu et al., R-Drop: Regularized Dropout for Neural Networks, NeurIPS 2021."""

import math
from dataclasses import dataclass, field

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
    label_smoothed_nll_loss,
)
from fairseq.logging import metrics
from torch import Tensor, nn

from ea_fairseq.criterions.speed import Speed, SpeedConfig
from ea_fairseq.user_error import UserError


@dataclass
class RDropConfig(SpeedConfig, LabelSmoothedCrossEntropyCriterionConfig):
    """fairseq's options of label smoothing, those of speed, and the weight of the divergence."""

    r_drop_alpha: float = field(
        default=5.0,
        metadata={
            "help": "weight of the divergence of two passes, which differ in what dropout leaves out (R-Drop eq. 5)"
        },
    )


@register_criterion("r_drop", dataclass=RDropConfig)
class RDropCriterion(Speed, LabelSmoothedCrossEntropyCriterion):
    """Label-smoothed cross-entropy of two passes over a batch, and how far apart their predictions are.

    Training takes twice the time of ``label_smoothed_cross_entropy``, which validation is. The loss is half of the
    paper's, so that it is of the size of one pass: gradients that are clipped, or a penalty of weights, mean the same.
    """

    def __init__(self, task, cfg: RDropConfig):
        """Raises UserError where the weight is negative or no number, or ``--autocast`` meets fairseq's own flags."""
        super().__init__(task, cfg.sentence_avg, cfg.label_smoothing, cfg.ignore_prefix_size, cfg.report_accuracy)
        if not 0 <= cfg.r_drop_alpha < math.inf:
            raise UserError(f"--r-drop-alpha must be a number of at least 0, not {cfg.r_drop_alpha}")
        self.speed_up(cfg)
        self.alpha, self.divergence = cfg.r_drop_alpha, None

    def forward(self, model: nn.Module, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        """Loss, sample size and logged figures of a batch; in training of both passes, each half."""
        if not model.training or not reduce:
            return super().forward(model, sample, reduce)
        inputs = {name: twice(value) for name, value in sample["net_input"].items()}
        loss, size, figures = super().forward(model, {**sample, "net_input": inputs, "target": twice(sample["target"])})
        figures["nsentences"] //= 2
        if self.sentence_avg:
            size = figures["sample_size"] = size // 2
        return loss, size, {**figures, "divergence": self.divergence}

    def compute_loss(self, model, net_output, sample: dict, reduce: bool = True) -> tuple[Tensor, Tensor]:
        """Loss and negative log-likelihood in nats, summed over words; in training the mean of both passes."""
        if not model.training or not reduce:
            return super().compute_loss(model, net_output, sample, reduce)
        lprobs, target = self.get_lprobs_and_target(model, net_output, sample)
        loss, nll = label_smoothed_nll_loss(lprobs, target, self.eps, ignore_index=self.padding_idx)
        first, second = lprobs.chunk(2)
        words = target.chunk(2)[0].ne(self.padding_idx).unsqueeze(-1)
        # KL(P1 || P2) + KL(P2 || P1) = sum of (P1 - P2) (log P1 - log P2)
        apart = ((first.exp() - second.exp()) * (first - second)).masked_fill(~words, 0.0).sum()
        divergence = apart / 2  # R-Drop eq. 4
        self.divergence = divergence.detach()
        return (loss + self.alpha * divergence) / 2, nll / 2

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict]) -> None:
        """Logs fairseq's figures and, of trainings, ``divergence``, in bits per word."""
        super().reduce_metrics(logging_outputs)
        if any("divergence" in output for output in logging_outputs):
            total, words = (
                sum(output.get(name, 0) for output in logging_outputs) for name in ("divergence", "ntokens")
            )
            metrics.log_scalar("divergence", total / words / math.log(2), words, round=3)


def twice(value):
    """A tensor whose first dimension is the batch, behind itself; anything else as it is."""
    return torch.cat([value, value]) if isinstance(value, Tensor) else value
