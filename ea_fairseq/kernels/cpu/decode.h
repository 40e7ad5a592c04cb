// One decoding step of an attention, by rows. Included once for each instruction set.
#pragma once
#include "rows.h"
#include "step.h"

enum { UNROLL = 4 };  // keys, vectors of a value or convolved heads that are computed side by side

struct step_plan {
    const struct step *a;
    int64_t rows_per_task;
    int64_t columns;  // room for a row of a map, its margins and a vector more
};

// A row of a step, which is one hypothesis, and the memory of the thread that works on it: rows of `columns` entries.
struct row {
    int64_t index, columns;
    int64_t *offsets;  // where each key and its value begin in the KV cache
    int32_t *visible;  // -1 where a key is visible
    float *window;     // what the convolution reads: of each head `above` rows of earlier steps, and this step's
    float *logits;     // of each head
};

INLINE int64_t row_size(const struct step *a) { return a->heads * a->head_dim; }
INLINE int is_padded_row(const struct step *a, const struct row *row) {
    return a->padded_queries && a->padded_queries[row->index];
}

// A row of the window, `below` the first.
INLINE float *window_row(const struct step *a, const struct row *row, int64_t below, int64_t head) {
    return row->window + (below * a->heads + head) * row->columns;
}

// Finds the row's keys in the KV cache and which of them are visible; adds this step's to the cache.
INLINE void load_keys(const struct step *a, struct row *row) {
    const int32_t *back_pointers = a->back_pointers + row->index * a->steps;
    int64_t sentence = a->sentence ? a->sentence[row->index] : 0;
    const uint8_t *padded = a->padded_keys;
    if (padded) padded += a->sentence ? sentence * a->keys : row->index * a->steps;
    for (int64_t s = 0; s < a->keys; s++)
        row->offsets[s] = (s * a->slots + (a->sentence ? sentence : back_pointers[s])) * row_size(a);
    for (int64_t s = 0; s < a->keys; s += LANES) store_ivec(row->visible + s, visible_keys(padded, NULL, s, a->keys));
    if (a->new_key) {
        memcpy(a->key + row->offsets[a->keys - 1], a->new_key + row->index * a->stride, 4 * row_size(a));
        memcpy(a->value + row->offsets[a->keys - 1], a->new_value + row->index * a->stride, 4 * row_size(a));
    }
}

// Dot products of a row's query with all its keys (EA eq. 1), mixed with the previous logits (EA eq. 4).
INLINE void score_row(const struct step *a, const struct row *row) {
    const float *query = a->query + row->index * a->stride;
    for (int64_t s = 0; s < a->keys; s += UNROLL) {
        const float *keys[UNROLL];
        for (int i = 0; i < UNROLL; i++) keys[i] = a->key + row->offsets[min_of(s + i, a->keys - 1)];
        for (int64_t head = 0; head < a->heads; head++) {
            vec total[UNROLL] = {{0}};
            for (int64_t x = 0, at = head * a->head_dim; x < a->head_dim; x += LANES, at += LANES) {
                vec part = masked_load(query, at, a->head_dim - x, 0);
                for (int i = 0; i < UNROLL; i++) total[i] += part * masked_load(keys[i], at, a->head_dim - x, 0);
            }
            float *to = window_row(a, row, a->above, head) + a->left + s;
            for (int i = 0; i < UNROLL; i++) to[i] = reduce_sum(total[i]);
        }
    }
    float scale = a->scale;
    ivec real = is_padded_row(a, row) ? (ivec){0} : ~(ivec){0};
    for (int64_t head = 0; head < a->heads; head++) {
        float *map = window_row(a, row, a->above, head);
        struct mix mix = a->previous ? mix_of(a->mix, a->heads, head) : (struct mix){0};
        int64_t s = 0, index = (row->index * a->heads + head) * a->keys;
        memset(map, 0, 4 * a->left);
        for (; s < a->keys; s += LANES) {
            vec x = load(map + a->left + s) * scale;
            if (a->previous) x = mix_logits(x, masked_load(a->previous, index + s, a->keys - s, 0), mix);
            store(map + a->left + s, where(load_ivec(row->visible + s) & real, x));
        }
        memset(map + a->left + s, 0, 4 * (row->columns - a->left - s));
    }
}

// Gathers the rows of earlier steps that the convolution reads, and keeps this step's for later ones.
INLINE void gather_conv_input(const struct step *a, const struct row *row) {
    for (int64_t back = a->above; back >= 0; back--) {
        int64_t then = a->now - back, held = then < 0 ? 0 : a->sentence ? a->keys : a->keys - back;
        int64_t slot = then < 0 ? 0 : back ? a->back_pointers[row->index * a->steps + then] : row->index;
        int64_t place = (then + a->above + 1) % (a->above + 1);
        for (int64_t head = 0; head < a->heads; head++) {
            float *map = window_row(a, row, a->above - back, head);
            float *kept = a->conv_input + ((place * a->conv_slots + slot) * a->heads + head) * a->room;
            if (back) {
                memset(map, 0, 4 * a->left);
                memcpy(map + a->left, kept, 4 * held);
                memset(map + a->left + held, 0, 4 * (row->columns - a->left - held));
            } else {
                memcpy(kept, map + a->left, 4 * held);
            }
        }
    }
}

