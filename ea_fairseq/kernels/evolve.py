"""The operator ``ea_fairseq::evolve``: scores to logits and probabilities, in native code or in Triton."""

from functools import partial

import torch
from torch import Tensor, library

from ea_fairseq.kernels import cpu, dispatch, reference, self_check, triton
from ea_fairseq.kernels.cpu import evolution as native_evolution
from ea_fairseq.kernels.dispatch import (
    FusedArguments,
    arguments_of,
    is_fused,
    of_arguments,
    read_arguments,
    readable,
    refuse_second_derivatives,
    relu_mask_size,
    save,
    without_none,
)
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
    f" {ARGUMENTS}) -> (Tensor d_scores, Tensor d_previous, Tensor d_weight, Tensor d_bias)",
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
        Logits, zero where masked, and probabilities, (B, K, T, S); None where no kernel takes this.

    Raises:
        ValueError, TypeError: naming what has another size or type than it must have.
    """
    if masks.float_mask is not None or scores.numel() == 0 or not is_fused(scores, exact):
        return None
    if fused.learned is not None:
        own, below, fused = fused.folded(previous is not None)
        scores = scores * own.to(scores.dtype)
        previous = None if below is None else previous * below.to(previous.dtype)
    arguments = arguments_of(fused, scale, previous, masks, scores.shape)
    is_direct = type(scores) is Tensor and not torch.compiler.is_compiling()
    if is_direct and kernels(scores.device.type) is triton_evolution:
        return Evolution.apply(scores, *arguments)[:2]
    return torch.ops.ea_fairseq.evolve(scores, *arguments)[:2]


def takes_maps(size: tuple[int, int, int, int], value: Tensor, masks: AttentionMasks, exact: bool = False) -> bool:
    """Whether :func:`evolve` takes maps of a size (B, K, T, S), not yet computed, of values (B, K, S, d)."""
    there = len(value) == size[0] and 0 not in size and value.numel() > 0
    return there and masks.float_mask is None and is_fused(value, exact)


def read_maps(name: str, tensor: Tensor, dtypes: tuple[torch.dtype, ...]) -> Tensor:
    """The tensor as kernels of these types read maps; raises ValueError, naming it, where it is none."""
    if tensor.dim() != 4 or tensor.dtype not in dtypes:
        raise ValueError(f"{name} must be maps (B, K, T, S) of {dtypes}, not {tuple(tensor.shape)} of {tensor.dtype}")
    return readable(name, tensor, tensor.shape, tensor.dtype)


def kernels(device: str):
    """The module that evolves maps on a device."""
    return triton_evolution if device == "cuda" or dispatch.backend == "triton" else native_evolution


def checked_kernels(step: str, maps: Tensor, arguments: FusedArguments, d_logits: Tensor | None = None):
    """The module that takes a step of these maps, plain PyTorch's if a kernel of Triton's fails its check."""
    module = kernels(maps.device.type)
    if module is triton_evolution and not self_check.passes(step, maps, arguments, d_logits):
        return reference
    return module


def dtypes(device: str) -> tuple[torch.dtype, ...]:
    """Of the maps that kernels on a device take."""
    return cpu.DTYPES if kernels(device) is native_evolution else triton.DTYPES


def conv_sizes(device: str, size: tuple[int, ...], weight: Tensor | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of the convolution's input, and of the bits that tell where its ReLU passes; only native code keeps these."""
    if weight is None:
        return (0,), (0,)
    return size, relu_mask_size(size) if kernels(device) is native_evolution else (0,)


def forward(device: str, scores, *arguments):
    """Of any tensors; see :func:`evolve`."""
    scores = read_maps("scores", scores, dtypes(device))
    arguments = read_arguments(FusedArguments(*arguments), scores.shape, scores.dtype)
    if scores.numel() == 0:
        return outputs(scores, *arguments)
    return checked_kernels("forward", scores, arguments).forward(scores, arguments)


def backward(device: str, d_logits, d_probabilities, probabilities, conv_input, relu_mask, *arguments):
    """Of any tensors: gradients of scores, previous logits, weight and bias, empty where there is none."""
    probabilities = read_maps("probabilities", probabilities, dtypes(device))
    size, dtype = probabilities.shape, probabilities.dtype
    arguments = FusedArguments(*arguments).checked(size, dtype)
    if d_probabilities is None:
        d_probabilities = torch.zeros_like(probabilities)
    conv_size, relu_mask_size = conv_sizes(device, size, arguments.weight)
    given = (
        readable("d_logits", d_logits, size, dtype),
        readable("d_probabilities", d_probabilities, size, dtype),
        probabilities,
        readable("conv_input", conv_input, conv_size, dtype),
        readable("relu_mask", relu_mask, relu_mask_size, torch.uint8),
    )
    if probabilities.numel() == 0:
        return [gradient.zero_() for gradient in backward_outputs(*given, *arguments)]
    module = checked_kernels("backward", probabilities, arguments, given[0])
    return without_none(module.backward(*given, arguments), probabilities)


for device in ("cpu", "cuda"):
    library.impl("ea_fairseq::evolve", device, partial(forward, device))
    library.impl("ea_fairseq::evolve_backward", device, partial(backward, device))


@library.register_fake("ea_fairseq::evolve")
def outputs(scores, *arguments):
    """New tensors for logits, probabilities and the convolution's input (B, K, T, S), and the bits of its ReLU."""
    conv_size, relu_mask_size = conv_sizes(scores.device.type, scores.shape, FusedArguments(*arguments).weight)
    logits, probabilities, conv_input = (scores.new_empty(size) for size in (scores.shape, scores.shape, conv_size))
    return logits, probabilities, conv_input, scores.new_empty(relu_mask_size, dtype=torch.uint8)


@library.register_fake("ea_fairseq::evolve_backward")
def backward_outputs(d_logits, d_probabilities, probabilities, conv_input, relu_mask, *arguments):
    """New tensors of the sizes that ``backward`` returns."""
    arguments = FusedArguments(*arguments)
    previous = probabilities if arguments.previous_weight else None
    read = probabilities, previous, arguments.weight, arguments.bias
    return without_none((x if x is None else x.new_empty(x.shape) for x in read), probabilities)


def setup_context(ctx, inputs, output):
    """Keeps what ``differentiate`` reads."""
    _, *arguments = inputs
    save(ctx, output, (), FusedArguments(*arguments)._replace(previous=None))


def differentiate(ctx, d_logits, d_probabilities, *_, backward=torch.ops.ea_fairseq.evolve_backward):
    """Gradients of the inputs of ``evolve`` from those of its outputs."""
    kept, arguments = ctx.saved_tensors[:3], FusedArguments(*ctx.saved_tensors[3:], *ctx.numbers)
    d_scores, *others = backward(d_logits, d_probabilities, *kept, *arguments)
    return d_scores, *of_arguments(arguments, *others)


library.register_autograd("ea_fairseq::evolve", differentiate, setup_context=setup_context)
library.register_autograd("ea_fairseq::evolve_backward", refuse_second_derivatives)


class Evolution(torch.autograd.Function):
    """The operator past torch's dispatcher, which takes longer than a GPU does for maps of a few thousand tokens."""

    @staticmethod
    def forward(ctx, scores, *arguments):
        ctx.device = scores.device.type
        output = tuple(forward(ctx.device, scores, *arguments))
        setup_context(ctx, (scores, *arguments), output)
        return output

    @staticmethod
    def backward(ctx, *gradients):
        if torch.is_grad_enabled():  # for second derivatives, which the operator refuses
            return differentiate(ctx, *gradients)
        return differentiate(ctx, *gradients, backward=partial(backward, ctx.device))
