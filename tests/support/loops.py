"""Attention mechanisms as plain loops over the equations of the papers, in float64: oracles, written to be read.

Maps are indexed [head][query][key]; nothing here is shared with the package. What a mechanism does is a function of an
attention, its kind, its own logits, those of the layer below and which entries are masked, all but the first two maps
(K, T, S); it returns what the softmax takes.
"""

import math

import torch
import torch.nn.functional as F

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


def evolving(alphas, betas):
    """The oracle of evolving attention (EA eq. 4); weights by kind, 0 where skip connection or convolution is off."""

    def oracle(attention, kind, own, previous, masked):
        alpha, beta = alphas[kind], betas[kind]
        mix = own if previous is None or alpha == 0 else alpha * previous + (1 - alpha) * own
        mix = mix.masked_fill(masked, 0.0)
        if beta == 0:
            return mix
        return beta * convolve(mix, attention.conv.weight, attention.conv.bias, kind) + (1 - beta) * mix

    return oracle


def attend(attention, queries, keys, kind, previous, real_queries, real_keys, oracle, attn_mask=None):
    """One sentence through one attention.

    Args:
        queries: (T, C); keys: (S, C); previous: (K, T, S) or None.
        real_queries, real_keys: how many at the beginning are words; the rest is padding.
        oracle: what the mechanism does, see above.
        attn_mask: (T, S), what is added to logits before the softmax, -inf where a query must not see a key.

    Returns:
        Output (T, C) and logits (K, T, S), zero at masked entries.
    """
    heads = attention.num_heads
    width = queries.size(1) // heads
    projected_queries = attention.q_proj(queries)
    projected_keys = attention.k_proj(keys)
    values = attention.v_proj(keys)
    own = torch.zeros(heads, len(queries), len(keys), dtype=torch.float64)
    masked = torch.zeros(len(queries), len(keys), dtype=torch.bool)
    padded_row = torch.zeros(len(queries), 1, dtype=torch.bool)
    for t in range(len(queries)):
        padded_row[t] = kind == "encoder" and t >= real_queries
        for s in range(len(keys)):
            masked[t, s] = s >= real_keys or (kind == "decoder" and s > t)
            if attn_mask is not None:
                masked[t, s] |= attn_mask[t, s] == -math.inf
            for head in range(heads):
                part = slice(head * width, (head + 1) * width)
                own[head, t, s] = (projected_queries[t, part] @ projected_keys[s, part]) / math.sqrt(width)
    logits = oracle(attention, kind, own, previous, masked | padded_row)
    attended = torch.zeros(len(queries), heads * width, dtype=torch.float64)
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        for t in range(len(queries)):
            powers = {s: math.exp(logits[head, t, s]) for s in range(len(keys)) if not masked[t, s]}
            if attn_mask is not None:
                powers = {s: power * math.exp(attn_mask[t, s]) for s, power in powers.items()}
            for s, power in powers.items():
                attended[t, part] += power / sum(powers.values()) * values[s, part]
    return attention.out_proj(attended), logits.masked_fill(masked | padded_row, 0.0)


def feed_forward(layer, x):
    return layer.final_layer_norm(x + layer.fc2(F.relu(layer.fc1(x))))


def encode(model, x, length, oracle):
    """One sentence (S, C), its first ``length`` vectors words, through the encoder's layers."""
    logits = None
    for layer in model.encoder.layers:
        out, logits = attend(layer.self_attn, x, x, "encoder", logits, length, length, oracle)
        x = feed_forward(layer, layer.self_attn_layer_norm(x + out))
    return x


def decode(model, y, x, target_length, source_length, oracle):
    """One target sentence (T, C) through the decoder's layers, which read the encoder's output (S, C)."""
    own = cross = None
    for layer in model.decoder.layers:
        out, own = attend(layer.self_attn, y, y, "decoder", own, target_length, target_length, oracle)
        y = layer.self_attn_layer_norm(y + out)
        out, cross = attend(layer.encoder_attn, y, x, "cross", cross, target_length, source_length, oracle)
        y = feed_forward(layer, layer.encoder_attn_layer_norm(y + out))
    return y
