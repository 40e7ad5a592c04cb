"""Bugs of fairseq that one or two lines fix.

- With ``--adaptive-softmax-cutoff``, ``AdaptiveSoftmax.get_log_prob`` (fairseq/modules/adaptive_softmax.py) adds in
  place to the output of a log-softmax, which autograd has saved for backward. So fairseq's criteria that need all
  log-probabilities end with a RuntimeError; if activations are recomputed, as in ours, gradients are silently wrong.
  Here nothing is written in place.
- On a CPU, ``NGramRepeatBlock._no_repeat_ngram`` (fairseq/ngram_repeat_block.py), for ``--no-repeat-ngram-size``,
  compares earlier tokens with the last ones of rows that the search has filled with padding up to the longest
  hypothesis, so that nothing is ever forbidden (fairseq's issue 5206). Here it sees the tokens so far.
- ``TokenBlockDataset`` (fairseq/data/token_block_dataset.py) with ``--sample-break-mode eos``, and
  ``LanguagePairDataset`` with ``--num-batch-buckets``, use ``np.compat.long``, which NumPy 2 does not have. Here it is
  added.
- ``ConcatTensorMeter`` (fairseq/logging/meters.py) stores the predictions and targets from which
  ``sentence_prediction`` derives correlations, and has no value to log: each validation logs ``pred [] | targ []``.
  Here such meters are left out of what is logged.
- With a second training set (``train1``), ``load_langpair_dataset`` (fairseq/tasks/translation.py) repeats the first
  one ``--upsample-primary`` times, -1 by default, and ends in NumPy's "negative dimensions are not allowed". Here
  ``ConcatDataset`` takes a negative number for 1.
"""

from collections import OrderedDict
from types import SimpleNamespace

import numpy as np
import torch
from fairseq.data import ConcatDataset, FairseqDataset
from fairseq.logging.meters import ConcatTensorMeter, MetersDict
from fairseq.modules import AdaptiveSoftmax
from fairseq.ngram_repeat_block import NGramRepeatBlock
from torch import Tensor

fairseq_log_prob = AdaptiveSoftmax.get_log_prob
fairseq_block = NGramRepeatBlock._no_repeat_ngram
fairseq_values = MetersDict.get_smoothed_values
fairseq_concatenate = ConcatDataset.__init__


def patch_small_bugs() -> None:
    """Replaces four methods by the functions below, and adds ``compat.long``, an int, to NumPy if it is missing."""
    AdaptiveSoftmax.get_log_prob = log_prob
    NGramRepeatBlock._no_repeat_ngram = block
    MetersDict.get_smoothed_values = values_to_log
    ConcatDataset.__init__ = concatenate
    if not hasattr(np, "compat"):
        vars(np)["compat"] = SimpleNamespace(long=int)


def log_prob(self: AdaptiveSoftmax, input: Tensor, target: Tensor | None) -> Tensor:
    """Returns log-probabilities (B, T, V) of features (B, T, C), for all tokens if ``target`` is None."""
    if target is not None or not torch.is_grad_enabled():
        return fairseq_log_prob(self, input, target)
    features = input.flatten(0, 1)
    frequent, *shares = self.lsm(self.head(features)).split([self.cutoff[0], *[1] * len(self.tail)], dim=1)
    rare = (share + self.lsm(tail(features)) for share, tail in zip(shares, self.tail, strict=True))
    return torch.cat([frequent, *rare], dim=1).unflatten(0, input.shape[:2])


def block(self: NGramRepeatBlock, tokens: Tensor, lprobs: Tensor, bsz: int, beam_size: int, step: int) -> Tensor:
    """Sets log-probabilities (B * beam, V) to -inf if a token repeats an n-gram of the tokens (B * beam, longest)."""
    return fairseq_block(self, tokens[:, : step + 1], lprobs, bsz, beam_size, step)


def values_to_log(self: MetersDict) -> OrderedDict[str, float]:
    """Returns the values of the meters that have one."""
    found = fairseq_values(self)
    return OrderedDict((name, value) for name, value in found.items() if not isinstance(self[name], ConcatTensorMeter))


def concatenate(self: ConcatDataset, datasets: list[FairseqDataset], sample_ratios: int | list[int] = 1) -> None:
    """Makes a data set of several, each of them repeated as often as its ratio says."""
    ratios = sample_ratios if isinstance(sample_ratios, int) else [1 if ratio < 0 else ratio for ratio in sample_ratios]
    fairseq_concatenate(self, datasets, ratios)
