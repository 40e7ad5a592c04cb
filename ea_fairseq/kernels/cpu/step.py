"""A decoding step of one attention in native code for CPUs."""

from typing import Any

import torch
from torch import Tensor

from ea_fairseq.kernels.arguments import FusedArguments, readable
from ea_fairseq.kernels.cpu.call import addresses, run
from ea_fairseq.kernels.cpu.interface import FUNCTIONS
from ea_fairseq.kernels.dispatch import is_native
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.kernels.masks import AttentionMasks

FLOAT_BYTES = 4


def takes_step(projected: Tensor) -> bool:
    """Whether native code computes a step of these projected tokens; otherwise PyTorch has to."""
    needs_gradient = torch.is_grad_enabled() and projected.requires_grad
    return is_native(projected) and not torch.compiler.is_compiling() and not needs_gradient


def step(
    cache: Any,
    projected: Tensor,
    heads: int,
    scale: float,
    fused: FusedLogits,
    previous: Tensor | None,
    padded_queries: Tensor | None,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Attends from one token of each of B hypotheses to the S keys of the cache, in float32 and without gradients.

    Args:
        cache: the ``AttentionCache`` of the attention; the keys and values of this step are added to it.
        projected: (1, B, C), queries; or (1, B, 3 C), queries, keys and values of the tokens of this step.
        scale: the factor of scores.
        previous: (B, K, 1, S), logits of the layer below.
        padded_queries: (B, 1), true at padding.

    Returns:
        The output (1, B, C) before its projection; probabilities (B, K, 1, S) if they are needed; logits (B, K, 1, S)
        if the next layer may read them.

    Raises:
        MemoryError: if the rows of a map do not fit into memory.
        ValueError, TypeError: if a tensor, which the message names, has the wrong size or type.
    """
    beam, length = cache.beam, cache.length
    key_buffer, value_buffer = cache.buffers
    rows, channels = projected.size(1), key_buffer.size(-1)
    size = rows, heads, 1, length
    arguments, argument_fields = arguments_of_step(cache, fused, scale, previous, padded_queries, size)
    # Queries and the KV cache.
    parts = 1 if cache.has_source else 3
    projected = readable("projected", projected, (1, rows, parts * channels), torch.float32)
    capacity, cache_slots, _ = key_buffer.shape
    keys = readable("keys", key_buffer, (capacity, cache_slots, channels), torch.float32)
    values = readable("values", value_buffer, (capacity, cache_slots, channels), torch.float32)
    max_steps = beam.back_pointers.size(1)
    padded_keys_size = (cache_slots, length) if cache.has_source else (rows, max_steps)
    # Rows of earlier steps that the convolution reads.
    conv_input, conv_slots = None, 0
    if arguments.above:
        conv_input = cache.rows_of("conv_inputs", arguments.above, heads, projected)
        _, conv_slots, _, capacity = conv_input.shape
        size_of_rows = arguments.above + 1, conv_slots, heads, capacity
        conv_input = readable("conv_inputs", conv_input, size_of_rows, torch.float32)
    # Outputs.
    output = projected.new_empty(1, rows, channels)
    logits = projected.new_empty(size) if fused.has_skip else None
    probabilities = projected.new_empty(size) if need_weights else None
    tensors = {
        "padded_keys": readable("padding", cache.padding, padded_keys_size, torch.bool),
        "back_pointers": readable("back_pointers", beam.back_pointers, (rows, max_steps), torch.int32),
        "sentence": readable("sentence", beam.sentence, (rows,), torch.int32) if cache.has_source else None,
        "conv_input": conv_input,
        "logits": logits,
        "probabilities": probabilities,
    }
    query = projected.data_ptr()
    fields = FUNCTIONS["decode"](
        **argument_fields,
        rows=rows,
        heads=heads,
        head_dim=channels // heads,
        keys=length,
        kernel=arguments.kernel,
        by_word=arguments.by_word,
        token_stride=projected.size(-1),
        query=query,
        new_key=None if cache.has_source else query + FLOAT_BYTES * channels,
        new_value=None if cache.has_source else query + 2 * FLOAT_BYTES * channels,
        key=keys.data_ptr(),
        value=values.data_ptr(),
        cache_slots=cache_slots,
        max_steps=max_steps,
        current_step=beam.steps - 1,
        conv_slots=conv_slots,
        capacity=capacity,
        output=output.data_ptr(),
        **addresses(tensors),
    )
    run("decode", fields)
    return output, probabilities, logits


def arguments_of_step(
    cache: Any,
    fused: FusedLogits,
    scale: float,
    previous: Tensor | None,
    padded_queries: Tensor | None,
    size: tuple[int, int, int, int],
) -> tuple[FusedArguments, dict[str, float | None]]:
    """The checked arguments of a step and their fields; the cache stores them if they do not change between steps."""
    is_constant = previous is None and padded_queries is None and not fused.is_by_word
    if is_constant and cache.arguments is not None:
        return cache.arguments
    masks = AttentionMasks(padded_queries=padded_queries)
    arguments = FusedArguments.of(fused, scale, size, torch.device("cpu"), previous, masks)
    arguments = arguments.checked(size, torch.float32)
    fields = addresses(arguments._asdict())
    del fields["padded_keys"], fields["future"]  # the masks of a step are those of its cache
    if is_constant:
        cache.arguments = arguments, fields
    return arguments, fields
