"""The devices that tests of precision run on, as parameters for pytest."""

import pytest
import torch

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA"))
DEVICES = ["cpu", CUDA]
