"""Beam search in a decoder: back-pointers, and the encoder's output stored by sentence instead of by hypothesis."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import ge

import torch
from torch import Tensor


class BeamState:
    """Back-pointers of a batch of hypotheses, which all KV caches of a decoder share.

    Cached keys and values stay in the row where they were computed while hypotheses are reordered, copied and dropped;
    only these tables are reordered, once for all layers.

    Args:
        sentence: (B,), the row of the encoder's output that each hypothesis translates.

    Attributes:
        back_pointers: (B, room for steps), the row in which each step of a hypothesis was computed.
        padded: (B, room for steps), true where a token was padding; None if there is none.
        steps: the number of steps that have begun.
        widest: the largest number of hypotheses of a step.
    """

    KEY = "beam"  # in an incremental state

    def __init__(self, sentence: Tensor):
        self.sentence = sentence.int().contiguous()
        self.back_pointers = self.sentence.new_empty(len(sentence), 0)
        self.padded: Tensor | None = None
        self.steps = 0
        self.widest = 0
        self._flat_indices: dict[tuple[int, ...], Tensor] = {}  # for this step

    def __len__(self) -> int:
        return self.sentence.size(0)

    def advance(self, padding: Tensor | None = None) -> None:
        """Begins a step; its tokens are padding where ``padding`` (B, 1) is true."""
        self.widest = max(self.widest, len(self))
        if padding is not None and self.padded is None:
            self.padded = torch.zeros_like(self.back_pointers, dtype=torch.bool)
        room = room_for(self.steps + 1)
        self.back_pointers = resized(self.back_pointers, len(self), room)
        self.back_pointers[:, self.steps] = torch.arange(len(self), device=self.back_pointers.device)
        if self.padded is not None:
            self.padded = resized(self.padded, len(self), room)
            self.padded[:, self.steps] = False if padding is None else padding[:, 0]
        self.steps += 1
        self._flat_indices.clear()

    def flat_indices(self, first: int, last: int, room: int, rows: int) -> Tensor:
        """Returns flat buffer indices of steps ``first`` to ``last`` - 1, ((last - first) * B,), step by step.

        Args:
            room, rows: sizes of a buffer (room, rows, ...) with row r of step t at [t modulo room, r].
        """
        key = first, last, room, rows
        if key not in self._flat_indices:
            steps = torch.arange(first, last, device=self.back_pointers.device)
            back_pointers = self.back_pointers.index_select(1, steps.clamp(min=0)).T
            self._flat_indices[key] = (back_pointers + (steps % room * rows).unsqueeze(1)).flatten()
        return self._flat_indices[key]

    def reorder(self, new_order: Tensor) -> None:
        """Lets row i continue the hypothesis of row ``new_order[i]``; ``new_order`` is (B,)."""
        sentence = self.sentence.index_select(0, new_order)
        if not torch.equal(sentence, self.sentence):  # caches compare the tensor's identity to see changes
            self.sentence = sentence
        self.back_pointers = self.back_pointers.index_select(0, new_order)
        if self.padded is not None:
            self.padded = self.padded.index_select(0, new_order)


@dataclass(frozen=True)
class SelectedRows(Sequence[Tensor]):
    """Selected rows of other tensors, each tensor copied only when it is read.

    fairseq repeats the encoder's output for each hypothesis and reorders it at each step; our decoder reads it by
    sentence.

    Args:
        sources: tensors with a row for each sentence.
        dim: the dimension of their rows.
        rows: (B,), the row of each hypothesis.
    """

    sources: Sequence[Tensor]
    dim: int
    rows: Tensor

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, item: int) -> Tensor:  # type: ignore[override]  # no slices
        return self.sources[item].index_select(self.dim, self.rows)


def select(encoder_out: dict[str, Sequence[Tensor]], dims: dict[str, int], new_order: Tensor) -> dict[str, Sequence]:
    """Selects row ``new_order[i]`` of the encoder's output as row i; ``dims`` has the row dimension of each entry."""
    before = next((entry.rows for entry in encoder_out.values() if isinstance(entry, SelectedRows)), None)
    rows = new_order if before is None else before.index_select(0, new_order)
    return {name: SelectedRows(by_sentence(encoder_out[name]), dim, rows) for name, dim in dims.items()}


def by_sentence(rows: Sequence[Tensor]) -> Sequence[Tensor]:
    """Returns the tensors, with a row for each sentence, from which rows were selected, or ``rows`` itself."""
    return rows.sources if isinstance(rows, SelectedRows) else rows


def room_for(count: int) -> int:
    """Returns a power of 2 from 16 up that holds ``count``: doubling a buffer costs no more than filling it."""
    return max(16, 1 << (count - 1).bit_length())


def resized(tensor: Tensor, *size: int) -> Tensor:
    """Returns the tensor, or a copy enlarged with zeros if one of its first dimensions is smaller than this."""
    if all(map(ge, tensor.shape, size)):
        return tensor
    shape = [max(old, new) for old, new in zip(tensor.shape, size, strict=False)]
    larger = tensor.new_zeros(*shape, *tensor.shape[len(size) :])
    larger[tuple(slice(old) for old in tensor.shape)] = tensor
    return larger
