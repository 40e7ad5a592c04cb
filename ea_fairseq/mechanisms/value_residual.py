"""Value residuals: Zhou et al., Value Residual Learning, ACL 2025 (arXiv 2410.17897, "ResFormer").

V_l <- lambda_{l,1} V_1 + lambda_{l,2} V_l, in all three attentions; V_1 are the values of the same attention in the
first layer, and the lambdas are learned.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import LayerContext, Measure
from ea_fairseq.attention.registry import register_mechanism


@register_mechanism("value_residual")
class ValueResidualAttention(Attention):
    """Attention whose values are mixed with those of the first layer.

    Parameters are fairseq's plus, from the second layer on, ``lambdas`` (2): the weights of the first layer's values
    and of its own, half each at the start.
    """

    title = "value residual"
    fused = Attention.fused
    adds = "pairs of weights"
    passes_values = True

    def __init__(self, embed_dim: int, num_heads: int, *args: Any, is_first: bool, **kwargs: Any) -> None:
        """Args: is_first: whether there is no layer below."""
        super().__init__(embed_dim, num_heads, *args, **kwargs)
        self.lambdas = None if is_first else nn.Parameter(torch.full((2,), 0.5))

    @classmethod
    def arguments(cls, options: Any, context: LayerContext) -> dict[str, Any]:
        """The constructor's arguments that options and layer decide."""
        return {**super().arguments(options, context), "is_first": context.layer == 0}

    @classmethod
    def may_renumber(cls, kind: str, layers: list[int]) -> bool:
        """Whether the first layer, which has no lambdas, stays the first."""
        return layers[0] == 0

    def project(self, x: Tensor | tuple[Tensor, ...], parts: str, inputs: Inputs) -> Tensor | None:
        """Projects as in plain attention, and mixes the values, which come last, with those of the first layer.

        If layers are dropped (``--encoder-layerdrop``), the first remaining layer provides V_1.
        """
        projected = super().project(x, parts, inputs)
        if "v" not in parts or projected is None:
            return projected
        # Store V_1, for this layer and those above it.
        others, values = projected.split([projected.size(-1) - self.width("v"), self.width("v")], dim=-1)
        if inputs.first_values is None:
            inputs.first_values = values
        if self.lambdas is None:
            return projected
        # lambda_{l,1} V_1 + lambda_{l,2} V_l.
        mixed = self.lambdas[0] * inputs.first_values + self.lambdas[1] * values
        return torch.cat([others, mixed], dim=-1)

    @torch.no_grad()
    def start_from_plain(self, options: Any) -> str:
        """Initializes the lambdas as 0 and 1, which is plain attention, and other parameters as their class does."""
        if self.lambdas is not None:
            self.lambdas.copy_(torch.tensor([0.0, 1.0]))
        if type(self) is ValueResidualAttention:
            return "as 0 and 1, which changes nothing"
        return f"{super().start_from_plain(options)}, pairs of weights as 0 and 1"

    def metrics(self, name: str, kind: str) -> dict[str, Measure]:
        """Returns the weights of the first layer's values and of the layer's own."""
        found = super().metrics(name, kind)
        if self.lambdas is None:
            return found
        return found | {f"value_lambda_{i + 1}/{name}": partial(weight, self.lambdas, i) for i in range(2)}


def weight(lambdas: Tensor, index: int) -> float:
    """Returns one of the weights (2)."""
    return lambdas[index].item()
