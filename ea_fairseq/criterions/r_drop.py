"""The criterion ``r_drop``: Wu et al., R-Drop: Regularized Dropout for Neural Networks, NeurIPS 2021."""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ea_fairseq.criterions.label_smoothed_cross_entropy import (
    EALabelSmoothedCrossEntropyConfig,
    LabelSmoothedCrossEntropyCriterion,
    has_features,
    output_weight,
    product_dtype,
)
from ea_fairseq.criterions.smoothed_loss import chunked_loss, loss_and_grad_
from ea_fairseq.errors import UserError


@dataclass
class RDropConfig(EALabelSmoothedCrossEntropyConfig):
    """fairseq's options of label smoothing, those of speed, and the weight of the divergence."""

    r_drop_alpha: float = field(
        default=5.0,
        metadata={"help": "weight of the divergence of two passes that differ in their dropout masks (R-Drop eq. 5)"},
    )


@register_criterion("r_drop", dataclass=RDropConfig)
class RDropCriterion(LabelSmoothedCrossEntropyCriterion):
    """Label-smoothed cross-entropy of two passes over a batch, and the divergence of their predictions.

    Training takes twice the time of ``label_smoothed_cross_entropy``; validation computes only that. The loss is half
    of the paper's, so that it is on the scale of one pass, and gradient clipping and weight decay have the same effect.
    """

    def __init__(self, task: FairseqTask, cfg: RDropConfig):
        """Raises UserError if the weight is negative or no number, or ``--autocast`` conflicts with fairseq's flags."""
        super().__init__(task, cfg)
        if not 0 <= cfg.r_drop_alpha < math.inf:
            raise UserError(f"--r-drop-alpha must be a number of at least 0, not {cfg.r_drop_alpha}")
        self.alpha = cfg.r_drop_alpha
        self.divergence: Tensor | None = None

    def forward(self, model: nn.Module, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        """Returns loss, sample size and logging output of a batch; in training, the mean of both passes."""
        if not model.training or not reduce:
            return super().forward(model, sample, reduce)
        inputs = {name: twice(value) for name, value in sample["net_input"].items()}
        loss, size, figures = super().forward(model, {**sample, "net_input": inputs, "target": twice(sample["target"])})
        figures["nsentences"] //= 2
        if self.sentence_avg:
            size = figures["sample_size"] = size // 2
        return loss, size, {**figures, "divergence": self.divergence}

    def compute_loss(
        self, model: nn.Module, net_output: tuple, sample: dict, reduce: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Returns loss and negative log-likelihood in nats, summed over words; in training, the mean of both passes."""
        if not model.training or not reduce:
            return super().compute_loss(model, net_output, sample, reduce)
        if has_features(sample):
            weight = output_weight(model)
            assert weight is not None  # otherwise the model returns logits
            features, target = (interleave(rows) for rows in self.unpadded(net_output, sample))
            loss_of = partial(two_pass_loss_and_grad_, eps_i=self.eps / (len(weight) - 1), alpha=self.alpha)
            loss, nll, self.divergence = chunked_loss(features, weight, target, loss_of, product_dtype(weight))
            return loss / 2, nll / 2
        lprobs, target = self.get_lprobs_and_target(model, net_output, sample)
        loss, nll = label_smoothed_nll_loss(lprobs, target, self.eps, ignore_index=self.padding_idx)
        first, second = lprobs.chunk(2)
        tokens = target.chunk(2)[0].ne(self.padding_idx).unsqueeze(-1)
        # KL(P1 || P2) + KL(P2 || P1) = sum of (P1 - P2) (log P1 - log P2)
        symmetric_kl = ((first.exp() - second.exp()) * (first - second)).masked_fill(~tokens, 0.0).sum()
        divergence = symmetric_kl / 2  # R-Drop eq. 4
        self.divergence = divergence.detach()
        return (loss + self.alpha * divergence) / 2, nll / 2

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict]) -> None:
        """Logs fairseq's figures and, in training, ``divergence`` in bits per word."""
        super().reduce_metrics(logging_outputs)
        if any("divergence" in output for output in logging_outputs):
            total, words = (
                sum(output.get(name, 0) for output in logging_outputs) for name in ("divergence", "ntokens")
            )
            metrics.log_scalar("divergence", total / words / math.log(2), words, round=3)


def twice(value: Any) -> Any:
    """Concatenates a tensor with itself along the batch dimension; returns other values unchanged."""
    return torch.cat([value, value]) if isinstance(value, Tensor) else value


def interleave(rows: Tensor) -> Tensor:
    """Interleaves the rows of two passes, (2R, ...), so that each token's two rows are neighbours."""
    return rows.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1)


def two_pass_loss_and_grad_(
    log_probs: Tensor, target: Tensor, d_logits: Tensor, eps_i: float, alpha: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Writes the gradient of R-Drop's loss for pairs of rows; returns the sums of loss, likelihood and divergence.

    For a pair P and Q, the divergence is that of R-Drop eq. 4, (KL(P || Q) + KL(Q || P)) / 2. Its gradient with
    respect to the logits of P is (P (log P/Q - KL(P || Q)) + P - Q) / 2.

    Args:
        log_probs, target, d_logits, eps_i: as for ``loss_and_grad_``, two rows for each word.
        alpha: weight of the divergence in the loss.
    """
    log_p, log_q = log_probs.unflatten(0, (-1, 2)).unbind(1)
    log_ratio, p, q = log_p - log_q, log_p.exp(), log_q.exp()
    difference = p - q
    loss, nll = loss_and_grad_(log_probs, target, d_logits, eps_i)
    divergence = loss.new_zeros(())
    for pair, (probs, sign) in enumerate(((p, 1), (q, -1))):
        weighted = probs * log_ratio
        kl = weighted.sum(1, keepdim=True)
        weighted.addcmul_(probs, kl, value=-1).add_(difference)
        d_logits[pair::2].add_(weighted, alpha=sign * alpha / 2)
        divergence = divergence + sign * kl.sum() / 2
    return loss + alpha * divergence, nll, divergence
