"""Oracles of the mechanisms of 2024 to 2026, see loops.py."""

import math
from dataclasses import replace

import torch

from loops import TERMS, Evolving, Oracle, normalized_and_rotated


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


class EvolvingGated(Gated, Evolving):
    """The logits of evolving attention, and gates."""


class EvolvingExclusive(Exclusive, Evolving):
    """The logits of evolving attention, and outputs without the word's own value."""


class Sinking(Oracle):
    """A logit of no key in the softmax, learned or 0."""

    def logits(self, attention, kind, own, previous, masked):
        seen = own.exp().masked_fill(masked, 0.0).sum(-1, keepdim=True)
        sinks = getattr(attention, "sinks", torch.zeros(len(own)))
        self.part = seen / (seen + sinks.double().exp()[:, None, None])
        return own

    def weights(self, attention, kind, weights, masked):
        return weights * self.part


class Remembering(Oracle):
    """An oracle that reads the words again once they have scores."""

    def own(self, attention, tokens):
        self.tokens = tokens
        return super().own(attention, tokens)


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


class Moda(OfLayersBelow, Remembering):
    """One softmax over words and over the query's word in the layers below."""

    def mix(self, attention, queries):
        return self.layers[-1]

    def logits(self, attention, kind, own, previous, masked):
        self.of_words = own
        return own

    def weights(self, attention, kind, weights, masked):
        if kind == "cross":
            return weights
        found, self.of_layers = torch.zeros_like(weights), {}
        for head, queries in enumerate(self.tokens.projected["q"]):
            for t, query in enumerate(queries):
                words = {s: math.exp(self.of_words[head, t, s]) for s in range(weights.size(2)) if not masked[t, s]}
                keys = [k[head, t] for k, _ in self.tokens.previous or []]
                layers = [math.exp(query @ key / math.sqrt(len(key))) for key in keys]
                total = sum(words.values()) + sum(layers)
                for s, power in words.items():
                    found[head, t, s] = power / total
                self.of_layers[head, t] = [power / total for power in layers]
        return found

    def output(self, attention, tokens, weights):
        output = super().output(attention, tokens, weights)
        if tokens.kind != "cross":
            for (head, t), probabilities in self.of_layers.items():
                for probability, (_, v) in zip(probabilities, tokens.previous or [], strict=True):
                    output[head, t] += probability * v[head, t]
        return output


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


class Differential(Oracle):
    """Version 1: the maps of two heads, subtracted, for the values of both, normalized and scaled by depth."""

    def logits(self, attention, kind, own, previous, masked):
        a1, b1, a2, b2 = attention.lambda_vectors
        self.lambda_0 = 0.8 - 0.6 * math.exp(-0.3 * attention.layer)
        self.factor = math.exp(a1 @ b1) - math.exp(a2 @ b2) + self.lambda_0
        return own

    def weights(self, attention, kind, weights, masked):
        return torch.stack([weights[i] - self.factor * weights[i + 1] for i in range(0, len(weights), 2)])

    def output(self, attention, tokens, weights):
        first, second = (
            super(Differential, self).output(attention, replace(tokens, projected={"v": values}), weights)
            for values in (tokens.projected["v"][::2], tokens.projected["v"][1::2])
        )
        output = torch.cat([first, second], dim=-1)
        for vector in output.flatten(0, 1):
            vector /= math.sqrt(sum(number**2 for number in vector.tolist()) / len(vector) + 1e-5)
            vector *= (1 - self.lambda_0) * attention.pair_norm
        return output


class Differential2(Remembering):
    """Version 2: of each head's map, less that of a second query on the same keys."""

    def weights(self, attention, kind, weights, masked):
        words, keys = self.tokens.queries, self.tokens.projected["k"]
        queries = torch.stack([words @ weight.T for weight in attention.second_query.weight])
        if attention.query_key is not None:
            queries = normalized_and_rotated(attention.query_key, "q", queries)
        found = weights.clone()
        for head in range(weights.size(0)):
            for t in range(weights.size(1)):
                seen = [s for s in range(weights.size(2)) if not masked[t, s]]
                powers = [math.exp(queries[head, t] @ keys[head, s] / math.sqrt(keys.size(-1))) for s in seen]
                gate = torch.sigmoid(attention.gates.weight[head, 0] @ words[t])
                for s, power in zip(seen, powers, strict=True):
                    found[head, t, s] -= gate * power / sum(powers)
        return found


class Composable(Remembering):
    """Heads mixed by matrices of the query's word and, where there are any, of the key's, before and after softmax."""

    def logits(self, attention, kind, own, previous, masked):
        return self.compose(attention.query_logits, attention.key_logits, own)

    def weights(self, attention, kind, weights, masked):
        return self.compose(attention.query_weights, attention.key_weights, weights)

    def compose(self, by_query, by_key, maps):
        found = maps.clone()
        for t in range(maps.size(1)):
            for s in range(maps.size(2)):
                found[:, t, s] += matrix_of(by_query, self.tokens.queries[t]) @ maps[:, t, s]
                if by_key is not None:
                    found[:, t, s] += matrix_of(by_key, self.tokens.keys[s]) @ maps[:, t, s]
        return found


def matrix_of(composition, x):
    """The (K, K) by which a word x (C,) mixes heads, beside the identity."""
    hidden = composition.hidden @ x
    hidden = hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2
    first, second = torch.einsum("n,npra->pra", hidden, composition.mixing)
    matrix = torch.diag(torch.tanh(composition.scales @ x))
    for from_heads, to_heads in zip(first, second, strict=True):
        size = math.sqrt(from_heads.square().mean() + 1e-6)
        matrix += torch.outer(to_heads, from_heads / size)
    return matrix


def forget_gates(term, tokens, head: int, t: int, s: int):
    """Logarithms of the gates of the words between, of the later one of query and key, and not of the earlier one."""
    direction = 0 if s <= t else 1
    if direction == term.bias.size(1):
        return torch.zeros(())
    weight, bias = term.gates.weight[head, direction], term.bias[head, direction]
    words = range(min(s, t) + 1, max(s, t) + 1)
    return sum((torch.sigmoid(weight @ tokens.queries[i] + bias).log() for i in words), torch.zeros(()))


TERMS["ForgetGates"] = forget_gates
