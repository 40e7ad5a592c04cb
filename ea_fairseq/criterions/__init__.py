"""Criteria: training losses, which ``--criterion`` names."""

from ea_fairseq.criterions import label_smoothed_cross_entropy, masked_values, r_drop, sentence_prediction  # noqa: F401
