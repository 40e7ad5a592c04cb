"""The KV cache of one attention, and a decoding step that reads it: one query of each hypothesis."""

from collections.abc import Callable

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor

from ea_fairseq.attention.beam import BeamState, resized, room_for
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.kernels.attend import joined, split_heads
from ea_fairseq.kernels.cpu import step as native_step
from ea_fairseq.kernels.dispatch import readable, spread
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.kernels.masks import AttentionMasks


class AttentionCache:
    """KV cache; entries never move, back-pointers follow the beam.

    The key of an earlier step lies in the row that it was computed in, which :class:`BeamState` tells. Keys of source
    tokens are there once for each sentence.

    Args:
        beam: that of the decoder, or of this attention alone.
        owns_beam: whether there is no decoder to begin its steps and to reorder it.
        source: keys and values (S, sentences, C) of source tokens; None where each step adds its own.
        source_padding: (sentences, S), true where a source token is padding.

    Attributes:
        keys, values: (room for S, rows, C), of steps or of the source.
        rows: by name, the last rows of maps, (n + 1, rows, K, room for S), step t at t modulo n + 1.
        vectors: by name, the last vectors of tokens, (n + 1, rows, C), step t at t modulo n + 1.
        projections: what makes queries, keys and values of a step's tokens, in one product, by the letters of those.

    Raises:
        ValueError: where a hypothesis has no sentence, or a step another number of rows than there are hypotheses.
    """

    def __init__(
        self,
        beam: BeamState,
        owns_beam: bool,
        source: tuple[Tensor, Tensor] | None = None,
        source_padding: Tensor | None = None,
    ):
        if source is not None:
            source, source_padding = readable_source(beam, *source, source_padding)
        self.beam = beam
        self.owns_beam = owns_beam
        self.has_source = source is not None
        self.keys, self.values = source or (None, None)
        self.source_padding = source_padding
        self.rows: dict[str, Tensor] = {}
        self.vectors: dict[str, Tensor] = {}
        self.projections: dict[str, Callable[[Tensor], Tensor | None]] = {}
        self.arguments: tuple | None = None  # of kernels for steps, see kernels/cpu/step.py
        self._gathered: tuple | None = None  # the source's for each hypothesis, and the sentences they belong to

    @property
    def length(self) -> int:
        """Number S of keys at this step."""
        return self.keys.size(0) if self.has_source else self.beam.steps

    @property
    def padding(self) -> Tensor | None:
        """True at padding: (sentences, S) of source tokens, otherwise (B, room for S); None where there is none."""
        return self.source_padding if self.has_source else self.beam.padded

    def make_room(self, rows: int, like: Tensor, key_width: int, width: int) -> None:
        """Makes the buffers large enough for a step of so many rows, of the type of ``like``.

        Args:
            key_width: C of a key, 0 where no term reads keys; width: C of a value.
        """
        if rows != len(self.beam):
            raise ValueError(f"a step of {rows} rows cannot follow {len(self.beam)} hypotheses: reorder them first")
        if not self.has_source:
            rows, room = self.beam.widest, room_for(self.beam.steps)
            if self.keys is None:
                self.keys, self.values = like.new_empty(0, rows, key_width), like.new_empty(0, rows, width)
            self.keys, self.values = resized(self.keys, room, rows), resized(self.values, room, rows)

    def add(self, key: Tensor | None, value: Tensor) -> None:
        """Remembers this step's key, if there is one, and value, (1, B, C)."""
        if key is not None:
            self.keys[self.beam.steps - 1, : key.size(1)] = key[0]
        self.values[self.beam.steps - 1, : value.size(1)] = value[0]

    def gather(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys and values of each hypothesis, (S, B, C), and which are padding, (B, S)."""
        sentence, steps = self.beam.sentence, self.beam.steps
        if self.has_source:
            if self._gathered is None or self._gathered[0] is not sentence:
                padding = None if self.padding is None else self.padding.index_select(0, sentence)
                keys, values = self.keys.index_select(1, sentence), self.values.index_select(1, sentence)
                self._gathered = sentence, keys, values, padding
            return self._gathered[1:]
        indices = self.beam.flat_indices(0, steps, *self.keys.shape[:2])
        keys, values = (
            buffer.flatten(0, 1).index_select(0, indices).unflatten(0, (steps, -1))
            for buffer in (self.keys, self.values)
        )
        return keys, values, None if self.padding is None else self.padding[:, :steps]

    def rows_of(self, name: str, count: int, heads: int, like: Tensor) -> Tensor:
        """The buffer (count + 1, rows, K, room for S) of the last rows of that name; of the type of ``like``."""
        rows = self.beam.widest
        if name not in self.rows:
            self.rows[name] = like.new_empty(count + 1, rows, heads, 0)
        self.rows[name] = resized(self.rows[name], 0, rows, heads, self.keys.size(0))
        return self.rows[name]

    def rows_before(self, name: str, row: Tensor, count: int) -> Tensor:
        """Remembers this step's row (B, K, 1, S) of maps under a name.

        Returns:
            Rows of the ``count`` steps before it, (B, K, count, S), zeros before the first.
        """
        buffer = self.rows_of(name, count, row.size(1), row)
        return self.replace_oldest(buffer[..., : self.length], row[:, :, 0]).permute(1, 2, 0, 3)

    def vectors_before(self, name: str, x: Tensor, count: int) -> Tensor:
        """Remembers this step's vectors x (1, B, C) under a name.

        Returns:
            Those of the ``count`` steps before it, (count, B, C), zeros before the first.
        """
        if name not in self.vectors:
            self.vectors[name] = x.new_empty(count + 1, 0, x.size(-1))
        self.vectors[name] = resized(self.vectors[name], 0, self.beam.widest)
        return self.replace_oldest(self.vectors[name], x[0])

    def replace_oldest(self, buffer: Tensor, now: Tensor) -> Tensor:
        """Writes this step's entry (B, ...) into a buffer (n + 1, rows, ...); returns the n before it, (n, B, ...)."""
        (room, rows), step = buffer.shape[:2], self.beam.steps - 1
        earlier = buffer.flatten(0, 1).index_select(0, self.beam.flat_indices(step + 1 - room, step, room, rows))
        buffer[step % room, : now.size(0)] = now
        return earlier.unflatten(0, (room - 1, -1))


def readable_source(
    beam: BeamState, key: Tensor, value: Tensor, padding: Tensor | None
) -> tuple[tuple[Tensor, Tensor], Tensor | None]:
    """Keys and values (S, sentences, C) of source tokens, and their padding (sentences, S), as kernels read them.

    Raises:
        ValueError: where a hypothesis translates a sentence that there is not, or the padding is of another size.
    """
    keys, sentences, _ = key.shape
    if len(beam):
        first, last = beam.sentence.aminmax()
        if first < 0 or last >= sentences:
            raise ValueError(f"{len(beam)} hypotheses translate more than the encoder's {sentences} sentences")
    source = readable("key", key, key.shape, key.dtype), readable("value", value, key.shape, key.dtype)
    padding = spread("key_padding_mask", padding, sentences, keys)
    if padding is not None and not padding.any():
        padding = None
    return source, readable("key_padding_mask", padding, (sentences, keys), torch.bool)


class DecodingStep(Inputs):
    """The inputs of one step.

    Args:
        query: (1, B, C); key, value: the same, or those of source tokens (S, sentences, C), read at the first step.
        masks: of these keys and queries; ``future`` and ``float_mask`` (1, S) are of all keys so far.
        previous: (B, K, 1, S), logits of the layer below.

    Raises:
        ValueError: where there is more than one query of a hypothesis, or a tensor of another size.
    """

    def __init__(
        self,
        attention: MultiheadAttention,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        masks: AttentionMasks,
        previous: Tensor | None,
        incremental_state: dict,
    ):
        steps, rows, _ = query.shape
        if steps != 1:
            raise ValueError(f"a decoding step is of one word of each hypothesis, not {steps}")
        self.x, self.scale, self.masks, self.projected = query, attention.scaling, masks, attention.projected
        self.take(attention, previous)
        self.projections = {}  # of the source, which is projected once
        self.cache = cache_of(self, attention, key, value, incremental_state)
        self.projections = self.cache.projections
        self.query = attention.project(query, "q" if self.cache.has_source else "qkv", self)
        width = attention.num_heads * attention.head_dim
        self.cache.make_room(rows, self.query, width if "k" in self.projected else 0, width)
        self.size = rows, attention.num_heads, 1, self.cache.length

    def linear(self, x: Tensor, parts: str, attention: MultiheadAttention) -> Tensor | None:
        if parts not in self.projections:
            layers = attention.projections(parts).values()
            self.projections[parts] = joined(*layers) if len(layers) > 1 else next(iter(layers), lambda _: None)
        return self.projections[parts](x)

    def prepare(self) -> None:
        rows, heads, _, keys = self.size
        query = self.query
        if not self.cache.has_source:
            parts = dict(zip(self.projected, query.chunk(len(self.projected), dim=-1), strict=True))
            self.cache.add(parts.get("k"), parts["v"])
            query = parts.get("q")
        key, value, padded_keys = self.cache.gather()
        self.q = None if query is None else split_heads(query, heads)
        self.k = split_heads(key, heads) if "k" in self.projected else None
        self.v = split_heads(value, heads)
        self.masks = AttentionMasks(
            padded_keys=padded_keys,
            padded_queries=spread("query_padding_mask", self.masks.padded_queries, rows, 1),
            future=spread("attn_mask", self.masks.future, 1, keys),
            float_mask=spread("attn_mask", self.masks.float_mask, 1, keys),
        )
        self.previous = spread("previous_logits", self.previous, *self.size)

    @property
    def positions(self) -> tuple[Tensor, Tensor]:
        keys = torch.arange(self.cache.length, device=self.x.device)
        return torch.full((1,), self.cache.beam.steps - 1, device=self.x.device), keys

    def rows_before(self, name: str, rows: Tensor, count: int) -> Tensor | None:
        return self.cache.rows_before(name, rows, count) if count else None

    def vectors_before(self, name: str, x: Tensor, count: int) -> Tensor | None:
        return self.cache.vectors_before(name, x, count) if count else None

    def attend(self, fused: FusedLogits, need_weights: bool) -> tuple[Tensor, Tensor | None, Tensor | None] | None:
        (rows, heads, _, _), masks = self.size, self.masks
        if masks.future is not None or masks.float_mask is not None or 0 in self.size:
            return None
        if not native_step.takes_step(self.query):
            return None
        previous = spread("previous_logits", self.previous, *self.size)
        padded_queries = spread("query_padding_mask", masks.padded_queries, rows, 1)
        return native_step.step(
            self.cache, self.query, heads, self.scale, fused, previous, padded_queries, need_weights
        )

    def evolve(self, *_) -> None:
        return None  # no kernel takes the maps of a step alone


def cache_of(
    step: DecodingStep, attention: MultiheadAttention, key: Tensor, value: Tensor, incremental_state: dict
) -> AttentionCache:
    """The cache of an attention, made at its first step, with this step begun if no decoder has.

    Args:
        key, value: (S, sentences, C), of source tokens or of this step's.
    """
    cache = attention.get_incremental_state(incremental_state, "cache")
    rows, padding = step.x.size(1), step.masks.padded_keys
    if cache is None:
        beam, source = incremental_state.get(BeamState.KEY), None
        if attention.encoder_decoder_attention:
            source = attention.project(key, "k", step), attention.project(value, "v", step)
        cache = AttentionCache(
            BeamState(torch.arange(rows, device=key.device)) if beam is None else beam,
            owns_beam=beam is None,
            source=source,
            source_padding=padding,
        )
        attention.set_incremental_state(incremental_state, "cache", cache)
    if cache.owns_beam:
        cache.beam.advance(None if cache.has_source else spread("key_padding_mask", padding, rows, 1))
    return cache


def repeat_for_beam(
    incremental_state: dict | None, key: Tensor, value: Tensor, padding: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """What there is of each sentence, (S, sentences, C) and (sentences, S), repeated for each of its hypotheses."""
    beam = None if incremental_state is None else incremental_state.get(BeamState.KEY)
    if beam is None:
        return key, value, padding
    sentence = beam.sentence
    key, value = key.index_select(1, sentence), value.index_select(1, sentence)
    return key, value, None if padding is None else padding.index_select(0, sentence)
