// The backward pass from gradients of logits and probabilities, one task per tile. Included once for each instruction
// set.
#pragma once
#include "evolution_forward.h"

// Backward through the softmax and the ReLU for one row. Writes the gradients of logits, which are
// d_logits + P * (dP - sum(P * dP)), and those of the convolution's output; pack_weights and reduce_parameter_gradients
// apply the factor beta if it is a head's. The row's probabilities and their gradients begin at p[at] and d_p[at].
INLINE void logits_gradient(const struct fused_arguments *args, const struct tile *tile, int64_t head, int64_t row,
                            int64_t end, const void *p, const void *d_p, int64_t at, float *d_logits, float *d_conv,
                            int bf16) {
    int64_t index = map_index(args, tile, head, row);
    const uint8_t *relu_mask = d_conv ? args->relu_mask + row_index(args, tile, head, row) * (tile->columns / 8) : NULL;
    float beta = d_conv && args->by_word ? args->beta[row_index(args, tile, head, row)] : 1;
    vec total = {0};
    for (int64_t s = 0; s < end; s += LANES)
        total += where(visible(tile, s),
                       masked_load(p, at + s, args->keys - s, bf16) * masked_load(d_p, at + s, args->keys - s, bf16));
    float dot = reduce_sum(total);
    for (int64_t s = 0; s < end; s += LANES) {
        vec d = args->d_logits ? masked_load(args->d_logits, index + s, args->keys - s, bf16) : (vec){0};
        d += masked_load(p, at + s, args->keys - s, bf16) * (masked_load(d_p, at + s, args->keys - s, bf16) - dot);
        d = where(visible(tile, s), d);
        if (d_logits) store(d_logits + s, d);
        if (d_conv) store(d_conv + s, where(load_bits(relu_mask + s / 8), d * beta));
    }
}

// Adds to the gradient of the convolution's weight: for a block of output heads from `first`, input head `in`, kernel
// row `i` and `taps` kernel columns from `j`.
INLINE void conv_weight_gradient(const struct fused_arguments *args, const struct tile *tile, const float *d_conv,
                                 const float *conv_input, int64_t first, int64_t in, int64_t i, int64_t j,
                                 const int taps, float *d_weight) {
    vec total[HEAD_BLOCK][3] = {{{0}}};
    const float *x = conv_input + in * tile->head_stride + i * tile->row_stride + tile->padding - args->left + j;
    const float *own_rows = d_conv + rows_below(args) * tile->row_stride + tile->padding, *d[HEAD_BLOCK];
    int block_heads = min_int(HEAD_BLOCK, args->heads - first);
    for (int out = 0; out < HEAD_BLOCK; out++)  // beyond the last head, the last is read and the result is dropped
        d[out] = own_rows + (first + min_int(out, block_heads - 1)) * tile->head_stride;
    for (int64_t row = 0; row < (tile->end - tile->begin) * tile->row_stride; row += tile->row_stride)
        for (int64_t s = 0; s < tile->columns; s += LANES) {
            vec shifted[3];
            FULLY_UNROLLED
            for (int tap = 0; tap < taps; tap++) shifted[tap] = load(x + row + s + tap);
            FULLY_UNROLLED
            for (int out = 0; out < HEAD_BLOCK; out++) {
                vec gradient = load(d[out] + row + s);
                keep_in_register(&gradient);
                FULLY_UNROLLED
                for (int tap = 0; tap < taps; tap++) total[out][tap] += gradient * shifted[tap];
            }
        }
    int64_t k = args->kernel;
    for (int out = 0; out < block_heads; out++)
        for (int tap = 0; tap < taps; tap++)
            d_weight[(((first + out) * args->heads + in) * k + i) * k + j + tap] += reduce_sum(total[out][tap]);
}

INLINE void conv_weight_gradients(const struct fused_arguments *args, const struct tile *tile, const float *d_conv,
                                  const float *conv_input, float *d_weight) {
    for (int64_t first = 0; first < args->heads; first += HEAD_BLOCK)
        for (int64_t in = 0; in < args->heads; in++)
            for (int64_t i = 0; i < args->kernel; i++)
                for (int64_t j = 0; j < args->kernel; j += 3) switch (args->kernel - j) {
                    case 1: conv_weight_gradient(args, tile, d_conv, conv_input, first, in, i, j, 1, d_weight); break;
                    case 2: conv_weight_gradient(args, tile, d_conv, conv_input, first, in, i, j, 2, d_weight); break;
                    default: conv_weight_gradient(args, tile, d_conv, conv_input, first, in, i, j, 3, d_weight);
                    }
}

// The index of a row in the gradients of mixed logits, (K, rows, columns).
INLINE int64_t d_mixed_index(const struct tile *tile, int64_t head, int64_t row) {
    return (head * (tile->end - tile->begin) + row - tile->begin) * tile->columns;
}

