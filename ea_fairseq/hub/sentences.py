"""Checks of the sentences that a model is given."""

from torch import Tensor

from ea_fairseq.errors import UserError


def require_words(side: str, sentences: list[Tensor]):
    """Raises UserError where one of the sentences (T,) has no token but ``</s>``."""
    for number, tokens in enumerate(sentences, 1):
        if len(tokens) < 2:
            raise UserError(f"{side} sentence {number} is empty: give it at least one word.")


def require_length(side: str, sentences: list[Tensor], limit: int):
    """Raises UserError where one of the sentences (T,) has more tokens than ``limit``, the model's positions."""
    for number, tokens in enumerate(sentences, 1):
        if len(tokens) > limit:
            raise UserError(
                f"{side} sentence {number} has {len(tokens)} tokens and the model reads at most {limit}: split it."
            )
