"""On a CPU, ``--no-repeat-ngram-size`` keeps n-grams from being repeated.

``NGramRepeatBlock._no_repeat_ngram`` (fairseq/ngram_repeat_block.py) compares earlier tokens with the last ones of rows
that the search has filled with padding up to the longest hypothesis, so that nothing is ever forbidden (fairseq's issue
5206). Here it sees the tokens so far.
"""

from fairseq.ngram_repeat_block import NGramRepeatBlock
from torch import Tensor

fairseq_block = NGramRepeatBlock._no_repeat_ngram


def patch_ngrams() -> None:
    """Replaces ``NGramRepeatBlock._no_repeat_ngram`` by the function below."""
    NGramRepeatBlock._no_repeat_ngram = block


def block(self: NGramRepeatBlock, tokens: Tensor, lprobs: Tensor, bsz: int, beam_size: int, step: int) -> Tensor:
    """Log-probabilities (B * beam, V), -inf where a word would repeat an n-gram of the tokens (B * beam, longest)."""
    return fairseq_block(self, tokens[:, : step + 1], lprobs, bsz, beam_size, step)
