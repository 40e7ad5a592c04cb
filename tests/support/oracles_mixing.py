"""Oracles of predictive attention, value residuals, talking heads and multi-token attention, see loops.py."""

import torch

from loops import Oracle, convolve


class Predictive(Oracle):
    """PA eq. 4: in the encoder, alpha * CNN(logits of the layer below) + (1 - alpha) * own logits."""

    def __init__(self, alpha: float):
        self.alpha = alpha

    def logits(self, attention, kind, own, previous, masked):
        if kind != "encoder" or previous is None:
            return own
        predicted = previous
        for conv in attention.convs:
            predicted = convolve(predicted.masked_fill(masked, 0.0), conv.weight, conv.bias, kind)
        return self.alpha * predicted + (1 - self.alpha) * own


class ValueResidual(Oracle):
    """Values, of the first layer and the layer's own, each with its weight; handed on are the first layer's."""

    def project(self, attention, part, x, tokens):
        projected = super().project(attention, part, x, tokens)
        if part != "v" or tokens.previous is None:
            return projected
        of_first, of_own = attention.lambdas.tolist()
        return of_first * tokens.previous + of_own * projected

    def hands_on(self, logits, tokens):
        return tokens.projected["v"] if tokens.previous is None else tokens.previous


def mixed(mixing, maps):
    """Maps (K, T, S), each head the sum of all by its row of ``mixing`` (K, K)."""
    result = torch.zeros_like(maps)
    for to, row in enumerate(mixing.tolist()):
        for head, weight in enumerate(row):
            result[to] += weight * maps[head]
    return result


class TalkingHeads(Oracle):
    """Heads mixed before the softmax and after it."""

    def logits(self, attention, kind, own, previous, masked):
        return mixed(attention.mix_logits, own)

    def weights(self, attention, kind, weights):
        return mixed(attention.mix_weights, weights)
