"""ea_label_smoothed_cross_entropy never holds the logits of a batch, and of float16 no copy in float32."""

import copy

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from criterion_steps import FAIRSEQS, OURS, WORDS, assert_same_step, batch, criterion, model, step
from ea_fairseq.criterions import smoothed_loss


@pytest.fixture(autouse=True)
def chunked(monkeypatch):
    """Chunks as small as these batches."""
    monkeypatch.setattr(smoothed_loss, "CHUNK", 7)


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that torch makes, of one kind or of any."""

    def __init__(self, dtype: torch.dtype | None = None):
        super().__init__()
        self.dtype, self.elements = dtype, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and self.dtype in (None, tensor.dtype):
                self.elements = max(self.elements, tensor.numel())
        return result


def largest(trained, name: str, sample: dict, dtype: torch.dtype | None = None, **options) -> int:
    with Largest(dtype) as seen:
        step(trained, name, sample, **options)
    return seen.elements


@pytest.mark.parametrize("accuracy", [False, True])
def test_the_logits_of_a_batch_are_never_made(accuracy):
    sample = batch(sentences=60, length=3)
    logits = sample["target"].numel() * len(WORDS)
    assert largest(model("transformer"), FAIRSEQS, sample) == logits
    assert largest(model("transformer"), OURS, sample, report_accuracy=accuracy) < logits / 4


def test_no_float32_copy_of_a_batchs_logits_is_made_of_float16():
    sample = batch(sentences=60, length=3)
    half = copy.deepcopy(model()).half()
    logits = sample["target"].numel() * len(WORDS)
    assert largest(half, FAIRSEQS, sample, torch.float32) == logits
    assert largest(half, OURS, sample, torch.float32) < logits / 2
    assert_same_step(half, sample, tolerance=1e-3, scale=128.0)


def test_no_float32_log_probabilities_of_float16_are_kept():
    kept = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.numel() if tensor.dtype == torch.float32 and tensor.size(-1) == len(WORDS) else 0)
        return tensor

    sample = batch(sentences=60, length=3)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        criterion(OURS)(copy.deepcopy(model()).half(), sample)
    assert sum(kept) < sample["target"].numel() * len(WORDS) / 4
