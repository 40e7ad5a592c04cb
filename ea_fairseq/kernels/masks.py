"""Padding and causal masks."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

# A float mask has -inf where a query must not see a key, or what others write instead: it is far below whatever a bias
# may be, and float16 can hold it.
MASKED_FROM = -1e4


@dataclass
class AttentionMasks:
    """Which entries of an attention's maps (B, K, T, S) are masked; made once for all layers that share it.

    Args:
        padded_keys: (B, S), true at padding.
        padded_queries: (B, T), true at padding; a convolution must read such rows as zeros.
        future: (T, S), true where a query must not see a key, such as one that comes later.
        float_mask: (T, S), finite numbers that the softmax adds to logits, and nobody else reads.
    """

    padded_keys: Tensor | None = None
    padded_queries: Tensor | None = None
    future: Tensor | None = None
    float_mask: Tensor | None = None
    _made: dict[object, Tensor | None] = field(default_factory=dict, repr=False)  # of these, so far

    @classmethod
    def of(
        cls, padded_keys: Tensor | None, padded_queries: Tensor | None, attn_mask: Tensor | None
    ) -> "AttentionMasks":
        """From fairseq's masks; ``attn_mask`` (T, S) is true where a query must not see a key, or is added to logits.

        Raises:
            TypeError: where ``attn_mask`` is of whole numbers.
        """
        padded_keys = None if padded_keys is None else padded_keys.bool()
        padded_queries = None if padded_queries is None else padded_queries.bool()
        if attn_mask is None or attn_mask.dtype is torch.bool:
            return cls(padded_keys, padded_queries, attn_mask)
        if not attn_mask.is_floating_point():
            raise TypeError(f"attn_mask must be of bool or of numbers to add to logits, not of {attn_mask.dtype}")
        future = attn_mask <= MASKED_FROM
        finite = attn_mask.masked_fill(future, 0.0)
        matters = torch.compiler.is_compiling() or attn_mask.requires_grad or finite.any()
        return cls(padded_keys, padded_queries, future, finite if matters else None)

    def of_size(self, sentences: int, queries: int, keys: int) -> "AttentionMasks":
        """The masks of B sentences, T queries and S keys; those with one row or column for all are spread.

        Raises:
            ValueError: where a mask is of another size.
        """
        return AttentionMasks(
            spread("key_padding_mask", self.padded_keys, sentences, keys),
            spread("query_padding_mask", self.padded_queries, sentences, queries),
            spread("attn_mask", self.future, queries, keys),
            spread("attn_mask", self.float_mask, queries, keys),
        )

    @property
    def masked(self) -> Tensor | None:
        """True, broadcastable to (B, 1, T, S), where a query must not see a key."""
        if "masked" not in self._made:
            padded_keys = None if self.padded_keys is None else self.padded_keys[:, None, None, :]
            self._made["masked"] = either(padded_keys, self.future)
        return self._made["masked"]

    @property
    def masked_or_padded_row(self) -> Tensor | None:
        """True, broadcastable to (B, 1, T, S), where a key is masked or the query is padding."""
        if "row" not in self._made:
            padded_queries = None if self.padded_queries is None else self.padded_queries[:, None, :, None]
            self._made["row"] = either(self.masked, padded_queries)
        return self._made["row"]

    def cleared(self, logits: Tensor) -> Tensor:
        """Logits (B, K, T, S) with zeros at masked entries and padded rows, so that nobody can read how many there are.

        Zeros and not -inf, because convolutions add up what they read.
        """
        return logits if self.masked_or_padded_row is None else logits.masked_fill(self.masked_or_padded_row, 0.0)

    def cleared_tokens(self, x: Tensor) -> Tensor:
        """Vectors x (S, B, C) of keys with zeros at padding, for convolutions over words."""
        return x if self.padded_keys is None else x.masked_fill(self.padded_keys.T.unsqueeze(-1), 0.0)

    def attn_mask(self, dtype: torch.dtype) -> Tensor | None:
        """fairseq's mask (T, S), to add to logits of a type: -inf where a query must not see a key, padding aside."""
        if self.future is None:
            return None
        if ("fairseq", dtype) not in self._made:
            finite = (
                torch.zeros_like(self.future, dtype=dtype) if self.float_mask is None else self.float_mask.to(dtype)
            )
            self._made["fairseq", dtype] = finite.masked_fill(self.future, -torch.inf)
        return self._made["fairseq", dtype]

    def additive_mask(self, dtype: torch.dtype) -> Tensor | None:
        """What to add to logits of a type, broadcastable to (B, 1, T, S), so that masked keys get no probability.

        Half the lowest number, not -inf: a row of masked keys alone stays finite, and all its keys alike.
        """
        if self.masked is None:
            return None
        if ("softmax", dtype) not in self._made:
            zeros = torch.zeros_like(self.masked, dtype=dtype)
            self._made["softmax", dtype] = zeros.masked_fill(self.masked, torch.finfo(dtype).min / 2)
        return self._made["softmax", dtype]


def either(mask: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Where one of two masks is true, each of which may be missing."""
    if mask is None or other is None:
        return other if mask is None else mask
    return mask | other


def probabilities(logits: Tensor, masks: AttentionMasks, sinks: Tensor | None = None) -> Tensor:
    """Softmax over the keys that are not masked, (B, K, T, S); of half precision in float32, as in fairseq.

    Args:
        sinks: (K) or (B, K, T), a logit of each head or query that takes its part of the sum, without a probability in
            the result.
    """
    dtype = torch.float64 if logits.dtype is torch.float64 else torch.float32
    if masks.float_mask is not None:
        logits = logits + masks.float_mask.to(dtype)
    additive = masks.additive_mask(logits.dtype)
    if additive is not None:
        logits = logits + additive
    if sinks is None:
        return logits.softmax(dim=-1, dtype=dtype)
    of_queries = sinks if sinks.dim() == 3 else sinks[:, None].expand(logits.shape[:3])
    logits = torch.cat([logits, of_queries.type_as(logits).unsqueeze(-1)], dim=-1)
    return logits.softmax(dim=-1, dtype=dtype)[..., :-1]


def spread(name: str, tensor: Tensor | None, *size: int) -> Tensor | None:
    """The tensor broadcast to a size, in each dimension of which it has one row for all or all of them.

    Raises:
        ValueError: naming the tensor, if it cannot be broadcast.
    """
    if tensor is None or tensor.shape == size:
        return tensor
    if tensor.dim() != len(size) or any(own not in (1, full) for own, full in zip(tensor.shape, size, strict=True)):
        raise ValueError(f"{name} has the size {tuple(tensor.shape)}, which does not spread over {size}")
    return tensor.expand(size)


def none_if_empty(padding_mask: Tensor) -> Tensor | None:
    """Returns None for a mask without padding, so that attentions skip the masking, as in fairseq.

    A compiled or exported graph cannot branch on a tensor's values: there the mask is returned, with the same result.
    """
    return padding_mask if torch.compiler.is_compiling() or padding_mask.any() else None