// Gradients of mixed logits, in `d_mixed` in place of those of logits: (1 - beta) times the latter plus the transposed
// convolution, for `vectors` vectors of a row and a block of heads.
INLINE void transposed_convolution(const struct pass *pass, const struct tile *tile, const float *d_conv, int64_t first,
                                   int64_t row, int64_t s, const int vectors, float *d_mixed) {
    const struct fused_arguments *args = pass->args;
    vec total[HEAD_BLOCK][MAX_VECTORS] = {{{0}}};
    int64_t right = args->kernel - 1 - args->left;
    const float *at = d_conv + (row - tile->begin) * tile->row_stride + tile->padding - right + s;
    convolve(args, tile, at, packed_block(args, pass->transposed, first), vectors, total);
    for (int out = 0; out < HEAD_BLOCK; out++) {
        if (first + out >= args->heads) break;
        float rest = 1 - args->beta[weight_index(args, tile, first + out, row)];
        float *d = d_mixed + d_mixed_index(tile, first + out, row) + s;
        for (int v = 0; v < vectors; v++) store(d + v * LANES, load(d + v * LANES) * rest + total[out][v]);
    }
}

// Adds to the gradients of words' betas, for `vectors` vectors of a row and a block of heads: the dot product of the
// gradients of logits and of what the residual convolution, which is computed again, would change with a beta of 1.
INLINE void add_beta_gradients(const struct pass *pass, const struct tile *tile, const float *conv_input, int64_t first,
                               int64_t row, int64_t s, const int vectors, float *d_logits) {
    const struct fused_arguments *args = pass->args;
    vec convolved[HEAD_BLOCK][MAX_VECTORS];
    biased_convolution(pass, tile, conv_input, first, row, s, vectors, convolved);
    for (int out = 0; out < HEAD_BLOCK; out++) {
        if (first + out >= args->heads) break;
        int64_t index = row_index(args, tile, first + out, row);
        const uint8_t *relu_mask = args->relu_mask + index * (tile->columns / 8) + s / 8;
        const float *d = d_logits + d_mixed_index(tile, first + out, row) + s;
        const float *centre = conv_input + centre_index(args, tile, first + out, row) + s;
        vec total = {0};
        for (int v = 0; v < vectors; v++) {
            vec activated = where(load_bits(relu_mask + v * LANES / 8), convolved[out][v]);
            total += load(d + v * LANES) * (activated - load(centre + v * LANES));
        }
        args->d_beta[index] += reduce_sum(total);
    }
}

// The buffers of a backward pass over a tile.
struct gradients {
    float *d_conv, *conv_input;  // padded maps: gradients of the convolution's output; its input
    float *d_mixed;              // (K, rows, columns): gradients of logits, then of mixed logits
};

INLINE int64_t gradients_size(const struct fused_arguments *args, const struct tile *tile) {
    return 2 * map_size(args, tile) + args->heads * rows_per_tile(args) * tile->columns;
}

INLINE struct gradients zero_gradients(const struct fused_arguments *args, const struct tile *tile, float *memory) {
    int64_t size = map_size(args, tile);
    memset(memory, 0, 4 * gradients_size(args, tile));
    return (struct gradients){memory, memory + size, memory + 2 * size};
}

INLINE float *d_mixed_row(const struct tile *tile, const struct gradients *d, int64_t head, int64_t row) {
    return d->d_mixed + d_mixed_index(tile, head, row);
}

INLINE float *d_conv_row(const struct fused_arguments *args, const struct tile *tile, const struct gradients *d,
                         int64_t head, int64_t row) {
    return d->d_conv + head * tile->head_stride + (row - tile->begin + rows_below(args)) * tile->row_stride +
           tile->padding;
}

// A task's part of the gradients of parameters.
struct parameter_gradients {
    float *weight, *bias;         // (K, K, kernel, kernel), (K), of the convolution before its factor beta
    float *mix;                   // (2, K)
    float *mixed;                 // (K), of 1 - beta, the weight of the convolution's input
};

INLINE int64_t conv_weight_size(const struct fused_arguments *args) {
    return args->heads * args->heads * args->kernel * args->kernel;
}
INLINE int64_t parameter_gradients_size(const struct fused_arguments *args) {
    return conv_weight_size(args) + 4 * args->heads;
}

INLINE struct parameter_gradients parameter_gradients_at(const struct fused_arguments *args, float *d_parameters) {
    float *by_head = d_parameters + conv_weight_size(args);
    return (struct parameter_gradients){d_parameters, by_head, by_head + args->heads, by_head + 3 * args->heads};
}

