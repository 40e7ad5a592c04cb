"""Real data of encoders, for the tests that need it: EA_FAIRSEQ_ENCODER_TASKS names its folder."""

import os
from pathlib import Path

import pytest

from commands import ROOT

FOLDER = "shared/data/encoder-tasks"
BESIDE = next((parent / FOLDER for parent in ROOT.parents if (parent / FOLDER).is_dir()), None)
ENCODER_TASKS = Path(os.environ.get("EA_FAIRSEQ_ENCODER_TASKS", BESIDE or ROOT.parent / FOLDER))


def needs(path: str) -> pytest.MarkDecorator:
    """Skips a test where a file of the folder is not there."""
    return pytest.mark.skipif(
        not (ENCODER_TASKS / path).is_file(), reason=f"set EA_FAIRSEQ_ENCODER_TASKS to a folder that has {path}"
    )
