"""Mixture-of-depths attention: Zhu et al., 2026 (arXiv 2603.15619, "MoDA"), without keys and values of its own.

output_t = sum_j A_tj v_j + sum_i A_ti v^(i)_t in self-attentions, with one softmax over the scores of words j and, for
the same word in the layers i below, q_t . k^(i)_t / sqrt(d).
"""

from torch import Tensor

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.layers_below import LayersBelowAttention
from ea_fairseq.attention.registry import register_mechanism
from ea_fairseq.kernels.masks import probabilities


@register_mechanism("moda")
class MixtureOfDepthsAttention(LayersBelowAttention):
    """Self-attention to words, and to the query's own word in the layers below; no parameters."""

    title = "mixture-of-depths attention"
    marker = "depths"

    def mix(self, queries: Tensor, layers: Tensor) -> tuple[Tensor, Tensor]:
        """Returns this layer's keys and values unchanged; the layers above read those of all layers."""
        return layers[-1], layers

    def below(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Keys and values of the n layers below, (B, K, T, n, d)."""
        assert inputs.first_values is not None  # this layer's, at least
        below = inputs.first_values[:-1].permute(2, 3, 1, 0, 4)
        return below[..., : self.key_dim], below[..., self.key_dim :]

    def normalize(self, logits: Tensor, inputs: Inputs) -> Tensor:
        """Probabilities of words, (B, K, T, S); those of the layers below are ``inputs.beside``, (B, K, T, n)."""
        keys, _ = self.below(inputs)
        if not keys.size(-2):  # the first layer
            return super().normalize(logits, inputs)
        of_layers = (keys @ (self.scaling * inputs.q).unsqueeze(-1)).squeeze(-1)
        weights = probabilities(logits, inputs.masks, of_layers.logsumexp(-1))
        inputs.beside = (1 - weights.sum(-1, keepdim=True)) * of_layers.softmax(-1)
        return weights

    def values(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """Returns the weighted sum (B, K, T, d) of values of words and of the layers below."""
        output = super().values(weights, inputs)
        if inputs.beside is None:
            return output
        _, values = self.below(inputs)
        dropped = self.dropout_module(inputs.beside.type_as(values))
        return output + (dropped.unsqueeze(-2) @ values).squeeze(-2)
