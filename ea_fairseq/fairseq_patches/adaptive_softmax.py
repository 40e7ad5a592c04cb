"""With ``--adaptive-softmax-cutoff`` gradients of log-probabilities are right.

``AdaptiveSoftmax.get_log_prob`` (fairseq/modules/adaptive_softmax.py) adds in place to the output of a log-softmax,
which autograd has kept for its gradient. So fairseq's criteria of all words end with a RuntimeError, and where
activations are recomputed, as in ours, nothing notices and the gradients are wrong. Here nothing is written in place.
"""

import torch
from fairseq.modules import AdaptiveSoftmax
from torch import Tensor

fairseq_log_prob = AdaptiveSoftmax.get_log_prob


def patch_adaptive_softmax() -> None:
    """Replaces ``AdaptiveSoftmax.get_log_prob`` by the function below."""
    AdaptiveSoftmax.get_log_prob = log_prob


def log_prob(self: AdaptiveSoftmax, input: Tensor, target: Tensor | None) -> Tensor:
    """Log-probabilities (B, T, V) of features (B, T, C), those of all words where ``target`` is None."""
    if target is not None or not torch.is_grad_enabled():
        return fairseq_log_prob(self, input, target)
    features = input.flatten(0, 1)
    frequent, *shares = self.lsm(self.head(features)).split([self.cutoff[0], *[1] * len(self.tail)], dim=1)
    rare = (share + self.lsm(tail(features)) for share, tail in zip(shares, self.tail, strict=True))
    return torch.cat([frequent, *rare], dim=1).unflatten(0, input.shape[:2])
