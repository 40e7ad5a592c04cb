"""Oracles of what stands beside self-attention and of convolutions over words, see loops.py."""

import torch

from loops import Oracle
from oracles_mixing import Predictive


class Convolution(Oracle):
    """Conv-Transformer: beside the encoder's self-attention, a convolution over three words."""

    def branch(self, branch, x, length, kind):
        assert kind == "encoder"
        weight, bias = branch.conv.weight, branch.conv.bias
        output = bias.repeat(len(x), 1)
        for t in range(len(x)):
            for tap in range(weight.size(-1)):
                s = t + tap - weight.size(-1) // 2
                if 0 <= s < length:
                    output[t] += weight[:, :, tap] @ x[s]
        return output


class PredictiveBesideConvolution(Convolution, Predictive):
    """PA-Conv-Transformer."""


class LongShortRange(Oracle):
    """Lite Transformer: beside both self-attentions, a projection, a GLU, a lightweight convolution, a projection."""

    def branch(self, branch, x, length, kind):
        value, gate = branch.linear_in(x).split(branch.width, dim=1)
        gated, mixed = value * torch.sigmoid(gate), torch.zeros_like(value)
        heads, _, kernel = branch.conv.weight.shape
        first = 1 - kernel if kind == "decoder" else -(kernel // 2)
        for channel in range(branch.width):
            powers = branch.conv.weight[channel * heads // branch.width, 0].exp()
            for t in range(len(x)):
                for tap in range(kernel):
                    s = t + first + tap
                    if 0 <= s < length:
                        mixed[t, channel] += powers[tap] / powers.sum() * gated[s, channel]
        return branch.linear_out(mixed)
