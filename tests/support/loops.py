"""Attention as plain loops over the equations of the papers, in float64: oracles, written to be read.

Nothing here is shared with the package. Maps are indexed [head][query][key].
"""

import math
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

# What a tap (row, column) of a k x k kernel reads, relative to the entry it writes; r = (k - 1) / 2.
OFFSETS = {
    "encoder": lambda row, column, r: (row - r, column - r),
    "decoder": lambda row, column, r: (row - 2 * r, column - 2 * r),
    "cross": lambda row, column, r: (row - 2 * r, column - r),
}


def convolve(maps, weight, bias, kind):
    """ReLU of the convolution of one sentence's maps (K, T, S), entries beyond the map being zero."""
    heads, queries, keys = maps.shape
    kernel = weight.size(-1)
    radius = (kernel - 1) // 2
    result = torch.zeros_like(maps)
    for out in range(heads):
        for t in range(queries):
            for s in range(keys):
                total = bias[out].item()
                for row in range(kernel):
                    for column in range(kernel):
                        down, right = OFFSETS[kind](row, column, radius)
                        if 0 <= t + down < queries and 0 <= s + right < keys:
                            for head in range(heads):
                                entry = maps[head, t + down, s + right]
                                total += weight[out, head, row, column].item() * entry.item()
                result[out, t, s] = max(total, 0.0)
    return result


@dataclass
class Tokens:
    """What one attention reads of one sentence.

    Args:
        kind: of the attention: encoder, decoder or cross.
        queries, keys: (T, C) and (S, C), not projected.
        real_queries, real_keys: how many of them, at the beginning, are words; the rest is padding.
        previous: what the layer below passed on, or None.
        projected: queries, keys and values (K, T or S, d) by the letters q, k and v.
    """

    kind: str
    queries: Tensor
    keys: Tensor
    real_queries: int
    real_keys: int
    previous: Tensor | None
    projected: dict[str, Tensor] = field(default_factory=dict)