INLINE struct parameter_gradients parameter_gradients_of_task(const struct pass *pass, int64_t task) {
    return parameter_gradients_at(pass->args, pass->task_gradients + task * parameter_gradients_size(pass->args));
}

// Where the gradients of the weights of scores are added up, which those of the weights of previous logits follow.
INLINE float *d_mix_of(const struct fused_arguments *args, struct parameter_gradients d_parameters) {
    return args->by_word ? args->d_mix : d_parameters.mix;
}

// The dot product of a row of gradients and the visible entries of a row of a map.
INLINE float visible_dot_product(const struct fused_arguments *args, const struct tile *tile, const float *gradients,
                                 const void *map, int64_t index, int64_t end, int bf16) {
    vec total = {0};
    for (int64_t s = 0; s < end; s += LANES)
        total += load(gradients + s) * where(visible(tile, s), masked_load(map, index + s, args->keys - s, bf16));
    return reduce_sum(total);
}

// Backward through the residual convolution and the skip connection (EA eq. 4): gradients of mixed logits, and the
// tile's part of the gradients of parameters.
INLINE void evolution_gradients(const struct pass *pass, struct tile *tile, struct gradients *d,
                                struct parameter_gradients d_parameters, int bf16) {
    const struct fused_arguments *args = pass->args;
    int64_t rows = tile->end - tile->begin;
    if (args->weight) {
        conv_weight_gradients(args, tile, d->d_conv, d->conv_input, d_parameters.weight);
        for (int64_t head = 0; head < args->heads; head++) {
            const float *head_row = d_conv_row(args, tile, d, head, tile->begin);
            vec total = {0};
            for (int64_t row = 0; row < rows; row++)
                for (int64_t s = 0; s < tile->columns; s += LANES) total += load(head_row + row * tile->row_stride + s);
            d_parameters.bias[head] += reduce_sum(total);
        }
    }
    for (int64_t row = tile->begin; row < tile->end; row++) {
        int64_t end = is_padded(args, tile, row) ? 0 : load_key_mask(args, tile, row);
        for (int64_t head = 0; args->d_beta && !args->by_word && head < args->heads; head++)
            d_parameters.mixed[head] += visible_dot_product(args, tile, d_mixed_row(tile, d, head, row), d->conv_input,
                                                            centre_index(args, tile, head, row), end, 0);
        for (int64_t first = 0; args->weight && first < args->heads; first += HEAD_BLOCK) {
            if (args->d_beta && args->by_word)
                convolve_row(pass, tile, d->conv_input, first, row, end, d->d_mixed, add_beta_gradients);
            convolve_row(pass, tile, d->d_conv, first, row, end, d->d_mixed, transposed_convolution);
        }
        for (int64_t head = 0; head < args->heads; head++) {
            float *head_row = d_mixed_row(tile, d, head, row);
            for (int64_t s = 0; s < end; s += LANES) store(head_row + s, where(visible(tile, s), load(head_row + s)));
            memset(head_row + end, 0, 4 * (tile->columns - end));
            if (!args->d_mix) continue;
            int64_t index = map_index(args, tile, head, row);
            float *d_mix = d_mix_of(args, d_parameters) + weight_index(args, tile, head, row);
            d_mix[weight_count(args)] += visible_dot_product(args, tile, head_row, args->previous, index, end, bf16);
            if (args->scores)
                *d_mix += args->scale * visible_dot_product(args, tile, head_row, args->scores, index, end, bf16);
        }
    }
}

// Stores gradients of mixed logits, times `scale` and, unless NULL, `weights` of heads or rows, in the tile's rows of a
// map.
INLINE void store_gradients(const struct fused_arguments *args, const struct tile *tile, const struct gradients *d,
                            void *map, double scale, const float *weights, int bf16) {
    for (int64_t head = 0; head < args->heads; head++) {
        for (int64_t row = tile->begin; row < tile->end; row++) {
            const float *from = d_mixed_row(tile, d, head, row);
            int64_t index = map_index(args, tile, head, row);
            float factor = scale * (weights ? weights[weight_index(args, tile, head, row)] : 1);
            for (int64_t s = 0; s < args->keys; s += LANES)
                masked_store(map, index + s, args->keys - s, load(from + s) * factor, bf16);
        }
    }
}

