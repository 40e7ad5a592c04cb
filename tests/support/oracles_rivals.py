"""Oracles of the mechanisms of 2024 to 2026, see loops.py."""

import torch

from loops import Oracle


class Gated(Oracle):
    """What each head attends to, weighted by gates of the query's word: of the head, or of each channel."""

    def output(self, attention, tokens, weights):
        output = super().output(attention, tokens, weights)
        for head, vectors in enumerate(output):
            for t, vector in enumerate(vectors):
                vector *= torch.sigmoid(attention.gates.weight[head] @ tokens.queries[t])
        return output


class Exclusive(Oracle):
    """What each head attends to in self-attention, without its part along the word's own value."""

    def output(self, attention, tokens, weights):
        output = super().output(attention, tokens, weights)
        if tokens.kind != "cross":
            for vectors, values in zip(output, tokens.projected["v"], strict=True):
                for vector, value in zip(vectors, values, strict=True):
                    vector -= (vector @ value) / max(value @ value, 1e-8) * value
        return output


class Sinking(Oracle):
    """A logit of no key in the softmax, learned or 0."""

    def logits(self, attention, kind, own, previous, masked):
        seen = own.exp().masked_fill(masked, 0.0).sum(-1, keepdim=True)
        sinks = getattr(attention, "sinks", torch.zeros(len(own)))
        self.part = seen / (seen + sinks.double().exp()[:, None, None])
        return own

    def weights(self, attention, kind, weights, masked):
        return weights * self.part
