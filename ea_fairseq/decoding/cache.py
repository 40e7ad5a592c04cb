"""What one attention remembers of earlier decoding steps."""

from collections.abc import Callable

import torch
from torch import Tensor

from ea_fairseq.decoding.beam import Hypotheses, resized, room_for
from ea_fairseq.kernels.tensors import readable, spread


class AttentionCache:
    """Keys, values and logits of one attention, in buffers that stay where they are while hypotheses change places.

    A key of an earlier step lies in the row that it was computed in, which :class:`Hypotheses` tells; keys of source
    words are there once for each sentence.

    Args:
        hypotheses: those of the decoder, or of this attention alone.
        is_alone: whether there is no decoder to begin steps and to reorder hypotheses.
        rows_above: number of earlier rows that the convolution reads.
        project: gives query, key and value of a target word, side by side; None where keys are of source words.
        source: keys and values (S, sentences, C) of source words; None where each step adds its own.
        source_padding: (sentences, S), true, or not zero, where a source word is padding.

    Raises:
        ValueError: where a hypothesis has no sentence, or a step another number of rows than there are hypotheses.
    """

    def __init__(
        self,
        hypotheses: Hypotheses,
        is_alone: bool,
        rows_above: int,
        project: Callable[[Tensor], Tensor] | None = None,
        source: tuple[Tensor, Tensor] | None = None,
        source_padding: Tensor | None = None,
    ):
        if source is not None:
            source, source_padding = readable_source(hypotheses, *source, source_padding)
        self.hypotheses = hypotheses
        self.is_alone = is_alone
        self.rows_above = rows_above
        self.project = project
        self.has_source = source is not None
        self.keys, self.values = source or (None, None)  # (room for S, rows, C)
        self.source_padding = source_padding
        self._repeated: tuple | None = None  # the source's for each hypothesis, and the sentences they belong to
        self.mixed: Tensor | None = None  # (rows_above + 1, rows, K, room for S), by step modulo its length

    @property
    def length(self) -> int:
        """Number S of keys at this step."""
        return self.keys.size(0) if self.has_source else self.hypotheses.steps

    @property
    def padding(self) -> Tensor | None:
        """True at padding: (sentences, S) of source words, otherwise (B, room for S); None where there is none."""
        return self.source_padding if self.has_source else self.hypotheses.padded

    def make_room(self, words: Tensor, heads: int, width: int):
        """Makes the buffers large enough for a step of projected ``words`` (1, B, ...), of K heads of a width."""
        if words.size(1) != len(self.hypotheses):
            raise ValueError(
                f"a step of {words.size(1)} rows cannot follow {len(self.hypotheses)} hypotheses: reorder them first"
            )
        rows = self.hypotheses.most
        if not self.has_source:
            if self.keys is None:
                self.keys, self.values = (words.new_empty(0, rows, heads * width) for _ in range(2))
            room = room_for(self.hypotheses.steps)
            self.keys, self.values = resized(self.keys, room, rows), resized(self.values, room, rows)
        if self.rows_above:
            if self.mixed is None:
                self.mixed = words.new_empty(self.rows_above + 1, rows, heads, 0)
            self.mixed = resized(self.mixed, 0, rows, heads, self.keys.size(0))

    def add(self, key: Tensor, value: Tensor):
        """Remembers this step's key and value, (1, B, C)."""
        self.keys[self.hypotheses.steps - 1, : key.size(1)] = key[0]
        self.values[self.hypotheses.steps - 1, : key.size(1)] = value[0]

    def recall(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys and values of each hypothesis, (S, B, C), and which are padding, (B, S)."""
        sentence, steps = self.hypotheses.sentence, self.hypotheses.steps
        if self.has_source:
            if self._repeated is None or self._repeated[0] is not sentence:
                padding = None if self.padding is None else self.padding.index_select(0, sentence)
                keys, values = self.keys.index_select(1, sentence), self.values.index_select(1, sentence)
                self._repeated = sentence, keys, values, padding
            return self._repeated[1:]
        places = self.hypotheses.places(0, steps, *self.keys.shape[:2])
        keys, values = (
            buffer.flatten(0, 1).index_select(0, places).unflatten(0, (steps, -1))
            for buffer in (self.keys, self.values)
        )
        return keys, values, None if self.padding is None else self.padding[:, :steps]

    def below_earlier_rows(self, mixed: Tensor) -> Tensor:
        """Remembers this step's row (B, K, 1, S) of what the convolution reads.

        Returns:
            (B, K, rows_above + 1, S): the rows of the steps before it, zeros before the first one, and the row itself.
        """
        now, (room, rows) = self.hypotheses.steps - 1, self.mixed.shape[:2]
        places = self.hypotheses.places(now - self.rows_above, now, room, rows)
        earlier = self.mixed.flatten(0, 1)[..., : self.length].index_select(0, places)
        earlier = earlier.unflatten(0, (self.rows_above, -1)).permute(1, 2, 0, 3)
        self.mixed[now % room, : mixed.size(0), :, : self.length] = mixed[:, :, 0]
        return torch.cat([earlier, mixed], dim=2)


def readable_source(
    hypotheses: Hypotheses, key: Tensor, value: Tensor, padding: Tensor | None
) -> tuple[tuple[Tensor, Tensor], Tensor | None]:
    """Keys and values of source words, and where some are padding, which, as native code reads them at each step."""
    keys, sentences, _ = key.shape
    if len(hypotheses):
        first, last = hypotheses.sentence.aminmax()
        if first < 0 or last >= sentences:
            raise ValueError(f"{len(hypotheses)} hypotheses translate more than the encoder's {sentences} sentences")
    source = readable("key", key, key.shape, key.dtype), readable("value", value, key.shape, key.dtype)
    padding = spread("key_padding_mask", padding, sentences, keys)
    if padding is not None and not padding.any():
        padding = None
    return source, readable("key_padding_mask", padding, (sentences, keys), torch.bool)
