"""Optimizers that fairseq does not have, which ``--optimizer`` names."""

from ea_fairseq.optim import radam  # noqa: F401
