"""The GPU kernels of evolving attention, in Triton: forward and backward.

A thread cannot read the registers of others, so the convolution's input is written to global memory first and read
back, shifted, from the caches. A program reads back only what it has written itself: in the rows beyond its band that
its convolution reads, it writes the same bits as the neighbouring programs.

The convolution is a matrix product on the tensor cores, of shifted entries (positions, taps) with the flattened weight
(taps, heads). Sums are in float32. Precision "tf32x3" makes the products as accurate; "tf32" rounds weights and
gradients to 11 bits and represents every element of a 16-bit map exactly.
"""

import triton
import triton.language as tl

from ea_fairseq.kernels.triton.tiles import (
    SLICE,
    Sizes,
    along_row,
    band_of_program,
    by_row,
    convolve,
    lerp,
    load_head_weights,
    mix,
    neighbours,
    tile,
    unmasked_pairs,
    visible_keys,
)


@triton.jit(do_not_specialize=Sizes._fields)
def evolve(
    scores,
    logits,
    probabilities,
    conv_input,
    arguments,
    heads,
    queries,
    keys,
    kernel,
    above,
    left,
    band,
    rows: tl.constexpr,
    columns: tl.constexpr,
    channels: tl.constexpr,
    precision: tl.constexpr,
):
    """Writes logits, probabilities and the input of the convolution, if there is one."""
    sizes = Sizes(heads, queries, keys, kernel, above, left, band)
    sentence, begin, end = band_of_program(sizes)
    maps = sentence.to(tl.int64) * sizes.heads * sizes.queries * sizes.keys
    if arguments.weight is None:
        conv_input = logits

    # The skip connection (EA eq. 4), in all rows that the convolution of the band reads.
    read_end = tl.minimum(end + sizes.kernel - 1 - sizes.above, sizes.queries)
    for row in range(tl.maximum(begin - sizes.above, 0), read_end, rows):
        for column in range(0, sizes.keys, columns):
            query, key, offsets, inside = tile(row, column, read_end, sizes, rows, columns, channels)
            visible = visible_keys(arguments, sentence, query, key, read_end, sizes)
            unmasked = inside & unmasked_pairs(visible, arguments, sentence, query, sizes)
            x = arguments.scale * tl.load(scores + maps + offsets, unmasked, 0.0).to(tl.float32)
            if arguments.previous is not None:
                below = tl.load(arguments.previous + maps + offsets, unmasked, 0.0).to(tl.float32)
                x = mix(x, below, arguments, sizes, channels)
            tl.store(conv_input + maps + offsets, x, inside)
    tl.debug_barrier()

    if arguments.weight is not None:
        beta = load_head_weights(arguments.beta, 0, sizes, channels)
    for row in range(begin, end, rows):
        # The residual convolution (EA eq. 4), and the running maximum and sum of the softmax.
        highest = tl.full((rows, channels), -3e38, tl.float32)  # finite even in a row without visible keys
        total = tl.zeros((rows, channels), tl.float32)
        any_visible = tl.zeros((rows, 1), tl.int32)
        for column in range(0, sizes.keys, columns):
            query, key, offsets, inside = tile(row, column, end, sizes, rows, columns, channels)
            visible = visible_keys(arguments, sentence, query, key, end, sizes)
            evolved = tl.load(conv_input + maps + offsets, inside, 0.0).to(tl.float32)
            if arguments.weight is not None:
                convolved = convolve(conv_input + maps, arguments, query, key, end, sizes, channels, precision)
                evolved = lerp(evolved, tl.where(convolved <= 0, 0.0, convolved), beta)
                evolved = tl.where(unmasked_pairs(visible, arguments, sentence, query, sizes), evolved, 0.0)
                evolved = evolved.to(logits.dtype.element_ty).to(tl.float32)
                tl.store(logits + maps + offsets, evolved, inside)
            evolved = by_row(tl.where(visible, evolved, float("-inf")), rows, columns)
            peak = tl.maximum(highest, tl.max(evolved, 1))
            total = total * tl.exp(highest - peak) + tl.sum(tl.exp(evolved - peak[:, None, :]), 1)
            highest = peak
            any_visible = tl.maximum(any_visible, tl.max(by_row(visible.to(tl.int32), rows, columns), 1))
        tl.debug_barrier()
        # The softmax (EA eq. 5).
        for column in range(0, sizes.keys, columns):
            query, key, offsets, inside = tile(row, column, end, sizes, rows, columns, channels)
            visible = visible_keys(arguments, sentence, query, key, end, sizes)
            evolved = tl.load(logits + maps + offsets, inside & visible, float("-inf")).to(tl.float32)
            any_key = along_row(any_visible, columns) > 0
            p = tl.exp(evolved - along_row(highest, columns)) / tl.where(any_key, along_row(total, columns), 1.0)
            p = tl.where(any_key, p, 1.0 / sizes.keys)  # uniform in a row without visible keys
            tl.store(probabilities + maps + offsets, p, inside)


