"""One evolving attention of each kind, alone, in float64, with what its layer would give it."""

from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import Tensor

from ea_fairseq.attention.evolution import Evolution
from ea_fairseq.attention.inputs import Passed
from ea_fairseq.kernels.window import WINDOWS
from ea_fairseq.mechanisms.evolving import EvolvingAttention

SENTENCES, HEADS, WIDTH = 2, 2, 4


@dataclass
class Case:
    """An attention, the tensors it reads, which all take gradients, and its masks.

    Args:
        tensors: query (T, B, C), key and value (S, B, C), previous_logits (B, K, T, S).
        masks: the masks that go to ``forward``; the second sentence begins and ends with padding.
        blank: (B, T, S), true at padding and at later words.
    """

    attention: EvolvingAttention
    tensors: dict[str, Tensor]
    masks: dict[str, Tensor]
    blank: Tensor

    def __call__(self) -> tuple[Tensor, Tensor]:
        """Output (T, B, C) and logits (B, K, T, S), zero where no word is or where a word is not seen."""
        tokens = {name: tensor for name, tensor in self.tensors.items() if name != "previous"}
        output, _, passed = self.attention(**tokens, previous=Passed(self.tensors["previous"]), **self.masks)
        wordless = self.blank.all(dim=-1).T.unsqueeze(-1)
        return output.masked_fill(wordless, 0.0), passed.logits.masked_fill(self.blank.unsqueeze(1), 0.0)


def padding(length: int) -> Tensor:
    mask = torch.zeros(SENTENCES, length, dtype=torch.bool)
    mask[1, 0] = mask[1, -1] = True
    return mask


def evolved(attention: EvolvingAttention, own: Tensor, previous: Tensor, blank: Tensor | None = None) -> Tensor:
    """What an attention makes of own logits and those of the layer below, (B, K, T, S), zero where ``blank``."""
    masks = SimpleNamespace(cleared=lambda logits: logits if blank is None else logits.masked_fill(blank, 0.0))
    inputs = SimpleNamespace(previous=previous, masks=masks, rows_before=lambda *_: None)
    return attention.transform(attention.combine(own, inputs), inputs)


def draw_case(kind: str, kernel: int, seed: int, alpha: float = 0.4, beta: float = 0.3) -> Case:
    torch.manual_seed(seed)
    evolution = Evolution(WINDOWS[kind], alpha=alpha, beta=beta, kernel_size=kernel)
    attention = EvolvingAttention(
        WIDTH, HEADS, evolution, self_attention=kind != "cross", encoder_decoder_attention=kind == "cross"
    ).double()
    queries, keys = (4, 5) if kind == "cross" else (4, 4)
    shapes = {
        "query": (queries, SENTENCES, WIDTH),
        "key": (keys, SENTENCES, WIDTH),
        "value": (keys, SENTENCES, WIDTH),
        "previous": (SENTENCES, HEADS, queries, keys),
    }
    tensors = {name: torch.randn(shape, dtype=torch.float64, requires_grad=True) for name, shape in shapes.items()}
    masks = {"key_padding_mask": padding(keys)}
    blank = padding(keys).unsqueeze(1) | padding(queries).unsqueeze(2)
    if kind == "decoder":
        future = torch.ones(queries, keys, dtype=torch.bool).triu(1)
        masks["attn_mask"] = torch.zeros(queries, keys).masked_fill(future, -torch.inf)
        blank = blank | future
    else:
        masks["query_padding_mask"] = padding(queries)
    return Case(attention, tensors, masks, blank)
