"""What is used of fairseq's data, imported by way of ea_fairseq, which takes two thirds of the time."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import ea_fairseq  # noqa: F401, I001  before fairseq
from fairseq.data import Dictionary
from fairseq.data.data_utils import infer_language_pair, load_indexed_dataset

__all__ = ["Dictionary", "infer_language_pair", "load_indexed_dataset"]
