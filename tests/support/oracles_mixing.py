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
    """Values, of the first layer and the layer's own, each with its weight; passed on are the first layer's."""

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

    def weights(self, attention, kind, weights, masked):
        return mixed(attention.mix_weights, weights)


def convolved_by_head(conv, maps, masked, kind):
    """Maps (K, T, S), each by the kernel of its head, which reads zeros where masked.

    In an encoder of an even number c of queries, c / 2 come after the entry's own, and one less before.
    """
    kernels, zeroed = conv.weight[:, 0].tolist(), maps.masked_fill(masked, 0.0).tolist()
    result = torch.zeros_like(maps)
    for head, kernel in enumerate(kernels):
        later, beside = len(kernel) // 2 if kind == "encoder" else 0, len(kernel[0]) // 2
        for t in range(maps.size(1)):
            for s in range(maps.size(2)):
                for row, taps in enumerate(kernel):
                    for column, weight in enumerate(taps):
                        query, key = t + later - (len(kernel) - 1) + row, s - beside + column
                        if 0 <= query < maps.size(1) and 0 <= key < maps.size(2):
                            result[head, t, s] += weight * zeroed[head][query][key]
    return result


class MultiToken(Oracle):
    """A convolution for each head and heads mixed, before the softmax and after it, outputs normalized and gated."""

    def logits(self, attention, kind, own, previous, masked):
        if attention.conv is not None:
            own = convolved_by_head(attention.conv, own, masked, kind)
        return own if attention.mix_logits is None else mixed(attention.mix_logits, own)

    def weights(self, attention, kind, weights, masked):
        if attention.second_conv is not None:
            weights = convolved_by_head(attention.second_conv, weights, masked, kind).masked_fill(masked, 0.0)
        if attention.head_mixing is None:
            return weights
        groups = weights.split(attention.head_mixing.size(-1))
        return torch.cat([mixed(*pair) for pair in zip(attention.head_mixing, groups, strict=True)])

    def output(self, attention, tokens, weights):
        output = super().output(attention, tokens, weights)
        for head in output:
            for vector in head:
                if attention.head_norm is not None:
                    vector /= math.sqrt(sum(number**2 for number in vector.tolist()) / len(vector) + 1e-5)
                    vector *= attention.head_norm * attention.depth_scale
                if attention.gate is not None:
                    vector /= 1 + math.exp(-(vector @ attention.gate.weight[0] + attention.gate.bias[0]))
        return output
