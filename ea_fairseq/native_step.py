"""A decoding step of one attention in native code for CPUs."""

from ctypes import byref
from functools import cache

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor

from ea_fairseq.attention_cache import AttentionCache
from ea_fairseq.native_interface import Step
from ea_fairseq.native_library import LIBRARY, address, instruction_set, parallel


@cache
def decode(instructions: str):
    return getattr(LIBRARY, f"decode_{instructions}")


def step(
    attention: MultiheadAttention,
    cache: AttentionCache,
    query: Tensor,
    new: tuple[Tensor, Tensor] | None,
    previous: Tensor | None,
    padded_queries: Tensor | None,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """What ``decoding_step.step`` computes, of float32 on a CPU and without gradients.

    Returns:
        Output; probabilities if they are needed; logits if a next layer may read them.

    Raises:
        MemoryError: where there is none for the rows of a map.
    """
    hypotheses, evolution, conv = cache.hypotheses, attention.evolution, attention.conv
    kernel = 1 if conv is None else evolution.kernel_size
    left, _, above, _ = evolution.window.margins(kernel)
    weight, bias = (None, None) if conv is None else (conv.weight.contiguous(), conv.bias)
    key, value = new or (None, None)
    previous = None if previous is None or evolution.alpha == 0 else previous.contiguous()
    shape = query.size(1), attention.num_heads, 1, cache.length
    output = query.new_empty(query.shape)
    logits = query.new_empty(shape) if evolution.alpha > 0 else None
    probabilities = query.new_empty(shape) if need_weights else None
    fields = Step(
        rows=query.size(1),
        heads=attention.num_heads,
        width=attention.head_dim,
        keys=cache.length,
        kernel=kernel,
        above=above,
        left=left,
        scale=attention.scaling,
        alpha=evolution.alpha,
        beta=evolution.beta,
        apart=query.stride(1),
        query=query.data_ptr(),
        new_key=address(key),
        new_value=address(value),
        key=cache.keys.data_ptr(),
        value=cache.values.data_ptr(),
        slots=cache.keys.size(1),
        ancestors=hypotheses.ancestors.data_ptr(),
        steps=hypotheses.ancestors.size(1),
        now=hypotheses.steps - 1,
        sentence=hypotheses.sentence.data_ptr() if cache.has_source else None,
        padded=address(cache.padding),
        padded_queries=address(padded_queries),
        weight=address(weight),
        bias=address(bias),
        mixed=address(cache.mixed),
        mixed_slots=0 if cache.mixed is None else cache.mixed.size(1),
        room=0 if cache.mixed is None else cache.mixed.size(3),
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
