"""The operator ``ea_fairseq::evolve``: scores to logits and probabilities, in native code or in Triton."""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, library

from ea_fairseq.kernels import cpu, dispatch, reference, self_check, triton
from ea_fairseq.kernels.arguments import (
    D_SCHEMA,
    FusedArguments,
    MapSize,
    new_gradients,
    of_arguments,
    readable,
    refuse_second_derivatives,
    save,
    without_none,
)
from ea_fairseq.kernels.cpu import evolution as native_evolution
from ea_fairseq.kernels.cpu.call import relu_mask_size
from ea_fairseq.kernels.dispatch import is_fused, is_native
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.kernels.masks import AttentionMasks
from ea_fairseq.kernels.triton import evolution as triton_evolution

ARGUMENTS = FusedArguments.schema()
library.define(
    "ea_fairseq::evolve",
    f"(Tensor scores, {ARGUMENTS}) -> (Tensor logits, Tensor probabilities, Tensor conv_input, Tensor relu_mask)",
)
library.define(
    "ea_fairseq::evolve_backward",
    "(Tensor? d_logits, Tensor? d_probabilities, Tensor probabilities, Tensor conv_input, Tensor relu_mask,"
    f" Tensor? scores, {ARGUMENTS}) -> (Tensor d_scores, {D_SCHEMA})",
)


def evolve(
    scores: Tensor,
    scale: float,
    fused: FusedLogits,
    previous: Tensor | None,
    masks: AttentionMasks,
    exact: bool = False,
) -> tuple[Tensor, Tensor] | None:
    """Logits (EA eq. 4) of scores and their softmax (EA eq. 5) in one pass.

    Args:
        scores: Q K^T, (B, K, T, S); scale: what they are multiplied by.
        previous: the same size, logits of the layer below; it and the masks may have one row or column for all.
        exact: probabilities must not be rounded to half precision.

    Returns:
        Logits, zero where masked, and probabilities, (B, K, T, S); None if no kernel supports this.

    Raises:
        ValueError, TypeError: naming a tensor of a wrong size or type.
    """
    if masks.float_mask is not None or scores.numel() == 0 or not takes_weights(fused, scores, exact):
        return None
    arguments = FusedArguments.of(fused, scale, scores.shape, scores.device, previous, masks)
    is_direct = type(scores) is Tensor and not torch.compiler.is_compiling()
    if is_direct and kernels(scores.device.type) is triton_evolution:
        return Evolution.apply(scores, *arguments)[:2]
    return torch.ops.ea_fairseq.evolve(scores, *arguments)[:2]


def takes_maps(fused: FusedLogits, size: MapSize, value: Tensor, masks: AttentionMasks, exact: bool = False) -> bool:
    """Whether :func:`evolve` takes maps of a size (B, K, T, S), not yet computed, of values (B, K, S, d)."""
    there = len(value) == size[0] and 0 not in size and value.numel() > 0
    return there and masks.float_mask is None and takes_weights(fused, value, exact)


def takes_weights(fused: FusedLogits, tensor: Tensor, exact: bool) -> bool:
    """Whether a kernel computes this from such a tensor; weights of words are for native code alone."""
    return is_native(tensor, exact) if fused.is_by_word else is_fused(tensor, exact)


def read_maps(name: str, tensor: Tensor, dtypes: tuple[torch.dtype, ...]) -> Tensor:
    """The tensor as kernels read maps of these types.

    Raises:
        ValueError: naming the tensor, if it is no such map.
    """
    if tensor.dim() != 4 or tensor.dtype not in dtypes:
        raise ValueError(f"{name} must be maps (B, K, T, S) of {dtypes}, not {tuple(tensor.shape)} of {tensor.dtype}")
    return readable(name, tensor, tensor.shape, tensor.dtype)


def kernels(device: str) -> ModuleType:
    """The module that evolves maps on a device."""
    return triton_evolution if device == "cuda" or dispatch.backend == "triton" else native_evolution


def checked_kernels(
    step: str, maps: Tensor, arguments: FusedArguments, d_logits: Tensor | None = None, is_learned: bool = False
) -> ModuleType:
    """The module that computes a step, ``forward`` or ``backward``: PyTorch's if Triton's kernel fails its check."""
    module = kernels(maps.device.type)
    if module is triton_evolution and not self_check.passes(step, maps, arguments, d_logits, is_learned):
        return reference
    return module


def dtypes(device: str) -> tuple[torch.dtype, ...]:
    """The types of maps that the kernels of a device take."""
    return cpu.DTYPES if kernels(device) is native_evolution else triton.DTYPES


