"""Loops for what scores words in place of dot products: attention types and synthesizers."""

import math

import torch
from torch import Tensor

from loops import TERMS, Tokens

LENGTH = 10  # of the sentences that synthesizers in tests know, padding not counted
CONTENT_TERMS = {  # options by name
    **{name: {"attention_type": name} for name in ("multiplicative", "additive", "concatenative")},
    **{
        name: {"synthesizer": name, "synthesizer_length": LENGTH}
        for name in ("dense", "random", "dense+dot", "random+dot")
    },
}


def multiplicative(term, tokens: Tokens, head: int, t: int, s: int) -> Tensor:
    query, key = tokens.projected["q"][head, t], tokens.projected["k"][head, s]
    return query @ term.weight[head] @ key / math.sqrt(len(query))


def additive(term, tokens: Tokens, head: int, t: int, s: int) -> Tensor:
    query, key = tokens.projected["q"][head, t], tokens.projected["k"][head, s]
    return term.weight[head, :, 0] @ torch.tanh(term.key_weight[head].T @ key + term.query_weight[head].T @ query)


def concatenative(term, tokens: Tokens, head: int, t: int, s: int) -> Tensor:
    query, key = tokens.projected["q"][head, t], tokens.projected["k"][head, s]
    return term.factor[head] * torch.tanh(query @ term.weight[head] @ torch.cat([key, query]) / len(query))


def dense(term, tokens: Tokens, head: int, t: int, s: int) -> Tensor:
    layer, width = term.hidden, term.weight.size(1)
    hidden = layer.weight @ tokens.queries[t] + layer.bias
    return term.weight[head, :, s] @ hidden[head * width : (head + 1) * width].clamp(min=0) + term.bias[head, s]


def random(term, tokens: Tokens, head: int, t: int, s: int) -> Tensor:
    return term.map[head, t, s]


def mixture(term, tokens: Tokens, head: int, t: int, s: int) -> Tensor:
    first, second = (TERMS[type(each).__name__](each, tokens, head, t, s) for each in (term.first, term.second))
    weight = 1 / (1 + math.exp(-term.weight[head]))
    return (1 - weight) * first + weight * second


TERMS |= {
    "Multiplicative": multiplicative,
    "Additive": additive,
    "Concatenative": concatenative,
    "DenseSynthesizer": dense,
    "RandomSynthesizer": random,
    "Mixture": mixture,
}