@triton.jit
def softmax_row_sums(
    probabilities,
    d_probabilities,
    arguments,
    sentence,
    row,
    end,
    sizes,
    rows: tl.constexpr,
    columns: tl.constexpr,
    channels: tl.constexpr,
):
    """sum(P * dP) over visible keys, (rows, channels): the second term of the softmax's gradient."""
    sums = tl.zeros((rows, channels), tl.float32)
    for column in range(0, sizes.keys, columns):
        query, key, offsets, inside = tile(row, column, end, sizes, rows, columns, channels)
        visible = inside & visible_keys(arguments, sentence, query, key, end, sizes)
        p = tl.load(probabilities + offsets, visible, 0.0).to(tl.float32)
        d_p = tl.load(d_probabilities + offsets, visible, 0.0).to(tl.float32)
        sums += tl.sum(by_row(p * d_p, rows, columns), 1)
    return sums


@triton.jit
def logits_gradient(d_logits, d_probabilities, probabilities, sums, offsets, unmasked):
    """d_logits + P * (dP - sum(P * dP)), zero at masked entries."""
    p = tl.load(probabilities + offsets, unmasked, 0.0).to(tl.float32)
    gradient = p * (tl.load(d_probabilities + offsets, unmasked, 0.0).to(tl.float32) - sums)
    if d_logits is not None:
        gradient += tl.load(d_logits + offsets, unmasked, 0.0).to(tl.float32)
    return tl.where(unmasked, gradient, 0.0)


