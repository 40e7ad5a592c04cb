// One decoding step of an attention, by rows. Included once for each instruction set.
#pragma once
#include "rows.h"
#include "step.h"

enum { UNROLL = 4 };  // keys, vectors of a value or convolved heads that are computed side by side

struct decode_tasks {
    const struct step *args;
    int64_t rows_per_task;
    int64_t columns;  // size of a row of a map with its padding and one more vector
};

// One hypothesis, and the thread's buffers for it, whose rows have `columns` entries.
struct row {
    int64_t index, columns;
    int64_t *offsets;  // of each key and its value in the KV cache
    int32_t *visible;  // -1 for visible keys, else 0
    float *window;     // (above + 1, K, columns): the convolution's input, rows of earlier steps and this step's
    float *logits;     // (K, columns)
};

INLINE int64_t row_size(const struct step *args) { return args->heads * args->head_dim; }
INLINE int is_padded_query(const struct step *args, const struct row *row) {
    return args->padded_queries && args->padded_queries[row->index];
}

// The index of the first head's weight in `mix` and `beta`.
INLINE int64_t row_weights(const struct step *args, const struct row *row) {
    return args->by_word ? row->index * args->heads : 0;
}

// The row of a head in the window, `below` rows after the first.
INLINE float *window_row(const struct step *args, const struct row *row, int64_t below, int64_t head) {
    return row->window + (below * args->heads + head) * row->columns;
}

// Finds the keys of a hypothesis in the KV cache by its back-pointers, and which of them are visible; adds the key and
// value of this step to the cache.
INLINE void load_keys(const struct step *args, struct row *row) {
    const int32_t *back_pointers = args->back_pointers + row->index * args->max_steps;
    int64_t sentence = args->sentence ? args->sentence[row->index] : 0;
    const uint8_t *padded = args->padded_keys;
    if (padded) padded += args->sentence ? sentence * args->keys : row->index * args->max_steps;
    for (int64_t s = 0; s < args->keys; s++)
        row->offsets[s] = (s * args->cache_slots + (args->sentence ? sentence : back_pointers[s])) * row_size(args);
    for (int64_t s = 0; s < args->keys; s += LANES)
        store_ivec(row->visible + s, visible_keys(padded, NULL, s, args->keys));
    if (args->new_key) {
        memcpy(args->key + row->offsets[args->keys - 1], args->new_key + row->index * args->token_stride,
               4 * row_size(args));
        memcpy(args->value + row->offsets[args->keys - 1], args->new_value + row->index * args->token_stride,
               4 * row_size(args));
    }
}

// Computes the scores of a query for all keys (EA eq. 1) and mixes them with the previous logits (EA eq. 4, the skip
// connection).
INLINE void score_row(const struct step *args, const struct row *row) {
    const float *query = args->query + row->index * args->token_stride;
    for (int64_t s = 0; s < args->keys; s += UNROLL) {
        const float *keys[UNROLL];
        for (int i = 0; i < UNROLL; i++) keys[i] = args->key + row->offsets[min_int(s + i, args->keys - 1)];
        for (int64_t head = 0; head < args->heads; head++) {
            vec total[UNROLL] = {{0}};
            for (int64_t x = 0, at = head * args->head_dim; x < args->head_dim; x += LANES, at += LANES) {
                vec part = masked_load(query, at, args->head_dim - x, 0);
                for (int i = 0; i < UNROLL; i++) total[i] += part * masked_load(keys[i], at, args->head_dim - x, 0);
            }
            float *to = window_row(args, row, args->above, head) + args->left + s;
            for (int i = 0; i < UNROLL; i++) to[i] = reduce_sum(total[i]);
        }
    }
    float scale = args->scale;
    ivec real = is_padded_query(args, row) ? (ivec){0} : ~(ivec){0};
    for (int64_t head = 0; head < args->heads; head++) {
        float *map = window_row(args, row, args->above, head);
        int64_t s = 0, index = (row->index * args->heads + head) * args->keys;
        struct mix mix = {0};
        if (args->previous)
            mix = mix_weights(args->mix, args->heads * (args->by_word ? args->rows : 1), row_weights(args, row) + head);
        memset(map, 0, 4 * args->left);
        for (; s < args->keys; s += LANES) {
            vec x = load(map + args->left + s) * scale;
            if (args->previous) x = mix_logits(x, masked_load(args->previous, index + s, args->keys - s, 0), mix);
            store(map + args->left + s, where(load_ivec(row->visible + s) & real, x));
        }
        memset(map + args->left + s, 0, 4 * (row->columns - args->left - s));
    }
}

// Copies the rows of earlier steps that the convolution reads, and stores this step's row for later steps.
INLINE void gather_conv_input(const struct step *args, const struct row *row) {
    for (int64_t back = args->above; back >= 0; back--) {
        int64_t step = args->current_step - back, stored_keys = step < 0       ? 0
                                                              : args->sentence ? args->keys
                                                                               : args->keys - back;
        int64_t slot = step < 0 ? 0 : back ? args->back_pointers[row->index * args->max_steps + step] : row->index;
        int64_t slot_of_step = (step + args->above + 1) % (args->above + 1);
        for (int64_t head = 0; head < args->heads; head++) {
            float *map = window_row(args, row, args->above - back, head);
            float *stored =
                args->conv_input + ((slot_of_step * args->conv_slots + slot) * args->heads + head) * args->capacity;
            if (back) {
                memset(map, 0, 4 * args->left);
                memcpy(map + args->left, stored, 4 * stored_keys);
                memset(map + args->left + stored_keys, 0, 4 * (row->columns - args->left - stored_keys));
            } else {
                memcpy(stored, map + args->left, 4 * stored_keys);
            }
        }
    }
}

