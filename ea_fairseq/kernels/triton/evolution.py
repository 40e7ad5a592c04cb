"""The step from scores to logits and probabilities on a GPU: one launch of a Triton kernel forward, and one backward.

The memory traffic is that of 5 maps forward (scores and previous logits in; logits, probabilities and the convolution's
input out) and 8 backward (four maps in, two gradients out, one scratch map out and in). The neighbours that a
convolution reads come from the caches.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ea_fairseq.kernels.arguments import FusedArguments, new_gradients


@dataclass(frozen=True)
class Tiling:
    """The division of maps: a program computes all heads of ``band`` queries, in tiles of ``rows`` by ``columns``.

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
        """The tiling for maps of a size, which was the fastest of six on an H100.

        With 128 registers for each of 128 threads, a multiprocessor runs four programs. With bands of at most 16
        queries, a batch of a few thousand tokens occupies all of them.
        """
        positions = max(2048 // padded(heads), 32)
        columns = min(max(power_of_two(keys), 32), positions)
        bands = -(-queries // 16)
        return cls(band=-(-queries // bands), rows=positions // columns, columns=columns, warps=min(positions // 16, 4))


def power_of_two(number: int) -> int:
    """The smallest power of 2 that is at least ``number``."""
    return 1 << (number - 1).bit_length()


def padded(heads: int) -> int:
    """The number of heads that a kernel computes: a power of 2, at least 8 because matrix products are no narrower."""
    return power_of_two(max(heads, 8))


class Launch:
    """The arguments that both kernels take, and their launch.

    Args:
        maps: (B, K, T, S).
    """

    def __init__(self, maps: Tensor, arguments: FusedArguments, tiling: Tiling | None):
        from ea_fairseq.kernels.triton import kernels, tiles  # importing Triton takes time

        self.kernels = kernels
        self.maps = maps
        sentences, heads, queries, keys = maps.shape
        self.tiling = tiling or Tiling.of(heads, queries, keys)
        kernel = arguments.kernel
        self.sizes = tiles.Sizes(heads, queries, keys, kernel, arguments.above, arguments.left, self.tiling.band)
        tensors: list[Any] = [None if tensor is None else tensor.contiguous() for tensor in arguments.tensors]
        tensors = [x.view(torch.uint8) if x is not None and x.dtype is torch.bool else x for x in tensors]
        # Triton recompiles a kernel for special integers in a tuple, so the kernel reads these two from its sizes.
        values: Any = *tensors, arguments.scale, None, None
        self.arguments = FusedArguments(*values)
        self.programs = sentences * -(-queries // self.tiling.band)
        self.slices = power_of_two(-(-heads * kernel**2 // tiles.SLICE.value))

    def __call__(self, kernel: str, *tensors: Tensor | None, **options: int) -> None:
        """Runs one program for each band on the device of the maps."""
        contiguous = (None if tensor is None else tensor.contiguous() for tensor in tensors)
        with torch.cuda.device_of(self.maps):
            getattr(self.kernels, kernel)[self.programs,](
                *contiguous,
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
    """Logits and probabilities of scores (EA eq. 4 and 5).

    Args:
        scores: (B, K, T, S), float32, bfloat16 or float16; previous logits are of the same type.

    Returns:
        Logits, probabilities and the convolution's input, like scores, and an empty tensor, because the backward
        pass recomputes where the ReLU is active. Without a convolution its input is empty, too.
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
    """Gradients of the inputs of :func:`forward`, from those of its logits and probabilities.

    Results are deterministic: programs write their parts of the parameters' gradients side by side.

    Args:
        scores: the input of ``forward``, needed with the previous logits for the gradients of the weights of heads.

    Returns:
        Gradients of scores and previous logits, like ``probabilities``, and of mix, weight, bias and beta, in float32;
        None for those without.
    """
    launch = Launch(probabilities, arguments, tiling)
    d_scores = torch.empty_like(probabilities)
    scratch = None if arguments.weight is None else torch.empty_like(probabilities)
    d_previous, *like = new_gradients(arguments, scores is not None, probabilities)
    parts = [None if x is None else x.new_empty(launch.programs, *x.shape) for x in like]
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
        *parts,
        slices=launch.slices,
        warps=launch.tiling.warps,
    )
    return d_scores, d_previous, *(None if part is None else part.sum(0) for part in parts)
