"""A decoding step of one attention in native code for CPUs."""

from ctypes import byref
from functools import cache

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor

from ea_fairseq.decoding.cache import AttentionCache
from ea_fairseq.kernels.cpu.interface import Step
from ea_fairseq.kernels.cpu.library import LIBRARY, address, instruction_set, parallel
from ea_fairseq.kernels.tensors import convolution, readable


@cache
def decode(instructions: str):
    return getattr(LIBRARY, f"decode_{instructions}")


def step(
    attention: MultiheadAttention,
    cache: AttentionCache,
    words: Tensor,
    size: tuple[int, int, int, int],
    previous: Tensor | None,
    padded_queries: Tensor | None,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """What ``decoding_step.step`` computes, of float32 on a CPU and without gradients.

    Args:
        size: (B, K, 1, S), without zeros.

    Returns:
        Output; probabilities if they are needed; logits if a next layer may read them.

    Raises:
        MemoryError: where there is none for the rows of a map.
        ValueError, TypeError: naming the tensor, where it has another size or type than it must have.
    """
    hypotheses, evolution, conv = cache.hypotheses, attention.evolution, attention.conv
    (rows, heads, _, length), numbers = size, attention.embed_dim
    weight = bias = None
    kernel, above, left = 1, 0, 0
    if conv is not None:
        left, _, above, _ = evolution.window.margins(evolution.kernel_size)
        weight, bias = convolution(conv.weight, conv.bias, heads, above, left)
        kernel = weight.size(-1)
    words = readable("words", words, (1, rows, numbers if cache.has_source else 3 * numbers), torch.float32)
    previous = readable("previous_logits", previous, size, torch.float32)
    padded_queries = readable("query_padding_mask", padded_queries, (rows, 1), torch.bool)
    room, slots, _ = cache.keys.shape
    keys = readable("keys", cache.keys, (room, slots, numbers), torch.float32)
    values = readable("values", cache.values, (room, slots, numbers), torch.float32)
    steps = hypotheses.ancestors.size(1)
    ancestors = readable("ancestors", hypotheses.ancestors, (rows, steps), torch.int32)
    sentence = readable("sentence", hypotheses.sentence, (rows,), torch.int32) if cache.has_source else None
    padded = readable("padding", cache.padding, (slots, length) if cache.has_source else (rows, steps), torch.bool)
    mixed, mixed_slots = None, 0
    if above:
        _, mixed_slots, _, room = cache.mixed.shape
        mixed = readable("mixed", cache.mixed, (above + 1, mixed_slots, heads, room), torch.float32)
    query = words.data_ptr()
    output = words.new_empty(1, rows, numbers)
    logits = words.new_empty(size) if evolution.alpha > 0 else None
    probabilities = words.new_empty(size) if need_weights else None
    fields = Step(
        rows=rows,
        heads=heads,
        width=attention.head_dim,
        keys=length,
        kernel=kernel,
        above=above,
        left=left,
        scale=attention.scaling,
        alpha=evolution.alpha,
        beta=evolution.beta,
        apart=words.size(-1),
        query=query,
        new_key=None if cache.has_source else query + 4 * numbers,
        new_value=None if cache.has_source else query + 8 * numbers,
        key=keys.data_ptr(),
        value=values.data_ptr(),
        slots=slots,
        ancestors=ancestors.data_ptr(),
        steps=steps,
        now=hypotheses.steps - 1,
        sentence=address(sentence),
        padded=address(padded),
        padded_queries=address(padded_queries),
        weight=address(weight),
        bias=address(bias),
        mixed=address(mixed),
        mixed_slots=mixed_slots,
        room=room,
        previous=address(previous),
        logits=address(logits),
        probabilities=address(probabilities),
        output=output.data_ptr(),
        parallel=parallel(),
        threads=torch.get_num_threads(),
    )
    if decode(instruction_set())(byref(fields)):
        raise MemoryError("there is no memory for the rows of an attention map")
    return output, probabilities, logits
