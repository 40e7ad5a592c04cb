"""The encoder's output as beam search wants it: a row for each hypothesis, though all those of a sentence are alike."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class SelectedRows(Sequence):
    """Tensors with a selection of the rows of others, copied only when somebody asks for one.

    fairseq repeats the encoder's output for each hypothesis and reorders it at each step; our decoder reads what there
    is of each sentence.

    Args:
        sources: tensors with a row for each sentence.
        dim: the dimension of their rows.
        index: (B,), the row that each hypothesis has.
    """

    sources: list[Tensor]
    dim: int
    index: Tensor

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, item: int) -> Tensor:
        return self.sources[item].index_select(self.dim, self.index)


def select(encoder_out: dict[str, Sequence[Tensor]], dims: dict[str, int], new_order: Tensor) -> dict[str, Sequence]:
    """The encoder's output with row ``new_order[i]`` as row i; ``dims`` has the dimension of the rows of each entry."""
    index = next((rows.index for rows in encoder_out.values() if isinstance(rows, SelectedRows)), None)
    index = new_order if index is None else index.index_select(0, new_order)
    return {name: SelectedRows(sources(encoder_out[name]), dim, index) for name, dim in dims.items()}


def sources(rows: Sequence[Tensor]) -> Sequence[Tensor]:
    """The tensors with a row for each sentence."""
    return rows.sources if isinstance(rows, SelectedRows) else rows