def conv_sizes(device: str, size: tuple[int, ...], weight: Tensor | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes of the convolution's input and of its ReLU's bits, which only native code saves; (0,) if not saved."""
    if weight is None:
        return (0,), (0,)
    return size, relu_mask_size(size) if kernels(device) is native_evolution else (0,)


def forward(device: str, scores: Tensor, *values: Any) -> list[Tensor] | tuple[Tensor, ...]:
    """The operator ``evolve``, for tensors that are checked first; see :func:`evolve`."""
    scores = read_maps("scores", scores, dtypes(device))
    arguments = FusedArguments(*values).checked(scores.shape, scores.dtype)
    if scores.numel() == 0:
        return outputs(scores, *arguments)
    return checked_kernels("forward", scores, arguments).forward(scores, arguments)


def backward(
    device: str,
    d_logits: Tensor | None,
    d_probabilities: Tensor | None,
    probabilities: Tensor,
    conv_input: Tensor,
    relu_mask: Tensor,
    scores: Tensor | None,
    *values: Any,
) -> list[Tensor]:
    """The operator ``evolve_backward``: gradients of scores and of the arguments that have some, else empty.

    Args:
        scores: the forward pass's, needed with its previous logits for the gradients of the weights of heads; None if
            these are fixed.
    """
    probabilities = read_maps("probabilities", probabilities, dtypes(device))
    size, dtype = probabilities.shape, probabilities.dtype
    arguments = FusedArguments(*values).checked(size, dtype, reads_previous=scores is not None)
    if d_probabilities is None:
        d_probabilities = torch.zeros_like(probabilities)
    conv_size, mask_size = conv_sizes(device, size, arguments.weight)
    given = (
        readable("d_logits", d_logits, size, dtype),
        readable("d_probabilities", d_probabilities, size, dtype),
        probabilities,
        readable("conv_input", conv_input, conv_size, dtype),
        readable("relu_mask", relu_mask, mask_size, torch.uint8),
        readable("scores", scores, size, dtype),
    )
    if probabilities.numel() == 0:
        return [gradient.zero_() for gradient in backward_outputs(*given, *arguments)]
    module = checked_kernels("backward", probabilities, arguments, given[0], scores is not None)
    return without_none(module.backward(*given, arguments), probabilities)


for device in ("cpu", "cuda"):
    library.impl("ea_fairseq::evolve", device, partial(forward, device))
    library.impl("ea_fairseq::evolve_backward", device, partial(backward, device))


@library.register_fake("ea_fairseq::evolve")
def outputs(scores: Tensor, *values: Any) -> tuple[Tensor, ...]:
    """New tensors for logits, probabilities and the convolution's input (B, K, T, S), and the bits of its ReLU."""
    conv_size, mask_size = conv_sizes(scores.device.type, scores.shape, FusedArguments(*values).weight)
    logits, probabilities, conv_input = (scores.new_empty(size) for size in (scores.shape, scores.shape, conv_size))
    return logits, probabilities, conv_input, scores.new_empty(mask_size, dtype=torch.uint8)


@library.register_fake("ea_fairseq::evolve_backward")
def backward_outputs(
    d_logits: Tensor | None,
    d_probabilities: Tensor | None,
    probabilities: Tensor,
    conv_input: Tensor,
    relu_mask: Tensor,
    scores: Tensor | None,
    *values: Any,
) -> list[Tensor]:
    """New tensors of the sizes that :func:`backward` returns."""
    gradients = new_gradients(FusedArguments(*values), scores is not None, probabilities)
    return without_none([probabilities.new_empty(probabilities.shape), *gradients], probabilities)


def setup_context(ctx: Any, inputs: tuple, output: tuple[Tensor, ...]) -> None:
    """Saves what :func:`differentiate` reads; scores and previous logits only for gradients of the weights of heads."""
    scores, *values = inputs
    arguments = FusedArguments(*values)
    if not arguments.is_learned:
        scores, arguments = None, arguments._replace(previous=None)
    save(ctx, output, (scores,), arguments)


def differentiate(
    ctx: Any,
    d_logits: Tensor | None,
    d_probabilities: Tensor | None,
    *_: Tensor | None,
    backward: Callable[..., list[Tensor]] = torch.ops.ea_fairseq.evolve_backward,
) -> tuple[Any, ...]:
    """Gradients of the inputs of ``evolve`` from those of its outputs."""
    *saved, scores = ctx.saved_tensors[:4]
    arguments = FusedArguments(*ctx.saved_tensors[4:], *ctx.scalars)
    d_scores, *others = backward(d_logits, d_probabilities, *saved, scores, *arguments)
    return d_scores, *of_arguments(arguments, scores is not None, *others)


library.register_autograd("ea_fairseq::evolve", differentiate, setup_context=setup_context)
library.register_autograd("ea_fairseq::evolve_backward", refuse_second_derivatives)


class Evolution(torch.autograd.Function):
    """The operator without torch's dispatcher, which takes longer than a GPU for batches of a few thousand tokens."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, *values: Any) -> tuple[Tensor, ...]:
        ctx.device = scores.device.type
        output = tuple(forward(ctx.device, scores, *values))
        setup_context(ctx, (scores, *values), output)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        if torch.is_grad_enabled():  # for second derivatives, which the operator refuses
            return differentiate(ctx, *gradients)
        return differentiate(ctx, *gradients, backward=partial(backward, ctx.device))