// The residual convolution (EA eq. 4) of one vector of keys for `heads` heads from `head` on.
INLINE void evolve_heads(const struct step *args, const struct row *row, int64_t head, int64_t s, const int heads) {
    int64_t taps = args->kernel * args->kernel;
    const float *weight = args->weight + head * args->heads * taps;
    vec total[UNROLL];
    for (int i = 0; i < heads; i++) total[i] = splat(args->bias[head + i]);
    for (int64_t below = 0; below <= args->above; below++)
        for (int64_t input = 0; input < args->heads; input++)
            for (int64_t right = 0; right < args->kernel; right++) {
                vec x = load(window_row(args, row, below, input) + s + right);
                const float *tap = weight + input * taps + below * args->kernel + right;
                for (int i = 0; i < heads; i++) total[i] += x * tap[i * args->heads * taps];
            }
    ivec real = is_padded_query(args, row) ? (ivec){0} : load_ivec(row->visible + s);
    for (int i = 0; i < heads; i++) {
        vec mixed = load(window_row(args, row, args->above, head + i) + args->left + s);
        vec x = lerp(mixed, where(relu_passes(total[i]), total[i]), args->beta[row_weights(args, row) + head + i]);
        store(row->logits + (head + i) * row->columns + s, where(real, x));
    }
}

// Replaces a row of logits by its softmax over visible keys (EA eq. 5); uniform over all keys if none is visible.
INLINE void softmax_row(const struct step *args, const struct row *row, int64_t head) {
    const float *sink = args->sinks ? args->sinks + head : NULL;
    float *x = row->logits + head * row->columns, shift;
    float total = softmax_numerators(x, row->visible, args->keys, sink, &shift);
    for (int64_t s = 0; s < args->keys; s += LANES)
        store(x + s, total == 0 ? splat(1.0f / args->keys) : load(x + s) / total);
}

// The output: the sum of the values weighted by their probabilities (EA eq. 5).
INLINE void attend_row(const struct step *args, const struct row *row) {
    for (int64_t head = 0; head < args->heads; head++) {
        const float *probabilities = row->logits + head * row->columns;
        for (int64_t x = 0; x < args->head_dim; x += UNROLL * LANES) {
            int64_t begin = head * args->head_dim + x, rest = args->head_dim - x;
            vec total[UNROLL] = {{0}};
            for (int64_t s = 0; s < args->keys; s++)
                for (int i = 0; i < UNROLL; i++)
                    if (i * LANES < rest)
                        total[i] += probabilities[s] *
                                    masked_load(args->value + row->offsets[s], begin + i * LANES, rest - i * LANES, 0);
            begin += row->index * row_size(args);
            for (int i = 0; i < UNROLL; i++)
                if (i * LANES < rest) masked_store(args->output, begin + i * LANES, rest - i * LANES, total[i], 0);
        }
    }
}

INLINE void write_map(const struct step *args, const struct row *row, float *to) {
    for (int64_t head = 0; to && head < args->heads; head++)
        memcpy(to + (row->index * args->heads + head) * args->keys, row->logits + head * row->columns, 4 * args->keys);
}

static void decode_row(const struct step *args, struct row *row) {
    load_keys(args, row);
    score_row(args, row);
    if (args->weight) {
        if (args->above) gather_conv_input(args, row);
        for (int64_t s = 0; s < args->keys; s += LANES) {
            int64_t head = 0;
            for (; head + UNROLL <= args->heads; head += UNROLL) evolve_heads(args, row, head, s, UNROLL);
            for (; head < args->heads; head++) evolve_heads(args, row, head, s, 1);
        }
    }
    write_map(args, row, args->logits);
    for (int64_t head = 0; head < args->heads; head++) softmax_row(args, row, head);
    write_map(args, row, args->probabilities);
    attend_row(args, row);
}

static int decode_rows(const void *argument, int64_t task) {
    const struct decode_tasks *tasks = argument;
    const struct step *args = tasks->args;
    int64_t columns = tasks->columns, plane = args->heads * columns;
    float *memory = thread_scratch(3 * columns + (args->above + 2) * plane);
    if (!memory) return 1;
    struct row row = {.columns = columns, .offsets = (int64_t *)memory, .visible = (int32_t *)(memory + 2 * columns)};
    row.window = memory + 3 * columns;
    row.logits = row.window + (args->above + (args->weight != NULL)) * plane;  // or the window
    int64_t end = min_int((task + 1) * tasks->rows_per_task, args->rows);
    for (row.index = task * tasks->rows_per_task; row.index < end; row.index++) decode_row(args, &row);
    return 0;
}

int NAMED(decode)(const struct step *args) {
    const int64_t multiplications_per_task = 1 << 17;
    int64_t multiplications_per_row =
        2 * args->keys * row_size(args) + args->keys * args->heads * args->heads * args->kernel * (args->above + 1);
    struct decode_tasks tasks = {.args = args, .rows_per_task = 1 + multiplications_per_task / multiplications_per_row};
    tasks.columns = args->left + round_up(args->keys, LANES) + args->kernel + LANES;
    return parallel_for(&args->pool, ceil_div(args->rows, tasks.rows_per_task), decode_rows, &tasks);
}
