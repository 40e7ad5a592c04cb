"""One decoding step of an evolving attention."""

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor

from ea_fairseq.attention.masks import AttentionMasks, probabilities
from ea_fairseq.attention.projections import joined
from ea_fairseq.decoding.beam import Hypotheses
from ea_fairseq.decoding.cache import AttentionCache
from ea_fairseq.kernels.cpu import step as native_step
from ea_fairseq.kernels.dispatch import is_native
from ea_fairseq.kernels.tensors import spread


def decode(
    attention: MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    masks: AttentionMasks,
    need_weights: bool,
    previous: Tensor | None,
    incremental_state: dict,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """
    Args:
        attention: an ``EvolvingAttention``.
        query: (1, B, C); key, value: the same, or those of source words (S, sentences, C), read at the first step.
        masks: of these keys and queries; ``later`` and ``added`` (1, S) are of all keys so far.
        previous: (B, K, 1, S), the previous layer's logits.

    Returns:
        Output (1, B, C) before its projection; probabilities (B, K, 1, S), if they are needed; logits (B, K, 1, S), if
        the next layer reads them.

    Raises:
        ValueError: where there is more than one query of a hypothesis, or a tensor of another size.
    """
    steps, rows, _ = query.shape
    if steps != 1:
        raise ValueError(f"a decoding step is of one word of each hypothesis, not {steps}")
    cache = cache_of(attention, query, key, value, masks.keys, incremental_state)
    words = (attention.q_proj if cache.has_source else cache.project)(query)
    cache.make_room(words, attention.num_heads, attention.head_dim)
    keys = cache.length
    size = rows, attention.num_heads, 1, keys
    previous = None if attention.evolution.alpha == 0 else spread("previous_logits", previous, *size)
    padded_queries = spread("query_padding_mask", masks.queries, rows, 1)
    later, added = spread("attn_mask", masks.later, 1, keys), spread("attn_mask", masks.added, 1, keys)
    if later is added is None and 0 not in size and takes_native_step(attention, words):
        return native_step.step(attention, cache, words, size, previous, padded_queries, need_weights)
    return step(attention, cache, words, previous, padded_queries, later, added)


def cache_of(
    attention: MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None,
    incremental_state: dict,
) -> AttentionCache:
    """What an attention remembers, made at its first step."""
    cache = attention.get_incremental_state(incremental_state, "cache")
    if cache is None:
        hypotheses = incremental_state.get(Hypotheses.KEY)
        project = source = None
        if attention.encoder_decoder_attention:
            source = attention.k_proj(key), attention.v_proj(value)
        else:
            project = joined(attention.q_proj, attention.k_proj, attention.v_proj)
        _, _, above, _ = attention.evolution.window.margins(attention.evolution.kernel_size)
        cache = AttentionCache(
            hypotheses or Hypotheses(torch.arange(query.size(1), device=query.device)),
            is_alone=hypotheses is None,
            rows_above=0 if attention.conv is None else above,
            project=project,
            source=source,
            source_padding=padding,
        )
        attention.set_incremental_state(incremental_state, "cache", cache)
    if cache.is_alone:
        cache.hypotheses.advance(None if cache.has_source else spread("key_padding_mask", padding, query.size(1), 1))
    return cache


def takes_native_step(attention: MultiheadAttention, words: Tensor) -> bool:
    """Whether native code takes a step with these projected words; if not, PyTorch has to."""
    return (
        is_native(words)
        and not torch.compiler.is_compiling()
        and not (torch.is_grad_enabled() and words.requires_grad)
        and not attention.drops_out
        and attention.recorded is None
    )


def step(
    attention: MultiheadAttention,
    cache: AttentionCache,
    words: Tensor,
    previous: Tensor | None,
    padded_queries: Tensor | None,
    later: Tensor | None,
    added: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """A step in PyTorch.

    Args:
        words: projected: queries (1, B, C), or of target words (1, B, 3 C), with their keys and values beside them.
        previous: (B, K, 1, S); padded_queries: (B, 1), true at padding; later, added: (1, S), of ``AttentionMasks``.

    Returns:
        Output (1, B, C), probabilities and logits (B, K, 1, S).
    """
    query = words
    if not cache.has_source:
        query, *new = words.chunk(3, dim=-1)
        cache.add(*new)
    keys, values, padded_keys = cache.recall()
    masks = AttentionMasks(padded_keys, padded_queries, later, added)
    q, k, v = (attention.split_heads(x) for x in (query, keys, values))
    own = (q * attention.scaling) @ k.transpose(-1, -2)  # EA eq. 1
    logits = attention.evolve(own, previous, masks.blank, cache)
    weights = probabilities(logits, masks)
    if attention.recorded is not None:
        attention.recorded.update(own=own, logits=logits, unseen=masks.unseen, probabilities=weights)
    output = attention.dropout_module(weights.type_as(v)) @ v  # EA eq. 5
    return attention.join_heads(output), weights, logits


def of_hypotheses(
    incremental_state: dict | None, key: Tensor, value: Tensor, padding: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """What there is of each sentence, (S, sentences, C) and (sentences, S), repeated for each of its hypotheses."""
    hypotheses = None if incremental_state is None else incremental_state.get(Hypotheses.KEY)
    if hypotheses is None:
        return key, value, padding
    sentence = hypotheses.sentence
    key, value = key.index_select(1, sentence), value.index_select(1, sentence)
    return key, value, None if padding is None else padding.index_select(0, sentence)