class Oracle:
    """Plain attention. An oracle of a mechanism overrides the steps in which the mechanism differs."""

    def project(self, attention, part: str, x: Tensor, tokens: Tokens) -> Tensor:
        """Queries, keys or values (K, T, d), ``part`` being q, k or v, of tokens (T, C)."""
        layer, heads = getattr(attention, f"{part}_proj"), attention.num_heads
        if layer is None:
            return None
        projected = layer(x).unflatten(1, (heads, -1)).transpose(0, 1)
        if part in (attention.convolutions or {}):
            convolved = layer(depthwise(attention.convolutions[part], x, tokens)).unflatten(1, (heads, -1))
            projected = torch.cat([convolved.transpose(0, 1)[: heads // 2], projected[heads // 2 :]])
        if attention.query_key is not None and part in "qk":
            projected = normalized_and_rotated(attention.query_key, part, projected)
        return projected

    def own(self, attention, tokens: Tokens) -> Tensor:
        """Own logits (K, T, S): the sum of the attention's terms."""
        own = torch.zeros(attention.num_heads, len(tokens.queries), len(tokens.keys), dtype=torch.float64)
        for term in attention.terms:
            score = TERMS[type(term).__name__]
            for head in range(own.size(0)):
                for t in range(own.size(1)):
                    for s in range(own.size(2)):
                        own[head, t, s] += score(term, tokens, head, t, s)
        return own

    def logits(self, attention, kind: str, own: Tensor, previous: Tensor | None, masked: Tensor) -> Tensor:
        """What the softmax takes, (K, T, S), of own logits and of what the layer below passed on."""
        return own

    def weights(self, attention, kind: str, weights: Tensor, masked: Tensor) -> Tensor:
        """What values are weighted by, (K, T, S), of the softmax's probabilities."""
        return weights

    def output(self, attention, tokens: Tokens, weights: Tensor) -> Tensor:
        """(K, T, d), from what weighs the values."""
        values = tokens.projected["v"]
        output = torch.zeros(*weights.shape[:2], values.size(-1), dtype=torch.float64)
        for head in range(weights.size(0)):
            for t in range(weights.size(1)):
                for s in range(weights.size(2)):
                    output[head, t] += weights[head, t, s] * values[head, s]
        return output

    def hands_on(self, logits: Tensor, tokens: Tokens) -> Tensor:
        """What the next layer's attention has as ``tokens.previous``."""
        return logits

    def branch(self, branch, x: Tensor, length: int, kind: str) -> Tensor:
        """The branch beside self-attention: of what it reads, ``length`` words and padding, (T, C')."""
        raise NotImplementedError


def normalized_and_rotated(query_key, part: str, projected: Tensor) -> Tensor:
    """Queries or keys (K, T, d): QK-norm, then rotary positions, of pairs of an element and that half a head later."""
    result = torch.zeros_like(projected)
    half = projected.size(-1) // 2
    for head in range(len(projected)):
        for t, x in enumerate(projected[head]):
            if query_key.norms:
                x = norm(query_key.norms[part], x)
            for i in range(half):
                angle = t * 10_000 ** (-2 * i / projected.size(-1)) if query_key.rotates else 0.0
                result[head, t, i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
                result[head, t, i + half] = x[i] * math.sin(angle) + x[i + half] * math.cos(angle)
    return result


def norm(module, x: Tensor) -> Tensor:
    """Layer norm or root mean square norm of one vector (C,)."""
    mean = 0.0 if isinstance(module, nn.RMSNorm) else sum(x) / len(x)
    square = sum((element - mean) ** 2 for element in x) / len(x)
    result = torch.stack([(element - mean) / math.sqrt(square + module.eps) for element in x]) * module.weight
    return result if getattr(module, "bias", None) is None else result + module.bias


def depthwise(convolution, x: Tensor, tokens: Tokens) -> Tensor:
    """A convolution of vectors (T, C), of which padding counts as zero, each channel by itself (COMP eq. 7)."""
    output = torch.zeros_like(x)
    for t in range(len(x)):
        for s in range(max(0, t - 8), min(tokens.real_keys, t + (1 if tokens.kind == "decoder" else 9))):
            output[t] += convolution.weight[:, 0, s - t + 8] * x[s]
    return output if convolution.bias is None else output + convolution.bias


def dot_product(term, tokens: Tokens, head: int, t: int, s: int) -> Tensor:
    query, key = tokens.projected["q"][head, t], tokens.projected["k"][head, s]
    return query @ key / math.sqrt(len(query))


def shaw(term, tokens: Tokens, head: int, t: int, s: int) -> Tensor:
    query, reach = tokens.projected["q"][head, t], len(term.weight) - 1
    reach //= 1 if tokens.kind == "decoder" else 2
    later = 0 if tokens.kind == "decoder" else reach
    return query @ term.weight[min(max(s - t, -reach), later) + reach] / math.sqrt(len(query))


def shaw_values(term, weights: Tensor, tokens: Tokens) -> Tensor:
    """What the distances of keys add to the output, (K, T, d), from what weighs the values, (K, T, S)."""
    added = torch.zeros(*weights.shape[:2], term.value_weight.size(1), dtype=torch.float64)
    reach = (len(term.value_weight) - 1) // (1 if tokens.kind == "decoder" else 2)
    for head in range(weights.size(0)):
        for t in range(weights.size(1)):
            for s in range(weights.size(2)):
                distance = min(max(s - t, -reach), 0 if tokens.kind == "decoder" else reach)
                added[head, t] += weights[head, t, s] * term.value_weight[distance + reach]
    return added


TERMS = {"DotProduct": dot_product, "ShawPositions": shaw}  # one logit of a term, by the name of its class


class Evolving(Oracle):
    """Evolving attention (EA eq. 4); weights by kind, 0 where skip connection or convolution is off."""

    def __init__(self, alphas: dict[str, float], betas: dict[str, float]):
        self.alphas, self.betas = alphas, betas

    def logits(self, attention, kind, own, previous, masked):
        alpha, beta = self.alphas[kind], self.betas[kind]
        mix = own if previous is None or alpha == 0 else alpha * previous + (1 - alpha) * own
        mix = mix.masked_fill(masked, 0.0)
        if beta == 0:
            return mix
        return beta * convolve(mix, attention.conv.weight, attention.conv.bias, kind) + (1 - beta) * mix


class FirstPlain(Evolving):
    """Evolving attention; the first of a chain has no convolution (``--ea-start plain``)."""

    def logits(self, attention, kind, own, previous, masked):
        return own if previous is None else super().logits(attention, kind, own, previous, masked)


def attend(attention, queries, keys, kind, previous, real_queries, real_keys, oracle, attn_mask=None):
    """One sentence through one attention.

    Args:
        queries: (T, C); keys: (S, C); previous: what the layer below passed on, or None.
        real_queries, real_keys: how many at the beginning are words; the rest is padding.
        attn_mask: (T, S), what is added to logits before the softmax, -inf where a query must not see a key.

    Returns:
        Output (T, C), and what the attention passes on: logits (K, T, S), zero at masked entries, unless the oracle
        says otherwise.
    """
    tokens = Tokens(kind, queries, keys, real_queries, real_keys, previous)
    for part, x in (("q", queries), ("k", keys), ("v", keys)):
        tokens.projected[part] = oracle.project(attention, part, x, tokens)
    masked = torch.zeros(len(queries), len(keys), dtype=torch.bool)
    padded_row = torch.zeros(len(queries), 1, dtype=torch.bool)
    for t in range(len(queries)):
        padded_row[t] = kind == "encoder" and t >= real_queries
        for s in range(len(keys)):
            masked[t, s] = s >= real_keys or (kind == "decoder" and s > t)
            if attn_mask is not None:
                masked[t, s] |= attn_mask[t, s] == -math.inf
    logits = oracle.logits(attention, kind, oracle.own(attention, tokens), previous, masked | padded_row)
    weights = torch.zeros_like(logits)
    for head in range(len(logits)):
        for t in range(len(queries)):
            visible = {s: logits[head, t, s].item() for s in range(len(keys)) if not masked[t, s]}
            powers = {s: math.exp(logit - max(visible.values())) for s, logit in visible.items()}
            if attn_mask is not None:
                powers = {s: power * math.exp(attn_mask[t, s]) for s, power in powers.items()}
            for s, power in powers.items():
                weights[head, t, s] = power / sum(powers.values())
    weights = oracle.weights(attention, kind, weights, masked | padded_row)
    output = oracle.output(attention, tokens, weights)
    for term in attention.terms:
        if getattr(term, "value_weight", None) is not None:
            output = output + shaw_values(term, weights, tokens)
    joined = output.transpose(0, 1).flatten(1)
    if "depthwise" in (attention.convolutions or {}):
        values = tokens.projected["v"].transpose(0, 1).flatten(1)
        joined = joined + depthwise(attention.convolutions["depthwise"], values, tokens)
    passed = oracle.hands_on(logits.masked_fill(masked | padded_row, 0.0), tokens)
    return attention.out_proj(joined), passed


def attend_to_self(layer, x, kind, previous, length, oracle):
    """Self-attention and the branch beside it: (T, C), and what the attention passes on."""
    if getattr(layer, "branch", None) is None:
        return attend(layer.self_attn, x, x, kind, previous, length, length, oracle)
    attended = rest = x
    if layer.branch.reads < x.size(1):
        attended, rest = x[:, : -layer.branch.width], x[:, -layer.branch.width :]
    attended, passed = attend(layer.self_attn, attended, attended, kind, previous, length, length, oracle)
    return torch.cat([attended, oracle.branch(layer.branch, rest, length, kind)], dim=1), passed


def sublayer(layer, normalize, x, function):
    """Of (T, C), what a sub-layer and its norm, before or after it, make; and what the sub-layer passes on."""
    out = function(torch.stack([norm(normalize, vector) for vector in x]) if layer.normalize_before else x)
    out, passed = out if isinstance(out, tuple) else (out, None)
    return x + out if layer.normalize_before else torch.stack([norm(normalize, vector) for vector in x + out]), passed


def feed_forward(layer, x, gate=None):
    """With a gate (GLU Variants eq. 6), the first half of what ``fc1`` gives are gates."""

    def network(x):
        hidden = layer.fc1(x)
        if gate is None:
            return layer.fc2(layer.activation_fn(hidden))
        units = hidden.size(1) // 2
        return layer.fc2(torch.stack([torch.stack([gate(h[i]) * h[units + i] for i in range(units)]) for h in hidden]))

    return sublayer(layer, layer.final_layer_norm, x, network)[0]


def encode(model, x, length, oracle, gate=None):
    """One sentence (S, C), its first ``length`` vectors words, through the encoder's layers."""
    previous = None
    for layer in model.encoder.layers:
        attend = partial(attend_to_self, layer, kind="encoder", previous=previous, length=length, oracle=oracle)
        x, previous = sublayer(layer, layer.self_attn_layer_norm, x, attend)
        x = feed_forward(layer, x, gate)
    return x if model.encoder.layer_norm is None else torch.stack([norm(model.encoder.layer_norm, each) for each in x])


def decode(model, y, x, target_length, source_length, oracle, gate=None):
    """One target sentence (T, C) through the decoder's layers, which read the encoder's output (S, C)."""
    own = cross = None
    lengths = {"real_queries": target_length, "real_keys": source_length}
    for layer in model.decoder.layers:
        to_self = partial(attend_to_self, layer, kind="decoder", previous=own, length=target_length, oracle=oracle)
        y, own = sublayer(layer, layer.self_attn_layer_norm, y, to_self)
        to_source = partial(attend, layer.encoder_attn, keys=x, kind="cross", previous=cross, **lengths, oracle=oracle)
        y, cross = sublayer(layer, layer.encoder_attn_layer_norm, y, to_source)
        y = feed_forward(layer, y, gate)
    return y if model.decoder.layer_norm is None else torch.stack([norm(model.decoder.layer_norm, each) for each in y])
