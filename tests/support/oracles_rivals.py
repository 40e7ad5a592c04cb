"""Oracles of the mechanisms of 2024 to 2026, see loops.py."""

import math
from dataclasses import replace

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


class OfLayersBelow(Oracle):
    """Keys and values, mixed with those of the layers below in self-attention; passed on are pairs of both."""

    def project(self, attention, part, x, tokens):
        projected = super().project(attention, part, x, tokens)
        if part != "v" or tokens.kind == "cross":
            return projected
        self.layers = [*(tokens.previous or []), (tokens.projected["k"], projected)]
        tokens.projected["k"], values = self.mix(attention, tokens.projected["q"])
        return values

    def hands_on(self, logits, tokens):
        return self.layers


class Depth(OfLayersBelow):
    """Values attend to those of the same word below: one layer in every ``every`` is passed on."""

    def __init__(self, every: int = 1):
        self.every = every

    def mix(self, attention, queries):
        keys, values = self.layers.pop()
        layers, mixed = [*self.layers, (keys, values)], torch.zeros_like(values)
        for head in range(values.size(0)):
            for t in range(values.size(1)):
                scores = [queries[head, t] @ k[head, t] / math.sqrt(keys.size(-1)) for k, _ in layers]
                powers = [math.exp(score) for score in scores]
                for power, (_, v) in zip(powers, layers, strict=True):
                    mixed[head, t] += power / sum(powers) * v[head, t]
        if attention.layer % self.every == 0:
            self.layers.append((keys, mixed))
        return keys, mixed


class Lime(OfLayersBelow):
    """Heads read mixtures of all heads of this layer and those below."""

    def mix(self, attention, queries):
        if attention.layer_mixing is None:
            return self.layers[-1]
        found = []
        for parts in zip(*self.layers, strict=True):  # keys, values
            found.append(torch.zeros_like(parts[-1]))
            for head, of_layers in enumerate(attention.layer_mixing.tolist()):
                for part, of_heads in zip(parts, of_layers, strict=True):
                    for other, weight in enumerate(of_heads):
                        found[-1][head] += weight * part[other]
        return found


class Both(Oracle):
    """The logits of one oracle and the values of another, which pass on what is theirs."""

    def __init__(self, of_logits: Oracle, of_values: Oracle):
        self.of_logits, self.of_values = of_logits, of_values

    def project(self, attention, part, x, tokens):
        self.tokens = replace(tokens, previous=tokens.previous and tokens.previous[1])
        return self.of_values.project(attention, part, x, self.tokens)

    def logits(self, attention, kind, own, previous, masked):
        return self.of_logits.logits(attention, kind, own, previous and previous[0], masked)

    def hands_on(self, logits, tokens):
        return logits, self.of_values.hands_on(logits, self.tokens)
