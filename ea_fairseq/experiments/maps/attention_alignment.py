"""The alignment of words that a model's cross-attention makes, against a given one."""

import torch
from fairseq.data import Dictionary
from torch import Tensor
from torch.nn.functional import one_hot

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.maps.subwords import word_numbers
from ea_fairseq.experiments.maps.word_alignment import AlignmentError, WordAlignment
from ea_fairseq.hub.translation import TranslationHub


class AttentionAlignment:
    """Adds up the alignment error of cross-attention maps over the pairs of a text.

    Args:
        alignments: the given one of each pair.

    Attributes:
        left_out: how many pairs do not count, because pieces of theirs are unknown and nobody can tell their words.
    """

    def __init__(self, hub: TranslationHub, alignments: list[WordAlignment]):
        self.hub, self.subword = hub, hub.subword
        self.alignments = alignments
        self.errors = AlignmentError()
        self.left_out = 0

    def add(self, batch: dict, maps: Tensor) -> None:
        """Counts the links of a batch's maps (L, B, K, T, S); a target word's row is the one that predicts it.

        Raises:
            UserError: naming the line of the alignment that has a word that is not there.
        """
        targets, sources = batch["target"].cpu(), batch["net_input"]["src_tokens"].cpu()
        for row, pair in enumerate(batch["id"].tolist()):
            pieces = maps[:, row]
            pieces = pieces[:, :, targets[row] != self.hub.tgt_dict.pad()]
            pieces = pieces[..., sources[row] != self.hub.src_dict.pad()]
            queries = self.words(targets[row], self.hub.tgt_dict)
            keys = self.words(sources[row], self.hub.src_dict)
            if queries is None or keys is None:
                self.left_out += 1
                continue
            words = merge(pieces, queries, keys)[..., :-1, :-1]  # without </s>
            try:
                self.errors.add(words, self.alignments[pair])
            except ValueError as error:
                raise UserError(
                    f"the alignment, line {pair + 1}, links word {error}, and the pair has {words.size(-1)} source and "
                    f"{words.size(-2)} target words: number the tokenized words of this data from 0."
                ) from None

    def words(self, tokens: Tensor, dictionary: Dictionary) -> list[int] | None:
        """The numbers of the words of a row of tokens, or None where they cannot be told."""
        pieces = [dictionary[token] for token in tokens if token != dictionary.pad()]
        if self.subword != "none" and dictionary.unk_word in pieces:
            return None
        return word_numbers(pieces, self.subword)


def merge(probabilities: Tensor, queries: list[int], keys: list[int]) -> Tensor:
    """Maps (..., T, S) of pieces as maps of words: a word gets what its pieces get, and gives the mean of theirs.

    Args:
        queries, keys: the T and S numbers of the pieces' words, see :func:`subwords.word_numbers`.
    """
    rows, columns = (one_hot(torch.tensor(numbers)).to(probabilities) for numbers in (queries, keys))
    return (rows / rows.sum(0)).T @ probabilities @ columns
