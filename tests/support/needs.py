"""What some tests need of a machine beyond the project: programs, devices and others' data; without, they are skipped.

Environment variables name the folders of data: EA_FAIRSEQ_MOSES, EA_FAIRSEQ_IMAGES, EA_FAIRSEQ_GRAPHS and
EA_FAIRSEQ_ENCODER_TASKS.
"""

import os
import shutil
from pathlib import Path

import pytest
import torch

from commands import ROOT
from ea_fairseq.experiments.demo.pictures import CHROMEDRIVER, CHROMIUM

# Programs ------------------------------------------------------------------------------------------------------------

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
COMPILER = next(filter(None, map(shutil.which, (*COMPILERS, "cc"))), None)
needs_compiler = pytest.mark.skipif(not COMPILER, reason="needs a C compiler: gcc, clang or cc")
needs_browser = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="needs Chromium: apt-get install chromium chromium-driver"
)
MOSES = os.environ.get("EA_FAIRSEQ_MOSES")
needs_moses = pytest.mark.skipif(
    not MOSES, reason="needs perl and Moses: set EA_FAIRSEQ_MOSES to a checkout of github.com/moses-smt/mosesdecoder"
)

# Devices, as parameters for pytest -----------------------------------------------------------------------------------

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA"))
DEVICES = ["cpu", CUDA]

# Data ----------------------------------------------------------------------------------------------------------------

CIFAR10 = Path(os.environ.get("EA_FAIRSEQ_IMAGES") or ROOT.parent / "shared/data/images")
needs_cifar10 = pytest.mark.skipif(
    not (CIFAR10 / "train.tar.gz").is_file(), reason="set EA_FAIRSEQ_IMAGES to a folder that has train.tar.gz"
)
GRAPHS = Path(os.environ.get("EA_FAIRSEQ_GRAPHS") or ROOT.parent / "shared/data/graphs")
needs_graphs = pytest.mark.skipif(
    not (GRAPHS / "cora/nodes.tsv").is_file(), reason="set EA_FAIRSEQ_GRAPHS to a folder that has cora/nodes.tsv"
)
FOLDER = "shared/data/encoder-tasks"
BESIDE = next((parent / FOLDER for parent in ROOT.parents if (parent / FOLDER).is_dir()), None)
ENCODER_TASKS = Path(os.environ.get("EA_FAIRSEQ_ENCODER_TASKS", BESIDE or ROOT.parent / FOLDER))


def needs_file(path: str) -> pytest.MarkDecorator:
    """Skips a test where a file of ENCODER_TASKS is not there."""
    return pytest.mark.skipif(
        not (ENCODER_TASKS / path).is_file(), reason=f"set EA_FAIRSEQ_ENCODER_TASKS to a folder that has {path}"
    )
