"""Oracles of what stands beside self-attention and of convolutions over words, see loops.py."""

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
