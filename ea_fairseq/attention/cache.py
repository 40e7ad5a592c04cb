"""The KV cache of one attention: keys, values and map rows of the decoding steps before the current one."""

from collections.abc import Callable

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from ea_fairseq.attention.beam import BeamState, resized, room_for
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.projection import joined
from ea_fairseq.kernels.arguments import readable
from ea_fairseq.kernels.cpu import step as native_step
from ea_fairseq.kernels.fused_logits import FusedLogits
from ea_fairseq.kernels.masks import spread


class AttentionCache:
    """KV cache whose entries never move; back-pointers follow the beam.

    The key of an earlier step stays in the row where it was computed; :class:`BeamState` points to that row. Keys of
    source tokens are stored once for each sentence, not for each hypothesis.

    Args:
        beam: the decoder's beam, or one for this attention alone.
        owns_beam: whether the beam is for this attention alone, which then advances and reorders it.
        has_source: whether keys and values are those of source tokens; otherwise each step adds its own.

    Attributes:
        keys, values: (room for S, rows, C), of steps or of the source; None before the first step.
        source_padding: (sentences, S), true where a source token is padding.
        rows: the last n + 1 rows of maps, by name, (n + 1, rows, K, room for S); step t is at t modulo n + 1.
        vectors: the last n + 1 vectors of tokens, by name, (n + 1, rows, C); step t is at t modulo n + 1.
        entries: n numbers for each key, by name, (room for S, rows, n), laid out like ``keys``.
        projections: functions that project a step's tokens in one product, by the letters of their outputs.
    """

    def __init__(self, beam: BeamState, owns_beam: bool, has_source: bool):
        self.beam = beam
        self.owns_beam = owns_beam
        self.has_source = has_source
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.source_padding: Tensor | None = None
        self.rows: dict[str, Tensor] = {}
        self.vectors: dict[str, Tensor] = {}
        self.entries: dict[str, Tensor] = {}
        self.projections: dict[str, Callable[[Tensor], Tensor]] = {}
        self.arguments: tuple | None = None  # of a step's kernel, see kernels/cpu/step.py
        self._gathered: tuple | None = None  # sentences, and the source's keys, values and padding for each hypothesis

    @classmethod
    def at_step(
        cls, attention: MultiheadAttention, incremental_state: dict, query: Tensor, padding: Tensor | None
    ) -> "AttentionCache":
        """Returns an attention's cache, made at its first step; begins this step if no decoder has begun it.

        Args:
            query: (1, B, C); padding: (B, 1), true where a token of this step is padding, in self-attention.

        Raises:
            ValueError: if a hypothesis has more than one query, or the number of hypotheses has changed.
        """
        steps, rows, _ = query.shape
        if steps != 1:
            raise ValueError(f"a decoding step takes one token of each hypothesis, not {steps}")
        cache = attention.get_incremental_state(incremental_state, "cache")
        if cache is None:
            beam = incremental_state.get(BeamState.KEY)
            own = BeamState(torch.arange(rows, device=query.device)) if beam is None else beam
            cache = cls(own, owns_beam=beam is None, has_source=attention.encoder_decoder_attention)
            attention.set_incremental_state(incremental_state, "cache", cache)
        if cache.owns_beam:
            cache.beam.advance(None if cache.has_source else spread("key_padding_mask", padding, rows, 1))
        if rows != len(cache.beam):
            raise ValueError(f"a step of {rows} rows cannot follow {len(cache.beam)} hypotheses: reorder them first")
        return cache

    @property
    def buffers(self) -> tuple[Tensor, Tensor]:
        """Keys and values, which exist from the first step on."""
        assert self.keys is not None and self.values is not None
        return self.keys, self.values

    @property
    def length(self) -> int:
        """Number S of keys at this step."""
        return self.buffers[0].size(0) if self.has_source else self.beam.steps

    @property
    def padding(self) -> Tensor | None:
        """True at padding, (sentences, S) for source tokens, otherwise (B, room for S); None if there is none."""
        return self.source_padding if self.has_source else self.beam.padded

    def take_source(self, key: Tensor, value: Tensor, padding: Tensor | None) -> None:
        """Stores keys and values (S, sentences, C) of source tokens, and which are padding, (sentences, S).

        Raises:
            ValueError: if a hypothesis translates a sentence that does not exist, or the padding has another size.
        """
        keys, sentences, _ = key.shape
        if len(self.beam):
            first, last = self.beam.sentence.aminmax()
            if first < 0 or last >= sentences:
                raise ValueError(f"{len(self.beam)} hypotheses translate more than the encoder's {sentences} sentences")
        self.keys = readable("key", key, key.shape, key.dtype)
        self.values = readable("value", value, (keys, sentences, value.size(-1)), key.dtype)
        padding = spread("key_padding_mask", padding, sentences, keys)
        if padding is not None and not padding.any():
            padding = None
        self.source_padding = readable("key_padding_mask", padding, (sentences, keys), torch.bool)

    def project(self, x: Tensor, layers: dict[str, nn.Module]) -> Tensor:
        """Projects a step's tokens x (1, B, C) to (1, B, n C), side by side; the layers' keys are q, k and v."""
        parts = "".join(layers)
        if parts not in self.projections:
            self.projections[parts] = joined(*layers.values()) if len(layers) > 1 else layers[parts]
        return self.projections[parts](x)

    def make_room(self, like: Tensor, key_width: int, value_width: int) -> None:
        """Makes the buffers large enough for this step, of the type of ``like``.

        Args:
            key_width: elements of a key, 0 if no term reads keys; value_width: of a value.
        """
        rows, room = self.beam.widest, room_for(self.beam.steps)
        if self.keys is None:
            self.keys, self.values = like.new_empty(0, rows, key_width), like.new_empty(0, rows, value_width)
        self.keys, self.values = (resized(buffer, room, rows) for buffer in self.buffers)

    def add(self, key: Tensor | None, value: Tensor) -> None:
        """Stores this step's key, if there is one, and value, (1, B, C)."""
        for buffer, now in zip(self.buffers, (key, value), strict=True):
            if now is not None:
                buffer[self.beam.steps - 1, : now.size(1)] = now[0]

    def gather(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Returns keys and values of each hypothesis, (S, B, C), and which are padding, (B, S)."""
        sentence, steps = self.beam.sentence, self.beam.steps
        if self.has_source:
            if self._gathered is None or self._gathered[0] is not sentence:
                padding = None if self.padding is None else self.padding.index_select(0, sentence)
                keys, values = (buffer.index_select(1, sentence) for buffer in self.buffers)
                self._gathered = sentence, keys, values, padding
            return self._gathered[1:]
        keys, values = map(self.by_hypothesis, self.buffers)
        return keys, values, None if self.padding is None else self.padding[:, :steps]

    def by_hypothesis(self, buffer: Tensor) -> Tensor:
        """Returns each hypothesis's entries of all steps so far, (S, B, ...), from a buffer (room for S, rows, ...)."""
        indices = self.beam.flat_indices(0, self.beam.steps, *buffer.shape[:2])
        return buffer.flatten(0, 1).index_select(0, indices).unflatten(0, (self.beam.steps, -1))

    def of_keys(self, name: str, compute: Callable[[Tensor], Tensor], tokens: Tensor) -> Tensor:
        """Applies a function to the tokens of keys, once to each token, and returns the results (S, B, n).

        Args:
            name: under which the results are stored.
            compute: (S, B, C) -> (S, B, n).
            tokens: this step's, (1, B, C), or the source's with a row for each sentence.
        """
        if self.has_source:
            if name not in self.entries:
                self.entries[name] = compute(tokens)
            return self.entries[name].index_select(1, self.beam.sentence)
        now, steps = compute(tokens), self.beam.steps
        buffer = self.entries.get(name, now.new_empty(0, 0, now.size(-1)))
        self.entries[name] = buffer = resized(buffer, room_for(steps), self.beam.widest)
        buffer[steps - 1, : now.size(1)] = now[0]
        return self.by_hypothesis(buffer)

    def rows_of(self, name: str, count: int, heads: int, like: Tensor) -> Tensor:
        """Returns the buffer (count + 1, rows, K, room for S) of a name's last rows, with the type of ``like``."""
        rows = self.beam.widest
        if name not in self.rows:
            self.rows[name] = like.new_empty(count + 1, rows, heads, 0)
        self.rows[name] = resized(self.rows[name], 0, rows, heads, self.buffers[0].size(0))
        return self.rows[name]

    def rows_before(self, name: str, row: Tensor, count: int) -> Tensor:
        """Stores this step's row (B, K, 1, S) of maps under a name.

        Returns:
            The rows of the ``count`` steps before it, (B, K, count, S), zeros before the first step.
        """
        buffer = self.rows_of(name, count, row.size(1), row)
        return self.replace_oldest(buffer[..., : self.length], row[:, :, 0]).permute(1, 2, 0, 3)

    def vectors_before(self, name: str, x: Tensor, count: int) -> Tensor:
        """Stores this step's vectors x (1, B, C) under a name.

        Returns:
            The vectors of the ``count`` steps before it, (count, B, C), zeros before the first step.
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


def repeat_for_beam(
    incremental_state: dict | None, key: Tensor, value: Tensor, padding: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Repeats keys and values (S, sentences, C) and padding (sentences, S) for each hypothesis of a sentence."""
    beam = None if incremental_state is None else incremental_state.get(BeamState.KEY)
    if beam is None:
        return key, value, padding
    sentence = beam.sentence
    key, value = key.index_select(1, sentence), value.index_select(1, sentence)
    return key, value, None if padding is None else padding.index_select(0, sentence)


def step_by_kernel(
    fused: FusedLogits, query: Tensor, inputs: Inputs, need_weights: bool
) -> tuple[Tensor, Tensor | None, Tensor | None] | None:
    """Computes a step's output (1, B, C), probabilities if needed, and logits in one kernel; None if no kernel can.

    Args:
        query: (1, B, C), projected; or (1, B, 3 C), with keys and values to be cached.
    """
    (rows, heads, _, _), masks = inputs.size, inputs.masks
    if masks.future is not None or masks.float_mask is not None or 0 in inputs.size:
        return None
    if not native_step.takes_step(query):
        return None
    previous = spread("previous_logits", inputs.previous, *inputs.size)
    padded_queries = spread("query_padding_mask", masks.padded_queries, rows, 1)
    return native_step.step(inputs.cache, query, heads, inputs.scale, fused, previous, padded_queries, need_weights)
