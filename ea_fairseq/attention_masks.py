"""What an attention's map must not show."""

import torch
from torch import Tensor

from ea_fairseq.kernel_tensors import spread


class AttentionMasks:
    """Where the map (B, K, T, S) of an attention holds nothing; made once for all layers that share it.

    Args:
        keys: (B, S), true at padding.
        queries: (B, T), true at padding whose rows the convolution must read as zeros.
        later: (T, S), true where a key comes later than the query.
    """

    def __init__(self, keys: Tensor | None = None, queries: Tensor | None = None, later: Tensor | None = None):
        self.keys, self.queries, self.later = (mask if mask is None else mask.bool() for mask in (keys, queries, later))
        self._unseen = self._blank = self._added = self._hiding = None

    def of_size(self, sentences: int, queries: int, keys: int) -> "AttentionMasks":
        """The masks of B sentences, T queries and S keys; those with one row or column for all are spread.

        Raises:
            ValueError: where a mask is of another size.
        """
        own = self.keys, self.queries, self.later
        full = (
            spread("key_padding_mask", self.keys, sentences, keys),
            spread("query_padding_mask", self.queries, sentences, queries),
            spread("attn_mask", self.later, queries, keys),
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

    def added(self, like: Tensor) -> Tensor | None:
        """(T, S) of the type of ``like``, -inf where a key comes later, as fairseq's attention takes it."""
        if self._added is None and self.later is not None:
            self._added = torch.zeros_like(self.later, dtype=like.dtype).masked_fill(self.later, -torch.inf)
        return self._added

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
    if masks.unseen is not None:
        logits = logits + masks.hiding(logits)
    return logits.softmax(dim=-1, dtype=torch.float64 if logits.dtype is torch.float64 else torch.float32)