INLINE int backward_tile(const struct pass *pass, int64_t task, int bf16) {
    const struct fused_arguments *args = pass->args;
    struct tile tile = make_tile(args, task);
    int64_t size = gradients_size(args, &tile), below = rows_below(args);
    float *memory = thread_scratch(size + key_masks_size(args));
    if (!memory) return 1;
    tile.key_masks = (int32_t *)(memory + size);
    move_tile(args, &tile, tile.begin);
    struct gradients d = zero_gradients(args, &tile, memory);
    // Backward through the softmax (EA eq. 5) and the ReLU, in all rows that read the tile.
    for (int64_t row = max_int(tile.begin - below, 0); row < min_int(tile.end + args->above, args->queries); row++) {
        if (is_padded(args, &tile, row)) continue;
        int64_t end = load_key_mask(args, &tile, row), own = row >= tile.begin && row < tile.end;
        for (int64_t head = 0; head < args->heads; head++)
            logits_gradient(args, &tile, head, row, end, args->probabilities, args->d_probabilities,
                            map_index(args, &tile, head, row), own ? d_mixed_row(&tile, &d, head, row) : NULL,
                            args->weight ? d_conv_row(args, &tile, &d, head, row) : NULL, bf16);
    }
    // Load the convolution's input for the gradient of its weight.
    if (args->weight) {
        int64_t first = tile.begin - args->above, last = min_int(tile.end + below, args->queries);
        for (int64_t head = 0; head < args->heads; head++)
            for (int64_t row = max_int(first, 0); row < last; row++) {
                float *x = d.conv_input + head * tile.head_stride + (row - first) * tile.row_stride + tile.padding;
                int64_t index = map_index(args, &tile, head, row);
                for (int64_t s = 0; s < args->keys; s += LANES)
                    store(x + s, masked_load(args->conv_input, index + s, args->keys - s, bf16));
            }
    }
    // Backward through the convolution and the skip connection (EA eq. 4).
    evolution_gradients(pass, &tile, &d, parameter_gradients_of_task(pass, task), bf16);
    store_gradients(args, &tile, &d, args->d_scores, args->scale, args->mix, bf16);
    if (args->d_previous) store_gradients(args, &tile, &d, args->d_previous, 1, args->mix + weight_count(args), bf16);
    return 0;
}

static int backward_float32(const void *pass, int64_t task) { return backward_tile(pass, task, 0); }
static int backward_bfloat16(const void *pass, int64_t task) { return backward_tile(pass, task, 1); }

// Sums the tasks' parts of the gradients of parameters. The gradient of a head's beta needs no convolution: because a
// convolution is linear, <output, d_output> = <weight, d_weight> + <bias, d_bias>.
static void reduce_parameter_gradients(const struct pass *pass, int64_t tasks) {
    const struct fused_arguments *args = pass->args;
    int64_t count = parameter_gradients_size(args), taps = conv_weight_size(args) / args->heads;
    struct parameter_gradients d_parameters = parameter_gradients_at(args, pass->task_gradients);
    for (int64_t i = 0; i < count; i++) {
        double total = 0;
        for (int64_t task = 0; task < tasks; task++) total += pass->task_gradients[task * count + i];
        pass->task_gradients[i] = total;
    }
    for (int64_t head = 0; args->weight && head < args->heads; head++) {
        double products = (double)args->bias[head] * d_parameters.bias[head];
        float beta = args->by_word ? 1 : args->beta[head];
        args->d_bias[head] = beta * d_parameters.bias[head];
        for (int64_t i = head * taps; i < (head + 1) * taps; i++) {
            products += (double)args->weight[i] * d_parameters.weight[i];
            args->d_weight[i] = beta * d_parameters.weight[i];
        }
        if (args->d_beta && !args->by_word) args->d_beta[head] = products - d_parameters.mixed[head];
    }
    if (args->d_mix && !args->by_word) memcpy(args->d_mix, d_parameters.mix, 4 * 2 * args->heads);
}

// Runs the tasks of a backward pass on all threads and sums the gradients of parameters; returns whether it failed.
static int run_backward(const struct fused_arguments *args, int64_t tasks, task_t task) {
    int64_t size = packed_size(args);
    float *packed = malloc(4 * 2 * size), *task_gradients = calloc(tasks * parameter_gradients_size(args), 4);
    struct pass pass = {.args = args, .packed = packed, .transposed = packed + size, .task_gradients = task_gradients};
    int failed = !packed || !task_gradients;
    if (args->by_word && args->d_mix) memset(args->d_mix, 0, 4 * 2 * weight_count(args));
    if (args->by_word && args->d_beta) memset(args->d_beta, 0, 4 * weight_count(args));
    if (!failed) {
        for (int transposed = 0; args->weight && transposed < 2; transposed++)
            pack_weights(args, transposed, packed + transposed * size);
        failed = parallel_for(&args->pool, tasks, task, &pass);
    }
    if (!failed && (args->weight || args->d_mix)) reduce_parameter_gradients(&pass, tasks);
    free(packed);
    free(task_gradients);
    return failed;
}

int NAMED(evolve_backward)(const struct fused_arguments *args) {
    return run_backward(args, tile_count(args), args->bf16 ? backward_bfloat16 : backward_float32);
}