// Convolves, applies the ReLU and mixes (EA eq. 4) a vector of each of `heads` heads from `head` on.
INLINE void evolve_heads(const struct step *a, const struct row *row, int64_t head, int64_t s, const int heads) {
    int64_t taps = a->kernel * a->kernel;
    const float *weight = a->weight + head * a->heads * taps;
    vec total[UNROLL];
    for (int i = 0; i < heads; i++) total[i] = splat(a->bias[head + i]);
    for (int64_t below = 0; below <= a->above; below++)
        for (int64_t input = 0; input < a->heads; input++)
            for (int64_t right = 0; right < a->kernel; right++) {
                vec x = load(window_row(a, row, below, input) + s + right);
                const float *tap = weight + input * taps + below * a->kernel + right;
                for (int i = 0; i < heads; i++) total[i] += x * tap[i * a->heads * taps];
            }
    ivec real = is_padded_row(a, row) ? (ivec){0} : load_ivec(row->visible + s);
    for (int i = 0; i < heads; i++) {
        vec mixed = load(window_row(a, row, a->above, head + i) + a->left + s);
        vec x = lerp(mixed, where(relu_passes(total[i]), total[i]), a->beta[head + i]);
        store(row->logits + (head + i) * row->columns + s, where(real, x));
    }
}

// Softmax over a row's visible keys, in place; over all where none is visible.
INLINE void softmax_row(const struct step *a, const struct row *row, float *x) {
    float shift, total = exponentiate(x, row->visible, a->keys, &shift);
    for (int64_t s = 0; s < a->keys; s += LANES)
        store(x + s, total == 0 ? splat(1.0f / a->keys) : load(x + s) / total);
}

// Adds up the values by their probabilities (EA eq. 5).
INLINE void attend_row(const struct step *a, const struct row *row) {
    for (int64_t head = 0; head < a->heads; head++) {
        const float *probabilities = row->logits + head * row->columns;
        for (int64_t x = 0; x < a->head_dim; x += UNROLL * LANES) {
            int64_t begin = head * a->head_dim + x, rest = a->head_dim - x;
            vec total[UNROLL] = {{0}};
            for (int64_t s = 0; s < a->keys; s++)
                for (int i = 0; i < UNROLL; i++)
                    if (i * LANES < rest)
                        total[i] += probabilities[s] * masked_load(a->value + row->offsets[s], begin + i * LANES,
                                                                   rest - i * LANES, 0);
            begin += row->index * row_size(a);
            for (int i = 0; i < UNROLL; i++)
                if (i * LANES < rest) masked_store(a->output, begin + i * LANES, rest - i * LANES, total[i], 0);
        }
    }
}

INLINE void write_map(const struct step *a, const struct row *row, float *to) {
    for (int64_t head = 0; to && head < a->heads; head++)
        memcpy(to + (row->index * a->heads + head) * a->keys, row->logits + head * row->columns, 4 * a->keys);
}

static void decode_row(const struct step *a, struct row *row) {
    load_keys(a, row);
    score_row(a, row);
    if (a->weight) {
        if (a->above) gather_conv_input(a, row);
        for (int64_t s = 0; s < a->keys; s += LANES) {
            int64_t head = 0;
            for (; head + UNROLL <= a->heads; head += UNROLL) evolve_heads(a, row, head, s, UNROLL);
            for (; head < a->heads; head++) evolve_heads(a, row, head, s, 1);
        }
    }
    write_map(a, row, a->logits);
    for (int64_t head = 0; head < a->heads; head++) softmax_row(a, row, row->logits + head * row->columns);
    write_map(a, row, a->probabilities);
    attend_row(a, row);
}

static int decode_rows(const void *argument, int64_t task) {
    const struct step_plan *plan = argument;
    const struct step *a = plan->a;
    int64_t columns = plan->columns, plane = a->heads * columns;
    float *memory = scratch(3 * columns + (a->above + 2) * plane);
    if (!memory) return 1;
    struct row row = {.columns = columns, .offsets = (int64_t *)memory, .visible = (int32_t *)(memory + 2 * columns)};
    row.window = memory + 3 * columns;
    row.logits = row.window + (a->above + (a->weight != NULL)) * plane;  // without a convolution the window's own
    int64_t end = min_of((task + 1) * plan->rows_per_task, a->rows);
    for (row.index = task * plan->rows_per_task; row.index < end; row.index++) decode_row(a, &row);
    return 0;
}

int NAMED(decode)(const struct step *a) {
    const int64_t worth_a_task = 1 << 17;  // multiplications
    int64_t per_row = 2 * a->keys * row_size(a) + a->keys * a->heads * a->heads * a->kernel * (a->above + 1);
    struct step_plan plan = {.a = a, .rows_per_task = 1 + worth_a_task / per_row};
    plan.columns = a->left + round_up(a->keys, LANES) + a->kernel + LANES;
    return share(&a->pool, ceil_div(a->rows, plan.rows_per_task), decode_rows, &plan);
}
