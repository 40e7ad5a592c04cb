"""The target words among which native code chooses: all that a model knows, or those of a shortlist by their places."""

import torch
from torch import Tensor

from ea_fairseq.search.native_model import NativeModel, StackFields, pack


class Vocabulary:
    """All target words of a model; a word's place is its index in the dictionary.

    Attributes:
        decoder, projection: what native code has of them: embeddings and the output projection.
        size: how many there are.
    """

    def __init__(self, native: NativeModel):
        self.decoder, self.projection, self.size = native.decoder, native.vocabulary, native.symbols[1]

    def places(self, words: Tensor) -> Tensor:
        """The places of words, int32."""
        return words.int().contiguous()

    def words(self, places: Tensor) -> Tensor:
        """The words at places, int64."""
        return places.long()


class ShortVocabulary(Vocabulary):
    """Some of the target words (W,), ascending.

    It has the positions that the model knows when this is made.
    """

    def __init__(self, native: NativeModel, chosen: Tensor):
        self._chosen, self.size = chosen, len(chosen)
        self._places = torch.full((native.symbols[1],), -1).index_copy(0, chosen, torch.arange(self.size))
        self._embeddings = native.target_embeddings[chosen]
        bias = native.output_projection.bias
        self.projection, self._packed = pack(
            native.output_projection.weight[chosen], None if bias is None else bias[chosen], native.bfloat16
        )
        self.decoder = StackFields.from_buffer_copy(native.decoder)
        self.decoder.embeddings = self._embeddings.data_ptr()

    def places(self, words: Tensor) -> Tensor:
        return self._places[words].int()

    def words(self, places: Tensor) -> Tensor:
        return self._chosen[places.long()]