@triton.jit(do_not_specialize=Sizes._fields)
def evolve_backward(
    d_logits,
    d_probabilities,
    probabilities,
    conv_input,
    scores,
    d_convolved,
    d_scores,
    d_previous,
    d_mixes,
    d_weights,
    d_biases,
    d_betas,
    arguments,
    heads,
    queries,
    keys,
    kernel,
    above,
    left,
    band,
    rows: tl.constexpr,
    columns: tl.constexpr,
    channels: tl.constexpr,
    precision: tl.constexpr,
    slices: tl.constexpr,
    warps: tl.constexpr,
):
    """Writes d_scores, d_previous and the program's part of the parameters' gradients; d_convolved is a scratch map."""
    sizes = Sizes(heads, queries, keys, kernel, above, left, band)
    sentence, begin, end = band_of_program(sizes)
    maps = sentence.to(tl.int64) * sizes.heads * sizes.queries * sizes.keys
    probabilities += maps
    d_probabilities += maps
    if d_logits is not None:
        d_logits += maps
    head = tl.arange(0, channels)
    area = sizes.kernel * sizes.kernel
    taps = sizes.heads * area

    # Gradients of logits and of the convolution's output, in all rows whose convolution reads the band.
    if arguments.weight is not None:
        beta = load_head_weights(arguments.beta, 0, sizes, channels)
        d_bias, d_beta = tl.zeros((channels,), tl.float32), tl.zeros((channels,), tl.float32)
        read_end = tl.minimum(end + sizes.above, sizes.queries)
        for row in range(tl.maximum(begin + sizes.above - sizes.kernel + 1, 0), read_end, rows):
            sums = softmax_row_sums(
                probabilities, d_probabilities, arguments, sentence, row, read_end, sizes, rows, columns, channels
            )
            sums = along_row(sums, columns)
            for column in range(0, sizes.keys, columns):
                query, key, offsets, inside = tile(row, column, read_end, sizes, rows, columns, channels)
                visible = visible_keys(arguments, sentence, query, key, read_end, sizes)
                unmasked = inside & unmasked_pairs(visible, arguments, sentence, query, sizes)
                gradient = logits_gradient(d_logits, d_probabilities, probabilities, sums, offsets, unmasked)
                convolved = convolve(conv_input + maps, arguments, query, key, read_end, sizes, channels, precision)
                in_band = ((query >= begin) & (query < end))[:, None]
                if d_betas is not None:
                    change = tl.where(convolved <= 0, 0.0, convolved)
                    change -= tl.load(conv_input + maps + offsets, inside, 0.0).to(tl.float32)
                    d_beta += tl.sum(tl.where(in_band & unmasked, gradient * change, 0.0), 0)
                gradient = beta * tl.where(convolved <= 0, 0.0, gradient)
                tl.store(d_convolved + maps + offsets, gradient, inside)
                d_bias += tl.sum(tl.where(in_band, gradient, 0.0), 0)
        tl.store(d_biases + tl.program_id(0) * sizes.heads + head, d_bias, head < sizes.heads)
        if d_betas is not None:
            tl.store(d_betas + tl.program_id(0) * sizes.heads + head, d_beta, head < sizes.heads)
        tl.debug_barrier()
        d_weight = tl.zeros((slices, SLICE, channels), tl.float32)

    # Gradients of mixed logits, through the transposed convolution, and from them those of scores and previous logits.
    if d_mixes is not None:
        d_own_weight, d_previous_weight = tl.zeros((channels,), tl.float32), tl.zeros((channels,), tl.float32)
    for row in range(begin, end, rows):
        sums = softmax_row_sums(
            probabilities, d_probabilities, arguments, sentence, row, end, sizes, rows, columns, channels
        )
        sums = along_row(sums, columns)
        for column in range(0, sizes.keys, columns):
            query, key, offsets, inside = tile(row, column, end, sizes, rows, columns, channels)
            visible = visible_keys(arguments, sentence, query, key, end, sizes)
            unmasked = inside & unmasked_pairs(visible, arguments, sentence, query, sizes)
            gradient = logits_gradient(d_logits, d_probabilities, probabilities, sums, offsets, unmasked)
            if arguments.weight is not None:
                gradient *= 1 - beta
                entries = tl.load(conv_input + maps + offsets, inside, 0.0).to(tl.float32)
                entries = tl.reshape(entries, (warps, rows * columns // warps, channels))
                for number in range(0, tl.cdiv(taps, SLICE)):
                    tap = number * SLICE + tl.arange(0, SLICE)
                    in_range = (tap < taps)[:, None] & (head < sizes.heads)[None, :]
                    weight_offsets = (tap // area * taps + tap % area)[:, None] + (head * area)[None, :]
                    weights = tl.load(arguments.weight + weight_offsets, in_range, 0.0).to(tl.float32)
                    readers = neighbours(d_convolved + maps, tap, query, key, end, sizes, -1)
                    gradient = tl.dot(readers, weights, gradient, input_precision=precision)
                    # Each warp multiplies its own positions, because there are many positions and few sums.
                    readers = tl.reshape(readers, (warps, rows * columns // warps, SLICE))
                    products = tl.dot(tl.trans(readers, 0, 2, 1), entries, input_precision=precision)
                    chosen = (tl.arange(0, slices) == number)[:, None, None]
                    d_weight += tl.where(chosen, tl.sum(products, 0)[None, :, :], 0.0)
                gradient = tl.where(unmasked, gradient, 0.0)
            if d_mixes is not None:
                own = arguments.scale * tl.load(scores + maps + offsets, unmasked, 0.0).to(tl.float32)
                below = tl.load(arguments.previous + maps + offsets, unmasked, 0.0).to(tl.float32)
                d_own_weight += tl.sum(gradient * own, 0)
                d_previous_weight += tl.sum(gradient * below, 0)
            if d_previous is not None:
                previous_weight = load_head_weights(arguments.mix, 1, sizes, channels)
                tl.store(d_previous + maps + offsets, previous_weight * gradient, inside)
                gradient *= load_head_weights(arguments.mix, 0, sizes, channels)
            tl.store(d_scores + maps + offsets, arguments.scale * gradient, inside)

    if d_mixes is not None:
        at = d_mixes + tl.program_id(0) * 2 * sizes.heads + head
        tl.store(at, d_own_weight, head < sizes.heads)
        tl.store(at + sizes.heads, d_previous_weight, head < sizes.heads)
    if arguments.weight is not None:
        tap = (tl.arange(0, slices)[:, None] * SLICE + tl.arange(0, SLICE)[None, :])[:, :, None]
        weight_offsets = tap // area * taps + tap % area + (head * area)[None, None, :]
        in_range = (tap < taps) & (head < sizes.heads)[None, None, :]
        tl.store(d_weights + tl.program_id(0).to(tl.int64) * sizes.heads * taps + weight_offsets, d_weight, in_range)
