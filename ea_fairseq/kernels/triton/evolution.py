"""Evolving attention's maps on a GPU, forward and backward, each by one launch of a kernel in Triton.

Counted in maps, of a number for each entry, what passes through memory is 5 forward (scores and previous in; logits,
probabilities and the convolution's input out) and 8 backward (four maps in, two gradients out, one map of scratch out
and in). What the taps of a convolution read besides comes from the caches.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ea_fairseq.kernels.arguments import FusedArguments, new_gradients


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
    @lru_cache(maxsize=4096)
    def of(cls, heads: int, queries: int, keys: int) -> "Tiling":
        """128 registers to each of 128 threads, so that a multiprocessor holds four programs, and bands of 16 or less,
        so that a batch of a few thousand words occupies them all. On an H100 these were the fastest of six."""
        positions = max(2048 // padded(heads), 32)
        columns = min(max(power_of_two(keys), 32), positions)
        bands = -(-queries // 16)
        return cls(band=-(-queries // bands), rows=positions // columns, columns=columns, warps=min(positions // 16, 4))


def power_of_two(number: int) -> int:
    """The lowest power of 2 that is not below ``number``."""
    return 1 << (number - 1).bit_length()


def padded(heads: int) -> int:
    """The number of heads that a kernel computes, a power of 2: no matrix product is narrower than 8."""
    return power_of_two(max(heads, 8))


class Launch:
    """What forward and backward tell their kernels alike.

    Args:
        maps: (B, K, T, S).
    """

    def __init__(self, maps: Tensor, arguments: FusedArguments, tiling: Tiling | None):
        from ea_fairseq.kernels.triton import kernels, tiles  # not before they are needed: importing Triton takes time

        self.kernels = kernels
        self.maps = maps
        sentences, heads, queries, keys = maps.shape
        self.tiling = tiling or Tiling.of(heads, queries, keys)
        kernel = arguments.kernel
        self.sizes = tiles.Sizes(heads, queries, keys, kernel, arguments.above, arguments.left, self.tiling.band)
        tensors = (None if tensor is None else tensor.contiguous() for tensor in arguments.tensors)
        tensors = (x.view(torch.uint8) if x is not None and x.dtype is torch.bool else x for x in tensors)
        # A kernel would be compiled anew for some whole numbers of a tuple: these two it reads from its sizes.
        self.arguments = FusedArguments(*tensors, *arguments.scalars)._replace(above=None, left=None)
        self.programs = sentences * -(-queries // self.tiling.band)
        self.slices = power_of_two(-(-heads * kernel**2 // tiles.SLICE.value))

    def __call__(self, kernel: str, *tensors: Tensor | None, **options):
        """Runs one program for each band on the device of the maps."""
        tensors = (None if tensor is None else tensor.contiguous() for tensor in tensors)
        with torch.cuda.device_of(self.maps):
            getattr(self.kernels, kernel)[self.programs,](
                *tensors,
                self.arguments,
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
    scores: Tensor, arguments: FusedArguments, tiling: Tiling | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mixes, convolves and normalizes.

    Args:
        scores: (B, K, T, S), float32, bfloat16 or float16; previous logits are of the same type.

    Returns:
        Logits, probabilities and the convolution's input, like scores, and an empty tensor: what the ReLU passes on is
        computed again. Without a convolution its input is empty, too.
    """
    scores = scores.contiguous()
    logits, probabilities = torch.empty_like(scores), torch.empty_like(scores)
    conv_input = scores.new_empty(0) if arguments.weight is None else torch.empty_like(scores)
    Launch(scores, arguments, tiling)("evolve", scores, logits, probabilities, conv_input)
    return logits, probabilities, conv_input, scores.new_empty(0, dtype=torch.uint8)


def backward(
    d_logits: Tensor | None,
    d_probabilities: Tensor,
    probabilities: Tensor,
    conv_input: Tensor,
    relu_mask: Tensor,
    scores: Tensor | None,
    arguments: FusedArguments,
    tiling: Tiling | None = None,
) -> tuple[Tensor | None, ...]:
    """Gradients of what :func:`forward` has read, from those of the logits and probabilities it has returned.

    The same input gives the same bits: programs leave their shares of the parameters' gradients side by side.

    Args:
        scores: what ``forward`` has read, and previous logits with them, if the weights of heads have gradients.

    Returns:
        Those of scores and previous logits, like ``probabilities``, and of mix, weight, bias and beta, in float32; None
        where there is none.
    """
    launch = Launch(probabilities, arguments, tiling)
    d_scores = torch.empty_like(probabilities)
    scratch = None if arguments.weight is None else torch.empty_like(probabilities)
    d_previous, *like = new_gradients(arguments, scores is not None, probabilities)
    shares = [None if x is None else x.new_empty(launch.programs, *x.shape) for x in like]
    launch(
        "evolve_backward",
        d_logits,
        d_probabilities,
        probabilities,
        conv_input,
        scores,
        scratch,
        d_scores,
        d_previous,
        *shares,
        slices=launch.slices,
        warps=launch.tiling.warps,
    )
    return d_scores, d_previous, *(None if share is None else share.sum(0) for share in shares)
