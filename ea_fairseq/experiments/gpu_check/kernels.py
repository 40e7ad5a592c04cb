"""Compares every kind of kernel with PyTorch in float64, at the papers' two sizes, from 1 to 512 tokens."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ea_fairseq.experiments.gpu_check.rows import Row
from ea_fairseq.experiments.gpu_check.settings import SIZES, Settings, in_processes
from ea_fairseq.kernels.cpu import native_library
from ea_fairseq.kernels.evolve import dtypes, kernels
from ea_fairseq.kernels.kind import Kind
from ea_fairseq.kernels.sample_maps import SampleMaps
from ea_fairseq.kernels.self_check import first_line
from ea_fairseq.kernels.triton.evolution import Tiling
from ea_fairseq.kernels.window import WINDOWS

HEADS = {"lite": 4, "base": 8}
TOKENS = 2048  # in a batch
PADDING = ("padded_keys", "padded_queries")


@dataclass(frozen=True)
class Attention:
    """An attention of a model with kernels for its maps.

    Args:
        kind: ``encoder``, ``decoder`` or ``cross``.
        kernel: size of its convolution, or 0 without one.
        has_previous: whether it reads the logits of the layer below.
        is_learned: whether the weights of heads get gradients.
    """

    name: str
    kind: str
    kernel: int
    has_previous: bool = False
    is_learned: bool = False

    def operands(self) -> tuple[str, ...]:
        """Names the further tensors that its kernels take."""
        masks = {"encoder": PADDING, "decoder": ("future",), "cross": ("padded_keys",)}[self.kind]
        return (*masks, *(["previous"] * self.has_previous))

    def of_step(self, step: str, dtype: torch.dtype, heads: int, length: int) -> Kind:
        """Returns the kind of kernel for maps of a length; a map that the next layer reads has a gradient, too."""
        left, _, above, _ = WINDOWS[self.kind].padding(self.kernel or 1)
        tiling = Tiling.of(heads, length, length)
        operands = self.operands() + ("d_logits",) * (step == "backward" and self.has_previous)
        sizes, is_learned = (heads, self.kernel, above, left), self.is_learned and step == "backward"
        return Kind(step, dtype, *sizes, operands, is_learned, tiling.rows, tiling.columns, tiling.warps)


ATTENTIONS = (
    Attention("encoder, layer 1", "encoder", 3),
    Attention("encoder, further layers", "encoder", 3, has_previous=True),
    Attention("decoder", "decoder", 3),
    Attention("encoder-decoder", "cross", 3),
    Attention("encoder, --ea-learned", "encoder", 3, has_previous=True, is_learned=True),
    Attention("encoder, 5x5", "encoder", 5, has_previous=True),
    Attention("encoder, RealFormer", "encoder", 0, has_previous=True),
    Attention("decoder, RealFormer", "decoder", 0, has_previous=True),
)


def check(settings: Settings) -> Iterator[Row]:
    """Yields a row for each dtype, size and attention; several processes compile at once."""
    if not settings.on_gpu and native_library.LIBRARY is None:
        yield Row(f"none on this CPU: {native_library.WHY_NOT}")
        return
    cases = [
        (attention, dtype, size, settings)
        for dtype in dtypes(settings.device.type)
        for size in SIZES
        for attention in ATTENTIONS
    ]
    yield from in_processes(compare, cases)


def lengths(dtype: torch.dtype, settings: Settings) -> tuple[int, ...]:
    """Returns sentence lengths that cover each tile width of the kernels."""
    if not settings.on_gpu:
        return (1, 2, 15, 30)
    return (1, 2, 15, 30, 64, 100, 257, 512) if dtype is torch.float32 else (2, 30, 64, 512)


def compare(attention: Attention, dtype: torch.dtype, size: str, settings: Settings) -> Row:
    """Runs an attention forward and backward at all lengths; reports the largest error relative to the allowed one."""
    name = f"{SIZES[size]}, {str(dtype).removeprefix('torch.')}, {attention.name}"
    found: dict[str, str] = {}
    for step in ("forward", "backward"):
        worst = 0.0
        for length in lengths(dtype, settings):
            kind = attention.of_step(step, dtype, HEADS[size], length)
            maps = SampleMaps.of(kind, settings.device, (max(3, TOKENS // length), length, length))
            try:
                differences = maps.differences(run(maps, settings))
            except Exception as error:
                return Row(
                    name, found, f"{step} fails at {length} tokens ({type(error).__name__}: {first_line(error)})"
                )
            for difference in differences:
                if not difference.is_rounding:
                    return Row(name, found, f"{step} at {length} tokens {difference}")
                worst = max(worst, difference.largest / difference.allowed if difference.allowed else 0.0)
        found[f"{step}, error / allowed"] = f"{worst:.2f}"
    return Row(name, found)


def run(maps: SampleMaps, settings: Settings) -> tuple[torch.Tensor | None, ...]:
    """Runs the device's kernels; native code keeps data for its backward pass that PyTorch does not."""
    module = kernels(settings.device.type)
    kept = None if settings.on_gpu else module.forward(maps.scores, maps.arguments)[1:]
    found = maps.compute(module, kept if maps.kind.step == "backward" else None)
    settings.synchronize()
    return found
