"""Oracles of predictive attention, value residuals, talking heads and multi-token attention, see loops.py."""

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
