"""The base of data sets whose examples are in memory."""

import numpy as np
from fairseq.data import FairseqDataset


class Examples(FairseqDataset):
    """Examples with sizes, which ``--max-tokens`` adds up.

    Args:
        sizes: of all examples, (N,).
        shuffle: whether batches are drawn anew in each epoch.
    """

    def __init__(self, sizes: np.ndarray, shuffle: bool):
        self.sizes, self.shuffle = sizes, shuffle

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether batches stay the same."""
        return not self.shuffle

    def __len__(self) -> int:
        return len(self.sizes)

    def num_tokens(self, index: int) -> int:
        """Returns the size of an example."""
        return self.size(index)

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        """Returns the sizes of several examples."""
        return self.sizes[indices]

    def size(self, index: int) -> int:
        """Returns the size of an example."""
        return int(self.sizes[index])

    def ordered_indices(self) -> np.ndarray:
        """Returns the order in which examples go into batches, drawn by the seed that fairseq has set."""
        return np.random.permutation(len(self)) if self.shuffle else np.arange(len(self))
