"""The hypotheses of beam search, and which steps of which hypotheses they continue."""

from operator import ge

import torch
from torch import Tensor


class Hypotheses:
    """Tells, for each hypothesis of a batch, its sentence and where its earlier steps were computed.

    Whatever a decoder remembers of a step stays in the row where it was computed, while hypotheses change places,
    multiply and end: only these tables follow them, once for all layers.

    Args:
        sentence: (B,), the row of the encoder's output that a hypothesis translates.
    """

    KEY = "hypotheses"  # of an incremental state

    def __init__(self, sentence: Tensor):
        self.sentence = sentence.int().contiguous()
        self.ancestors = self.sentence.new_empty(len(sentence), 0)  # (B, room for steps)
        self.padded: Tensor | None = None  # (B, room for steps), where a word has been padding
        self.steps = 0
        self.most = 0  # hypotheses there have been at a step
        self._places: dict[tuple[int, ...], Tensor] = {}  # of this step

    def __len__(self) -> int:
        return self.sentence.size(0)

    def advance(self, padding: Tensor | None = None):
        """Begins a step; its words are padding where ``padding`` (B, 1) is true."""
        self.most = max(self.most, len(self))
        if padding is not None and self.padded is None:
            self.padded = torch.zeros_like(self.ancestors, dtype=torch.bool)
        room = room_for(self.steps + 1)
        self.ancestors = resized(self.ancestors, len(self), room)
        self.ancestors[:, self.steps] = torch.arange(len(self), device=self.ancestors.device)
        if self.padded is not None:
            self.padded = resized(self.padded, len(self), room)
            self.padded[:, self.steps] = False if padding is None else padding[:, 0]
        self.steps += 1
        self._places.clear()

    def places(self, first: int, last: int, room: int, rows: int) -> Tensor:
        """Where what hypotheses have of steps ``first`` to ``last`` - 1 lies, step by step: (last - first) * B numbers.

        Args:
            room, rows: of a buffer that has a row of step t at (t modulo room) * rows + its number.
        """
        key = first, last, room, rows
        if key not in self._places:
            steps = torch.arange(first, last, device=self.ancestors.device)
            ancestors = self.ancestors.index_select(1, steps.clamp(min=0)).T
            self._places[key] = (ancestors + (steps % room * rows).unsqueeze(1)).flatten()
        return self._places[key]

    def reorder(self, new_order: Tensor):
        """Row i continues what row ``new_order[i]`` was."""
        sentence = self.sentence.index_select(0, new_order)
        if not torch.equal(sentence, self.sentence):  # else it stays the same tensor, by which others know
            self.sentence = sentence
        self.ancestors = self.ancestors.index_select(0, new_order)
        if self.padded is not None:
            self.padded = self.padded.index_select(0, new_order)


def room_for(count: int) -> int:
    """Room that doubles, so that growing costs no more than what is kept."""
    return max(16, 1 << (count - 1).bit_length())


def resized(tensor: Tensor, *size: int) -> Tensor:
    """The tensor, or where one of its first dimensions is smaller than this, a copy with room, of zeros."""
    if all(map(ge, tensor.shape, size)):
        return tensor
    shape = [max(old, new) for old, new in zip(tensor.shape, size, strict=False)]
    larger = tensor.new_zeros(*shape, *tensor.shape[len(size) :])
    larger[tuple(slice(old) for old in tensor.shape)] = tensor
    return larger
