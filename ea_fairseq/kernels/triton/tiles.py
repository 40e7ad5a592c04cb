"""The parts that the GPU kernels of evolving attention share: tiles of maps, their masks and the convolution.

A program computes all heads of a band of queries of one sentence, tile by tile. A tile's positions are pairs of a query
and a key; its tensors are (positions, channels), the heads being the channels.
"""

from typing import NamedTuple

import triton
import triton.language as tl

SLICE = tl.constexpr(16)  # taps in one matrix product, whose depth must be 16 or more


class Sizes(NamedTuple):
    """The sizes of maps and of the convolution, which are run-time arguments, so that one compiled kernel takes all."""

    heads: int
    queries: int
    keys: int
    kernel: int
    above: int
    left: int
    band: int


@triton.jit
def band_of_program(sizes):
    """The program's sentence, and the begin and end of its band of queries."""
    bands = tl.cdiv(sizes.queries, sizes.band)
    begin = tl.program_id(0) % bands * sizes.band
    return tl.program_id(0) // bands, begin, tl.minimum(begin + sizes.band, sizes.queries)


@triton.jit
def tile(row, column, end, sizes, rows: tl.constexpr, columns: tl.constexpr, channels: tl.constexpr):
    """Queries and keys of the tile at (row, column), offsets of its entries, and which lie in rows before ``end``."""
    query = row + tl.arange(0, rows * columns) // columns
    key = column + tl.arange(0, rows * columns) % columns
    head = tl.arange(0, channels)
    offsets = (query * sizes.keys + key)[:, None] + (head * sizes.queries * sizes.keys)[None, :]
    inside = ((query < end) & (key < sizes.keys))[:, None] & (head < sizes.heads)[None, :]
    return query, key, offsets, inside


@triton.jit
def visible_keys(arguments, sentence, query, key, end, sizes):
    """(positions, 1): whether the key is visible to the query."""
    visible = (query < end) & (key < sizes.keys)
    if arguments.padded_keys is not None:
        visible = visible & (tl.load(arguments.padded_keys + sentence * sizes.keys + key, visible, 1) == 0)
    if arguments.future is not None:
        visible = visible & (tl.load(arguments.future + query * sizes.keys + key, visible, 1) == 0)
    return visible[:, None]


@triton.jit
def unmasked_pairs(visible, arguments, sentence, query, sizes):
    """(positions, 1): whether the key is visible and the query is not padding; logits of other pairs are zero."""
    if arguments.padded_queries is not None:
        padded = arguments.padded_queries + sentence * sizes.queries + query[:, None]
        visible = visible & (tl.load(padded, visible, 1) == 0)
    return visible


@triton.jit
def lerp(x, y, weight):
    """x + weight * (y - x), in torch.lerp's order of operations, which matters for values that are not finite."""
    return tl.where(weight < 0.5, x + weight * (y - x), y + (weight - 1) * (y - x))


@triton.jit
def load_head_weights(weights, row: tl.constexpr, sizes, channels: tl.constexpr):
    """(1, channels): a row of ``weights`` (n, heads)."""
    head = tl.arange(0, channels)
    return tl.load(weights + row * sizes.heads + head, head < sizes.heads, 0.0)[None, :]


@triton.jit
def mix(own, previous, arguments, sizes, channels: tl.constexpr):
    """own_weight * own + previous_weight * previous (EA eq. 4), as a lerp if a head's weights add up to 1."""
    own_weight = load_head_weights(arguments.mix, 0, sizes, channels)
    previous_weight = load_head_weights(arguments.mix, 1, sizes, channels)
    is_lerp = tl.abs(own_weight + previous_weight - 1) < 1.2e-7
    weighted = own_weight * own + previous_weight * previous
    return tl.where(is_lerp, lerp(own, previous, previous_weight), weighted)


@triton.jit
def by_row(x, rows: tl.constexpr, columns: tl.constexpr):
    """(positions, channels) -> (rows, columns, channels)"""
    return tl.reshape(x, (rows, columns, x.shape[1]))


@triton.jit
def along_row(x, columns: tl.constexpr):
    """(rows, channels) -> (positions, channels)"""
    shape: tl.constexpr = (x.shape[0], columns, x.shape[1])
    return tl.reshape(tl.broadcast_to(x[:, None, :], shape), (x.shape[0] * columns, x.shape[1]))


@triton.jit
def neighbours(maps, tap, query, key, end, sizes, direction: tl.constexpr):
    """(positions, taps): the entries that each tap reads, in float32; zero outside the map and in rows from ``end`` on.

    A tap is an element of the flattened weight (heads, kernel, kernel). ``direction`` is 1 in the convolution and -1 in
    its transpose, in which an entry reads those that have read it.
    """
    head = tap // (sizes.kernel * sizes.kernel)
    row = query[:, None] + direction * (tap // sizes.kernel % sizes.kernel - sizes.above)[None, :]
    column = key[:, None] + direction * (tap % sizes.kernel - sizes.left)[None, :]
    inside = (query < end)[:, None] & (head < sizes.heads)[None, :]
    inside = inside & (row >= 0) & (row < sizes.queries) & (column >= 0) & (column < sizes.keys)
    offsets = (head * sizes.queries * sizes.keys)[None, :] + row * sizes.keys + column
    return tl.load(maps + offsets, inside, 0.0).to(tl.float32)


@triton.jit
def convolve(conv_input, arguments, query, key, end, sizes, channels: tl.constexpr, precision: tl.constexpr):
    """The convolution of EA eq. 4, (positions, channels)."""
    head = tl.arange(0, channels)
    taps = sizes.heads * sizes.kernel * sizes.kernel
    total = tl.load(arguments.bias + head, head < sizes.heads, 0.0).to(tl.float32)[None, :]
    total += tl.zeros((query.shape[0], channels), tl.float32)
    for first in range(0, taps, SLICE):
        tap = first + tl.arange(0, SLICE)
        in_range = (tap < taps)[:, None] & (head < sizes.heads)[None, :]
        weights = tl.load(arguments.weight + (head * taps)[None, :] + tap[:, None], in_range, 0.0).to(tl.float32)
        read = neighbours(conv_input, tap, query, key, end, sizes, 1)
        total = tl.dot(read, weights, total, input_precision=precision)
    return total
