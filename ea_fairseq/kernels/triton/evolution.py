"""Evolving attention's maps on a GPU, forward and backward, each by one launch of a kernel in Triton.

Counted in maps, of a number for each entry, what passes through memory is 5 forward (scores and previous in; logits,
probabilities and the convolution's input out) and 8 backward (four maps in, two gradients out, one map of scratch out
and in). What the taps of a convolution read besides comes from the caches.
"""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor


def is_available() -> bool:
    """Whether there is a Triton that compiles the kernels: 3.5 or later, that of torch 2.9."""
    try:
        major, minor = version("triton").split(".")[:2]
    except PackageNotFoundError:
        return False
    return (int(major), int(minor)) >= (3, 5)


DTYPES = (torch.float32, torch.bfloat16, torch.float16)
AVAILABLE = is_available()


@dataclass(frozen=True)
class Tiling:
    """How maps are divided: all heads of ``band`` queries to a program, ``rows`` by ``columns`` of them to a tile.

    Args:
        rows, columns: powers of 2.
        warps: threads of a program in units of 32, a power of 2 and at most rows * columns / 16.
    """

    band: int
    rows: int
    columns: int
    warps: int

    @classmethod
    def of(cls, heads: int, queries: int, keys: int) -> "Tiling":
        """128 registers to each of 256 threads, so that a multiprocessor holds two programs, and bands of 16 or less,
        so that a batch of a few thousand words occupies them all."""
        positions = max(2048 // padded(heads), 32)
        columns = min(max(power_of_two(keys), 32), positions)
        bands = -(-queries // 16)
        return cls(band=-(-queries // bands), rows=positions // columns, columns=columns, warps=min(positions // 16, 8))


def power_of_two(number: int) -> int:
    """The lowest power of 2 that is not below ``number``."""
    return 1 << (number - 1).bit_length()


def padded(heads: int) -> int:
    """The number of heads that a kernel computes, a power of 2: no matrix product is narrower than 8."""
    return power_of_two(max(heads, 8))


class Launch:
    """What forward and backward tell their kernels alike.

    Args:
        maps: (B, K, T, S); weight: (K, K, k, k) or None; masks: of keys, of queries, of later keys, each or None.
        above, left: rows above and columns left of an entry that the kernel's first tap reads.
    """

    def __init__(
        self,
        maps: Tensor,
        weight: Tensor | None,
        masks: tuple[Tensor | None, Tensor | None, Tensor | None],
        above: int,
        left: int,
        tiling: Tiling | None,
    ):
        from ea_fairseq.kernels.triton import kernels, tiles  # not before they are needed: importing Triton takes time

        self.kernels = kernels
        self.maps = maps
        sentences, heads, queries, keys = maps.shape
        self.tiling = tiling or Tiling.of(heads, queries, keys)
        kernel, above, left = (1, 0, 0) if weight is None else (weight.size(-1), above, left)
        self.sizes = tiles.Sizes(heads, queries, keys, kernel, above, left, self.tiling.band)
        self.masks = tiles.Masks(*(None if mask is None else mask.contiguous().view(torch.uint8) for mask in masks))
        self.programs = sentences * -(-queries // self.tiling.band)
        self.slices = power_of_two(-(-heads * kernel**2 // tiles.SLICE.value))

    def __call__(self, kernel: str, tensors: tuple[Tensor | None, ...], numbers: tuple[float, ...], **options):
        """Runs one program for each band on the device of the maps."""
        tensors = (None if tensor is None else tensor.contiguous() for tensor in tensors)
        with torch.cuda.device_of(self.maps):
            getattr(self.kernels, kernel)[self.programs,](
                *tensors,
                self.masks,
                *numbers,
                *self.sizes,
                rows=self.tiling.rows,
                columns=self.tiling.columns,
                channels=padded(self.sizes.heads),
                precision="tf32x3" if self.maps.dtype == torch.float32 else "tf32",
                num_warps=self.tiling.warps,
                num_stages=1,
                maxnreg=128,
                **options,
            )


def forward(
    scores: Tensor,
    previous: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    padded_keys: Tensor | None,
    padded_queries: Tensor | None,
    later: Tensor | None,
    scale: float,
    alpha: float,
    beta: float,
    above: int,
    left: int,
    tiling: Tiling | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mixes, convolves and normalizes.

    Args:
        scores, previous: (B, K, T, S), both of float32, bfloat16 or float16.
        weight, bias: (K, K, k, k) and (K), or None for no convolution.
        padded_keys: (B, S), padded_queries: (B, T), later: (T, S); true where hidden.
        above, left: rows above and columns left of an entry that the kernel's first tap reads.

    Returns:
        Logits, probabilities and the convolution's input, like scores, and an empty tensor: what the ReLU lets through
        is computed again. Without a convolution its input is empty, too.
    """
    scores = scores.contiguous()
    logits, probabilities = torch.empty_like(scores), torch.empty_like(scores)
    mixed = scores.new_empty(0) if weight is None else torch.empty_like(scores)
    launch = Launch(scores, weight, (padded_keys, padded_queries, later), above, left, tiling)
    launch(
        "evolve",
        (scores, previous if alpha > 0 else None, weight, bias, logits, probabilities, mixed),
        (scale, alpha, beta),
    )
    return logits, probabilities, mixed, scores.new_empty(0, dtype=torch.uint8)


def backward(
    d_logits: Tensor | None,
    d_probabilities: Tensor,
    probabilities: Tensor,
    mixed: Tensor,
    active: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    padded_keys: Tensor | None,
    padded_queries: Tensor | None,
    later: Tensor | None,
    scale: float,
    alpha: float,
    beta: float,
    above: int,
    left: int,
    has_previous: bool,
    tiling: Tiling | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of what :func:`forward` has read, from those of the logits and probabilities it has returned.

    The same input gives the same bits: programs leave their shares of the parameters' gradients side by side.

    Returns:
        Those of scores and previous logits, like ``probabilities``, of weight and bias, in float32, or None.
    """
    launch = Launch(probabilities, weight, (padded_keys, padded_queries, later), above, left, tiling)
    d_scores = torch.empty_like(probabilities)
    d_previous = torch.empty_like(probabilities) if has_previous else None
    scratch = d_weights = d_biases = None
    if weight is not None:
        scratch = torch.empty_like(probabilities)
        d_weights, d_biases = (
            probabilities.new_empty(launch.programs, *parameter.shape, dtype=torch.float32)
            for parameter in (weight, bias)
        )
    launch(
        "evolve_backward",
        (
            d_logits,
            d_probabilities,
            probabilities,
            mixed,
            weight,
            bias,
            scratch,
            d_scores,
            d_previous,
            d_weights,
            d_biases,
        ),
        (scale, alpha, beta),
        slices=launch.slices,
        warps=launch.tiling.warps,
    )
    if weight is None:
        return d_scores, d_previous, None, None
    return d_scores, d_previous, d_weights.sum(0), d_biases.sum(0)
