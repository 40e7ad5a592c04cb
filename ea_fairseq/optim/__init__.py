"""Optimizers that fairseq does not have, which ``--optimizer`` names."""

from ea_fairseq.optim import torch_optimizers  # noqa: F401
