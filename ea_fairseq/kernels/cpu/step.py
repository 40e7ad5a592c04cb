"""A decoding step of one attention in native code for CPUs."""

import torch
from torch import Tensor

from ea_fairseq.kernels.arguments import FusedArguments, readable
from ea_fairseq.kernels.cpu.call import addresses, run
from ea_fairseq.kernels.cpu.interface import FUNCTIONS
from ea_fairseq.kernels.dispatch import is_native
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.kernels.masks import AttentionMasks


def takes_step(words: Tensor) -> bool:
    """Whether native code takes a step with these projected tokens; if not, PyTorch has to."""
    return (
        is_native(words) and not torch.compiler.is_compiling() and not (torch.is_grad_enabled() and words.requires_grad)
    )


def step(
    cache,
    words: Tensor,
    heads: int,
    scale: float,
    fused: FusedLogits,
    previous: Tensor | None,
    padded_queries: Tensor | None,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """One token of each of B hypotheses attends to the S keys of the cache; of float32, without gradients.

    Args:
        cache: an ``AttentionCache``.
        words: (1, B, C), projected queries; or (1, B, 3 C), with the tokens' keys and values, which the cache takes.
        scale: what scores are multiplied by.
        previous: (B, K, 1, S), logits of the layer below; padded_queries: (B, 1), true at padding.

    Returns:
        Output (1, B, C) before its projection; probabilities (B, K, 1, S) if they are needed; logits (B, K, 1, S) if a
        next layer may read them.

    Raises:
        MemoryError: where there is none for the rows of a map.
        ValueError, TypeError: naming the tensor, where it has another size or type than it must have.
    """
    beam, length = cache.beam, cache.length
    rows, channels = words.size(1), cache.keys.size(-1)
    size = rows, heads, 1, length
    arguments, argument_fields = arguments_of_step(cache, fused, scale, previous, padded_queries, size)
    words = readable("words", words, (1, rows, channels if cache.has_source else 3 * channels), torch.float32)
    room, slots, _ = cache.keys.shape
    keys = readable("keys", cache.keys, (room, slots, channels), torch.float32)
    values = readable("values", cache.values, (room, slots, channels), torch.float32)
    steps = beam.back_pointers.size(1)
    padded_keys_size = (slots, length) if cache.has_source else (rows, steps)
    conv_input, conv_slots = None, 0
    if arguments.above:
        conv_input = cache.rows_of("conv_inputs", arguments.above, heads, words)
        _, conv_slots, _, room = conv_input.shape
        conv_input = readable("conv_inputs", conv_input, (arguments.above + 1, conv_slots, heads, room), torch.float32)
    query = words.data_ptr()
    output = words.new_empty(1, rows, channels)
    logits = words.new_empty(size) if fused.has_skip else None
    probabilities = words.new_empty(size) if need_weights else None
    tensors = {
        "padded_keys": readable("padding", cache.padding, padded_keys_size, torch.bool),
        "back_pointers": readable("back_pointers", beam.back_pointers, (rows, steps), torch.int32),
        "sentence": readable("sentence", beam.sentence, (rows,), torch.int32) if cache.has_source else None,
        "conv_input": conv_input,
        "logits": logits,
        "probabilities": probabilities,
    }
    fields = FUNCTIONS["decode"](
        **argument_fields,
        rows=rows,
        heads=heads,
        head_dim=channels // heads,
        keys=length,
        kernel=arguments.kernel,
        stride=words.size(-1),
        query=query,
        new_key=None if cache.has_source else query + 4 * channels,
        new_value=None if cache.has_source else query + 8 * channels,
        key=keys.data_ptr(),
        value=values.data_ptr(),
        slots=slots,
        steps=steps,
        now=beam.steps - 1,
        conv_slots=conv_slots,
        room=room,
        output=output.data_ptr(),
        **addresses(tensors),
    )
    run("decode", fields)
    return output, probabilities, logits


def arguments_of_step(
    cache,
    fused: FusedLogits,
    scale: float,
    previous: Tensor | None,
    padded_queries: Tensor | None,
    size: tuple[int, int, int, int],
) -> tuple[FusedArguments, dict[str, float | None]]:
    """The arguments of a step, checked, and their fields; the cache keeps those that one step has like the next."""
    is_constant = previous is None and padded_queries is None
    if is_constant and cache.arguments is not None:
        return cache.arguments
    masks = AttentionMasks(padded_queries=padded_queries)
    arguments = FusedArguments.of(fused, scale, size, torch.device("cpu"), previous, masks)
    arguments = arguments.checked(size, torch.float32)
    fields = addresses(arguments._asdict())
    del fields["padded_keys"], fields["future"]  # the cache has its own
    if is_constant:
        cache.arguments = arguments, fields
    return arguments, fields
