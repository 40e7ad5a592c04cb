"""Graphs whose nodes have features and classes: their files, what checkpoints record of them, and batches."""

import ea_fairseq.plugin  # noqa: F401  before anything here uses fairseq
