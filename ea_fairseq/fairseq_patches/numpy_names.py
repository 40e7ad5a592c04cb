"""Sentences can be blocks of their own with NumPy 2.

``TokenBlockDataset`` (fairseq/data/token_block_dataset.py) with ``--sample-break-mode eos``, and
``LanguagePairDataset`` where sizes depend on batches, ask NumPy for ``np.compat.long``, which NumPy 2 does not have.
Here it is given the name.
"""

from types import SimpleNamespace

import numpy as np


def patch_numpy() -> None:
    """Gives NumPy ``compat.long``, an int, where it has none."""
    if not hasattr(np, "compat"):
        vars(np)["compat"] = SimpleNamespace(long=int)
