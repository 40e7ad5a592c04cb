"""What an attention's map must not show."""

import torch
from torch import Tensor

from ea_fairseq.kernels.tensors import spread

# What a mask that is added to logits has where a query must not see a key: -inf, or what others write in its place. It
# is far below whatever a bias may be, and float16 has it.
HIDING = -1e4


class AttentionMasks:
    """Where the map (B, K, T, S) of an attention holds nothing; made once for all layers that share it.

    Args:
        keys: (B, S), true at padding.
        queries: (B, T), true at padding whose rows the convolution must read as zeros.
        later: (T, S), true where a query must not see a key, as one that comes later.
        added: (T, S), what the softmax adds to logits, and nobody else.
    """

    def __init__(
        self,
        keys: Tensor | None = None,
        queries: Tensor | None = None,
        later: Tensor | None = None,
        added: Tensor | None = None,
    ):
        self.keys, self.queries, self.later = (mask if mask is None else mask.bool() for mask in (keys, queries, later))
        self.added = added
        self._unseen = self._blank = self._sum = self._hiding = None

    @classmethod
    def of(cls, keys: Tensor | None, queries: Tensor | None, attn_mask: Tensor | None) -> "AttentionMasks":
        """From fairseq's mask (T, S): true where a query must not see a key, or numbers to add, HIDING or less there.

        Raises:
            TypeError: where it is of whole numbers.
        """
        if attn_mask is None or attn_mask.dtype is torch.bool:
            return cls(keys, queries, attn_mask)
        if not attn_mask.is_floating_point():
            raise TypeError(f"attn_mask must be of bool or of numbers to add to logits, not of {attn_mask.dtype}")
        later = attn_mask <= HIDING
        added = attn_mask.masked_fill(later, 0.0)
        matters = torch.compiler.is_compiling() or attn_mask.requires_grad or added.any()
        return cls(keys, queries, later, added if matters else None)

    def of_size(self, sentences: int, queries: int, keys: int) -> "AttentionMasks":
        """The masks of B sentences, T queries and S keys; those with one row or column for all are spread.

        Raises:
            ValueError: where a mask is of another size.
        """
        own = self.keys, self.queries, self.later, self.added
        full = (
            spread("key_padding_mask", self.keys, sentences, keys),
            spread("query_padding_mask", self.queries, sentences, queries),
            spread("attn_mask", self.later, queries, keys),
            spread("attn_mask", self.added, queries, keys),
        )
        return self if all(mask is of_size for mask, of_size in zip(own, full, strict=True)) else AttentionMasks(*full)

    @property
    def unseen(self) -> Tensor | None:
        """True, broadcastable to (B, 1, T, S), where a query must not see a key: padding or a later word."""
        if self._unseen is None:
            keys = None if self.keys is None else self.keys[:, None, None, :]
            self._unseen = either(keys, self.later)
        return self._unseen

    @property
    def blank(self) -> Tensor | None:
        """True, broadcastable to (B, 1, T, S), where the map holds nothing: unseen keys and rows of padding."""
        if self._blank is None:
            queries = None if self.queries is None else self.queries[:, None, :, None]
            self._blank = either(self.unseen, queries)
        return self._blank

    def attn_mask(self, like: Tensor) -> Tensor | None:
        """(T, S) of the type of ``like``, to add to logits, -inf where a key must not be seen: fairseq's mask."""
        if self._sum is None and self.later is not None:
            numbers = torch.zeros_like(self.later, dtype=like.dtype) if self.added is None else self.added.to(like)
            self._sum = numbers.masked_fill(self.later, -torch.inf)
        return self._sum

    def hiding(self, logits: Tensor) -> Tensor:
        """What to add to logits, of their type, so that the softmax leaves nothing of unseen keys.

        Half the lowest number, not -inf: a row without any key stays finite, and all its keys alike.
        """
        if self._hiding is None:
            lowest = torch.finfo(logits.dtype).min / 2
            self._hiding = torch.zeros_like(self.unseen, dtype=logits.dtype).masked_fill(self.unseen, lowest)
        return self._hiding


def either(mask: Tensor | None, other: Tensor | None) -> Tensor | None:
    if mask is None or other is None:
        return other if mask is None else mask
    return mask | other


def probabilities(logits: Tensor, masks: AttentionMasks) -> Tensor:
    """Softmax over the keys that are seen, (B, K, T, S); as in fairseq, half precision ends before it."""
    dtype = torch.float64 if logits.dtype is torch.float64 else torch.float32
    if masks.added is not None:
        logits = logits + masks.added.to(dtype)
    if masks.unseen is not None:
        logits = logits + masks.hiding(logits)
    return logits.softmax(dim=-1, dtype=dtype)
