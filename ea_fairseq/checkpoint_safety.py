"""Lets fairseq's checkpoints load while torch still refuses every class it was not told about.

torch >= 2.6 loads with ``weights_only=True``. ``argparse.Namespace``, which holds the model's options, is the one
class in a translation checkpoint that torch does not know; it runs no code when it is loaded.
"""

import argparse

import torch

torch.serialization.add_safe_globals([argparse.Namespace])
