"""The inputs of the steps of an attention, and what it passes on to the next layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from ea_fairseq.kernels.attend import split_heads
from ea_fairseq.kernels.masks import AttentionMasks, spread

if TYPE_CHECKING:
    from ea_fairseq.attention.cache import AttentionCache


class Passed(NamedTuple):
    """What an attention passes on to the attention of the same kind in the next layer.

    Args:
        logits: (B, K, T, S), zero at masked entries if the class passes them on.
        values: (S, B, C), projected values that the mechanism passes on, or (n, T, B, ...) of n layers.
    """

    logits: Tensor | None = None
    values: Tensor | None = None


NOTHING = Passed()


@dataclass
class Inputs:
    """The inputs of terms, convolutions and the steps of a mechanism, for whole sentences or one decoding step.

    Args:
        x: (T, B, C), the tokens that queries are projected from; in a decoding step, T is 1.
        memory: (S, B, C), the tokens that keys are projected from; in a decoding step this step's, or the source's
            with a row for each sentence.
        masks: of the attention's maps; before :meth:`split_heads` they may have a single row or column, to broadcast.
        heads: the number K of heads.
        scale: of the dot product, 1 / sqrt(d).
        cache: of a decoding step.
        previous: logits (B, K, T, S) of the layer below, zero at masked entries; None in the first layer, and if no
            logits are passed on.
        first_values: values (S, B, C) that the layer below passes on, or what it passes on instead; None in the first
            layer, and if none are passed on.
        beside: probabilities (B, K, T, n) of a mechanism's further entries in the softmax, besides the keys.
        q, k, v: queries (B, K, T, d), keys and values (B, K, S, d), projected; :meth:`split_heads` sets those that
            terms read.
    """

    x: Tensor
    memory: Tensor
    masks: AttentionMasks
    heads: int
    scale: float
    cache: AttentionCache | None = None
    previous: Tensor | None = None
    first_values: Tensor | None = None
    beside: Tensor | None = None
    q: Tensor = field(init=False)
    k: Tensor = field(init=False)
    v: Tensor = field(init=False)

    @property
    def size(self) -> tuple[int, int, int, int]:
        """The size (B, K, T, S) of the attention's maps."""
        queries, rows, _ = self.x.shape
        if self.cache is not None:
            return rows, self.heads, 1, self.cache.length
        keys, sentences, _ = self.memory.shape  # queries of a single row are broadcast
        return sentences if rows == 1 else rows, self.heads, queries, keys

    @property
    def positions(self) -> tuple[Tensor, Tensor]:
        """Positions of queries (T,) and of keys (S,), from 0."""
        *_, queries, keys = self.size
        first = 0 if self.cache is None else self.cache.beam.steps - 1
        device = self.x.device
        return torch.arange(first, first + queries, device=device), torch.arange(keys, device=device)

    def split_heads(self, projected: dict[str, Tensor | None], widths: dict[str, int]) -> None:
        """Sets ``q``, ``k`` and ``v``, and broadcasts masks and previous logits to their full size.

        Args:
            projected: what ``Attention.project_all`` returns.
            widths: the total width of all heads, by the letters q, k and v of the parts that are read.

        Raises:
            ValueError: if masks or previous logits have another size.
        """
        masks = self.masks
        parts: dict[str, Tensor] = {}
        for letters, tensor in projected.items():
            there = [part for part in letters if part in widths]
            if tensor is not None:
                parts |= zip(there, tensor.split([widths[part] for part in there], dim=-1), strict=True)
        if self.cache is not None:
            if not self.cache.has_source:
                self.cache.add(parts.get("k"), parts["v"])
            parts["k"], parts["v"], padded_keys = self.cache.gather()
            masks = AttentionMasks(padded_keys, masks.padded_queries, masks.future, masks.float_mask)
        for part in widths:
            setattr(self, part, split_heads(parts[part], self.heads))
        sentences, _, queries, keys = self.size
        self.masks = masks.of_size(sentences, queries, keys)
        self.previous = spread("previous_logits", self.previous, *self.size)

    def of_keys(self, name: str, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """Applies a function to the tokens of keys, (S, B, C) -> (S, B, n); decoding steps store results by name."""
        return compute(self.memory) if self.cache is None else self.cache.of_keys(name, compute, self.memory)

    def rows_before(self, name: str, rows: Tensor, count: int) -> Tensor | None:
        """Returns the ``count`` map rows before these, (B, K, count, S), or None for zeros at the start of sentences.

        A decoding step reads the rows of earlier steps and stores ``rows`` (B, K, 1, S), by name, for later ones.
        """
        return self.cache.rows_before(name, rows, count) if self.cache is not None and count else None

    def vectors_before(self, name: str, x: Tensor, count: int) -> Tensor | None:
        """Returns the ``count`` token vectors before x, (count, B, C), or None for zeros at the start of sentences.

        A decoding step reads those of earlier steps and stores its own x (1, B, C), by name, for later ones.
        """
        return self.cache.vectors_before(name, x, count) if self.cache is not None and count else None
