"""What the tests of fairseq's console commands start from."""

import gc
import os
import signal

import pytest
import torch
from hypothesis import settings

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton

import ea_fairseq.plugin  # noqa: F401  its models, tasks and criterions
from ea_fairseq.kernels import self_check
from reversal import binarize

# A shell that starts the tests in the background lets all they start ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes depends on what else the machine does.
settings.register_profile("on any machine", settings.default, deadline=None)
settings.load_profile("on any machine")


def pytest_collection_finish():
    """Garbage is not looked for among what is imported and collected by now, which stays to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def trusted_kernels(monkeypatch):
    """Tests compare kernels in Triton themselves; that a process checks them first is in kernels/test_self_check.py."""
    monkeypatch.setattr(self_check, "passes", lambda *args: True)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A user's folder, with binarized data for reversing sentences in 'my data', a path with a space."""
    return binarize(tmp_path_factory.mktemp("user"))
