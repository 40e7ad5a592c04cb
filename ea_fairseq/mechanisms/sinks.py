"""Attention sinks: a key without a value, as in GPT-OSS (OpenAI, 2025) and DeepSeek-V4.

A_tj = exp(logits_tj) / (exp(s_h) + sum_j' exp(logits_tj')) in all three attentions; s_h is learned, or 0 ("softmax off
by one", Miller, Attention Is Off By One, 2023).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.kernels.masks import probabilities
from ea_fairseq.options import Options, one_of, option


@dataclass(frozen=True)
class SinkOptions(Options):
    """The flag of attention sinks."""

    sink: str = option(
        "learned",
        one_of("learned", "one", metavar="LOGIT"),
        "the logit of the sink: learned for each head, or 0, which adds one to the softmax's sum",
    )


@register_mechanism("sink_attention")
class SinkAttention(Attention):
    """Attention whose softmax also has a sink, so that probabilities sum to less than 1.

    Parameters are fairseq's plus ``sinks`` (K), zeros at the start, or an empty buffer with ``--sink one``.
    """

    options = SinkOptions
    title = "attention with sinks"
    adds = "sinks"

    def __init__(self, embed_dim: int, num_heads: int, *args: Any, sink: str = "learned", **kwargs: Any) -> None:
        super().__init__(embed_dim, num_heads, *args, **kwargs)
        if sink == "learned":
            self.sinks: Tensor = nn.Parameter(torch.zeros(num_heads))
        else:
            self.register_buffer("off_by_one", torch.empty(0))

    @classmethod
    def arguments(cls, options: SinkOptions, context: LayerContext) -> dict[str, Any]:
        """The constructor's arguments that options and layer decide."""
        return {**super().arguments(options, context), "sink": options.sink}

    def normalize(self, logits: Tensor, inputs: Inputs) -> Tensor:
        """The softmax over keys and the sink, (B, K, T, S)."""
        return probabilities(logits, inputs.masks, self.sink_logits(logits))

    def sink_logits(self, like: Tensor) -> Tensor:
        """Returns the logits of the sinks, (K), zeros of the type of ``like`` if they are not learned."""
        return getattr(self, "sinks", like.new_zeros(self.num_heads))

    def start_from_plain(self, options: SinkOptions) -> str:
        """Leaves sinks at 0, where they take their part of the probabilities from the first update on."""
        return "at 0"
