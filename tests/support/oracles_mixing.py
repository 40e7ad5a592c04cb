"""Oracles of predictive attention, value residuals, talking heads and multi-token attention, see loops.py."""

import math

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
        if part != "v":
            return projected
        if tokens.previous is None:
            tokens.previous = projected
        if attention.lambdas is None:
            return projected
        of_first, of_own = attention.lambdas.tolist()
        return of_first * tokens.previous + of_own * projected

    def hands_on(self, logits, tokens):
        return tokens.previous


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


class MultiToken(Oracle):
    """A convolution for each head, heads mixed in groups after the softmax, outputs normalized.

    In an encoder of an even number c of queries, c / 2 come after the entry's own, and one less before.
    """

    def logits(self, attention, kind, own, previous, masked):
        if attention.conv is None:
            return own
        kernels, zeroed = attention.conv.weight[:, 0].tolist(), own.masked_fill(masked, 0.0).tolist()
        result = torch.zeros_like(own)
        for head, kernel in enumerate(kernels):
            later, beside = len(kernel) // 2 if kind == "encoder" else 0, len(kernel[0]) // 2
            for t in range(own.size(1)):
                for s in range(own.size(2)):
                    for row, taps in enumerate(kernel):
                        for column, weight in enumerate(taps):
                            query, key = t + later - (len(kernel) - 1) + row, s - beside + column
                            if 0 <= query < own.size(1) and 0 <= key < own.size(2):
                                result[head, t, s] += weight * zeroed[head][query][key]
        return result

    def weights(self, attention, kind, weights):
        if attention.head_mixing is None:
            return weights
        groups = weights.split(attention.head_mixing.size(-1))
        return torch.cat([mixed(*pair) for pair in zip(attention.head_mixing, groups, strict=True)])

    def output(self, attention, tokens, weights):
        output = super().output(attention, tokens, weights)
        if attention.head_norm is None:
            return output
        for head in output:
            for vector in head:
                vector /= math.sqrt(sum(number**2 for number in vector.tolist()) / len(vector) + 1e-5)
                vector *= attention.head_norm * attention.depth_scale
        return output
