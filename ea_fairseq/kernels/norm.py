"""Root mean square norms and rotations of vectors, in one pass: the operator ``ea_fairseq::norm`` for CPUs."""

from typing import Any

import torch
from torch import Tensor, library

from ea_fairseq.kernels.arguments import readable, refuse_second_derivatives
from ea_fairseq.kernels.cpu import DTYPES
from ea_fairseq.kernels.cpu.call import addresses, run
from ea_fairseq.kernels.cpu.interface import FUNCTIONS

ROWS_PER_TASK = 128
MAX_WIDTH = 1 << 16  # a task has two vectors on its stack
SETTINGS = "Tensor x, Tensor? weight, Tensor? rotations, int vectors, int width, float eps, ScalarType dtype"
library.define("ea_fairseq::norm", f"({SETTINGS}) -> Tensor")
library.define("ea_fairseq::norm_backward", f"(Tensor d_y, {SETTINGS}) -> (Tensor d_x, Tensor d_weight)")


def norm(
    x: Tensor,
    weight: Tensor | None,
    rotations: Tensor | None,
    vectors: int,
    width: int,
    eps: float,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Divides vectors by their root mean square, multiplies them by a weight, and rotates their pairs.

    Args:
        x: (T, ..., C), of which the first n vectors of ``width`` elements d change; float32 or bfloat16.
        weight: (g, d), of n / g neighbouring vectors each; None: no norms.
        rotations: (T, d), of each position the cosines and then the sines of d / 2 pairs (i, i + d / 2); None: none.
        vectors: n.
        dtype: of the result, float32 or bfloat16, to which float32 is rounded once; by default that of x.

    Returns:
        (T, ..., C), on a CPU.

    Raises:
        ValueError, TypeError: naming a tensor of a wrong size or type.
    """
    return torch.ops.ea_fairseq.norm(x, weight, rotations, vectors, width, eps, dtype or x.dtype)


def fields(
    x: Tensor, weight: Tensor | None, rotations: Tensor | None, vectors: int, width: int, eps: float, dtype: torch.dtype
) -> dict[str, Any]:
    """The fields of ``struct vectors`` that both passes read; raises ValueError or TypeError for what does not fit."""
    fits = min(vectors, width) > 0 and vectors * width <= x.size(-1)
    if not fits or (weight is not None and vectors % max(1, len(weight))):
        raise ValueError(f"x of size {tuple(x.shape)} does not have {vectors} vectors of {width} with this weight")
    if width > MAX_WIDTH:
        raise ValueError(f"a vector has at most {MAX_WIDTH} elements, not {width}")
    if not {x.dtype, dtype} <= {*DTYPES}:
        raise TypeError(f"x and the result must be of float32 or bfloat16, not {x.dtype} and {dtype}")
    groups = 0 if weight is None else len(weight)
    rows = x.numel() // x.size(-1)
    return {
        "x": x.contiguous(),
        "weight": readable("weight", weight, (groups, width), torch.float32),
        "rotations": readable("rotations", rotations, (len(x), width), torch.float32),
        "rows": rows,
        "row_width": x.size(-1),
        "vectors": vectors,
        "width": width,
        "groups": groups,
        "rows_per_position": max(1, rows // max(1, len(x))),
        "rows_per_task": ROWS_PER_TASK,
        "x_bf16": x.dtype is torch.bfloat16,
        "y_bf16": dtype is torch.bfloat16,
        "eps": eps,
    }


@library.impl("ea_fairseq::norm", "cpu")
def forward(x: Tensor, *settings: Any) -> Tensor:
    """The operator ``norm``; see :func:`norm`."""
    given = fields(x, *settings)
    y = outputs(x, *settings)
    run("norm", FUNCTIONS["norm"](**addresses({**given, "y": y})))
    return y


@library.impl("ea_fairseq::norm_backward", "cpu")
def backward(d_y: Tensor, x: Tensor, *settings: Any) -> tuple[Tensor, Tensor]:
    """The operator ``norm_backward``: gradients of x and of the weight, which is empty without norms."""
    given = fields(x, *settings)
    d_x = torch.empty_like(given["x"])
    tasks = -(-given["rows"] // ROWS_PER_TASK)
    d_weights = None if given["weight"] is None else given["weight"].new_empty(tasks, *given["weight"].shape)
    given |= {"d_y": readable("d_y", d_y, x.shape, settings[-1]), "d_x": d_x, "d_weight": d_weights}
    run("norm_backward", FUNCTIONS["norm_backward"](**addresses(given)))
    return d_x, x.new_empty(0) if d_weights is None else d_weights.sum(0)


@library.register_fake("ea_fairseq::norm")
def outputs(x: Tensor, *settings: Any) -> Tensor:
    """A new tensor of the size of x."""
    return x.new_empty(x.shape, dtype=settings[-1])


@library.register_fake("ea_fairseq::norm_backward")
def backward_outputs(d_y: Tensor, x: Tensor, weight: Tensor | None, *settings: Any) -> tuple[Tensor, Tensor]:
    """New tensors of the sizes that :func:`backward` returns."""
    return x.new_empty(x.shape), x.new_empty(0) if weight is None else weight.new_empty(weight.shape)


def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
    """Saves what :func:`differentiate` reads."""
    x, weight, rotations, *ctx.scalars = inputs
    ctx.save_for_backward(x, weight, rotations)


def differentiate(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients of x and of the weight."""
    x, weight, rotations = ctx.saved_tensors
    d_x, d_weight = torch.ops.ea_fairseq.norm_backward(d_y, x, weight, rotations, *ctx.scalars)
    return d_x, None if weight is None else d_weight, None, None, None, None, None


library.register_autograd("ea_fairseq::norm", differentiate, setup_context=setup_context)
library.register_autograd("ea_fairseq::norm_backward", refuse_second_derivatives)
