// Forward and backward pass of the evolution, by tiles of rows. Included once for each instruction set.
#pragma once
#include <math.h>
#include <stdlib.h>

#include "tiles.h"

#define PASTE(name, set) name##_##set
#define EXPAND(name, set) PASTE(name, set)
#define NAMED(name) EXPAND(name, SET)

struct plan {
    const struct evolution *e;
    const float *sorted;  // weights by tap, see sort_weights
    float *partial;       // (tasks, K * K * k * k + K): what each task adds to the gradients of weight and bias
    int failed;
};

// Mixes rows of the scores and the previous layer's logits (EA eq. 4, the skip connection) into `map`. Without scores,
// those of the whole attention are there already.
INLINE void mix_rows(const struct evolution *e, struct tile *tile, float *map, int bf16) {
    float scale = e->scale, alpha = e->alpha;
    int64_t first = tile->begin - e->above, last = lowest(tile->end + e->kernel - 1 - e->above, e->queries);
    for (int64_t row = highest(first, 0); row < last; row++) {
        int64_t end = is_padded(e, tile, row) ? 0 : look(e, tile, row);
        for (int64_t head = 0; head < e->heads; head++) {
            float *to = map + head * tile->plane + (row - first) * tile->width + tile->margin;
            int64_t index = map_index(e, tile, head, row);
            for (int64_t s = 0; s < end; s += LANES) {
                vec x = e->scores ? get(e->scores, index + s, e->keys - s, bf16) * scale : load(to + s);
                if (e->previous) x = lerp(x, get(e->previous, index + s, e->keys - s, bf16), alpha);
                store(to + s, as_kept(where(visible(tile, s), x), bf16));
            }
            if (!e->scores) memset(to + end, 0, 4 * (tile->columns - end));
        }
    }
}

// Writes a row of a map: `row`, which holds `end` numbers, and zeros from there.
INLINE void put_row(const struct evolution *e, void *map, int64_t index, const float *row, int64_t end, int bf16) {
    for (int64_t s = 0; s < e->keys; s += LANES)
        put(map, index + s, e->keys - s, s < end ? load(row + s) : (vec){0}, bf16);
}

// Softmax over the visible keys of a row, in place, and over all where none is visible; returns the end of its vectors.
// Leaves the logarithm of the sum of the powers in `log_sum` where that is given.
INLINE int64_t softmax(const struct evolution *e, const struct tile *tile, float *row, int64_t end, float *log_sum) {
    if (!end) {
        for (int64_t s = 0; s < tile->columns; s++) row[s] = 1.0f / e->keys;
        if (log_sum) *log_sum = -INFINITY;
        return tile->columns;
    }
    vec most = splat(-INFINITY), total = {0};
    for (int64_t s = 0; s < end; s += LANES) most = larger(most, either(visible(tile, s), load(row + s), most));
    float shift = largest(most);
    for (int64_t s = 0; s < end; s += LANES) {
        vec x = where(visible(tile, s), exponential(load(row + s) - shift));
        total += x;
        store(row + s, x);
    }
    float powers = sum(total);
    for (int64_t s = 0; s < end; s += LANES) store(row + s, load(row + s) * (1 / powers));
    if (log_sum) *log_sum = shift + logf(powers);
    return end;
}

// Convolves, cuts at zero and mixes (EA eq. 4) `vectors` vectors of a row, of up to HEADS heads.
INLINE void evolve_vectors(const struct plan *plan, const struct tile *tile, const float *map, int64_t first,
                           int64_t row, int64_t s, const int vectors, float *logits) {
    const struct evolution *e = plan->e;
    float beta = e->beta;
    vec total[HEADS][MOST_VECTORS];
    for (int out = 0; out < HEADS; out++)
        for (int v = 0; v < vectors; v++) total[out][v] = splat(first + out < e->heads ? e->bias[first + out] : 0);
    const float *at = map + (row - tile->begin) * tile->width + tile->margin + s;
    convolve(e, tile, at - e->left, plan->sorted + first * e->heads * e->kernel * e->kernel, vectors, total);
    int64_t bytes = tile->columns / 8;
    UNROLL
    for (int out = 0; out < HEADS; out++) {
        if (first + out >= e->heads) break;
        const float *centre = at + (first + out) * tile->plane + e->above * tile->width;
        uint8_t *active = e->active + (((tile->sentence * e->heads + first + out) * e->queries + row) * bytes) + s / 8;
        UNROLL
        for (int v = 0; v < vectors; v++) {
            ivec seen = visible(tile, s + v * LANES), active_here = passes(total[out][v]) & seen;
            vec x = lerp(load(centre + v * LANES), where(active_here, total[out][v]), beta);
            store(logits + out * tile->columns + s + v * LANES, where(seen, x));
            store_bits(active + v * LANES / 8, active_here);
        }
    }
}

INLINE void evolve_row(const struct plan *plan, const struct tile *tile, const float *map, int64_t first, int64_t row,
                       int64_t end, float *logits) {
    int64_t s = 0, wide = MOST_VECTORS * LANES;
    for (; s + wide <= end; s += wide) evolve_vectors(plan, tile, map, first, row, s, MOST_VECTORS, logits);
    switch ((end - s) / LANES) {
    case 3: evolve_vectors(plan, tile, map, first, row, s, 3 % (MOST_VECTORS + 1), logits); break;
    case 2: evolve_vectors(plan, tile, map, first, row, s, 2, logits); break;
    case 1: evolve_vectors(plan, tile, map, first, row, s, 1, logits); break;
    }
}

// Evolves a row of up to HEADS heads and writes what is kept of it; leaves the logits in `logits`.
INLINE void forward_row(const struct plan *plan, const struct tile *tile, const float *map, int64_t first, int64_t row,
                        int64_t end, float *logits, int bf16) {
    const struct evolution *e = plan->e;
    memset(logits, 0, 4 * HEADS * tile->columns);
    if (e->weight) evolve_row(plan, tile, map, first, row, end, logits);
    for (int64_t out = 0; out < HEADS && first + out < e->heads; out++) {
        int64_t index = map_index(e, tile, first + out, row), below_margin = row - tile->begin + e->above;
        const float *mixed = map + (first + out) * tile->plane + below_margin * tile->width + tile->margin;
        float *of_head = logits + out * tile->columns;
        if (!e->weight) memcpy(of_head, mixed, 4 * tile->columns);
        if (e->mixed) put_row(e, e->mixed, index, mixed, end, bf16);
        put_row(e, e->logits, index, of_head, end, bf16);
    }
}

INLINE void forward_tile(struct plan *plan, int64_t task, int bf16) {
    const struct evolution *e = plan->e;
    struct tile tile = tile_of(e, task);
    int64_t size = map_size(e, &tile), rows_size = HEADS * tile.columns;
    float *map = scratch(size + rows_size + looks_size(e)), *logits = map + size;
    if (!map) {
        plan->failed = 1;
        return;
    }
    tile.looks = (int32_t *)(logits + rows_size);
    move(e, &tile, tile.begin);
    memset(map, 0, 4 * size);
    mix_rows(e, &tile, map, bf16);
    for (int64_t row = tile.begin; row < tile.end; row++) {
        int64_t end = look(e, &tile, row), evolving = is_padded(e, &tile, row) ? 0 : end;
        for (int64_t first = 0; first < e->heads; first += HEADS) {
            forward_row(plan, &tile, map, first, row, evolving, logits, bf16);
            for (int64_t out = 0; out < HEADS && first + out < e->heads; out++) {
                float *of_head = logits + out * tile.columns;
                int64_t index = map_index(e, &tile, first + out, row);
                put_row(e, e->probabilities, index, of_head, softmax(e, &tile, of_head, end, NULL), bf16);
            }
        }
    }
}

// Gradients of a row's logits, all that reach them, into `d_logits`, and of its convolution, into `d_conv`; from `at` on
// `p` and `d_p` hold the row's probabilities and their gradients.
INLINE void logits_gradient(const struct evolution *e, const struct tile *tile, int64_t head, int64_t row, int64_t end,
                            const void *p, const void *d_p, int64_t at, float *d_logits, float *d_conv, int bf16) {
    int64_t index = map_index(e, tile, head, row);
    const uint8_t *active = d_conv ? e->active + index / e->keys * (tile->columns / 8) : NULL;
    vec total = {0};
    for (int64_t s = 0; s < end; s += LANES)
        total += where(visible(tile, s), get(p, at + s, e->keys - s, bf16) * get(d_p, at + s, e->keys - s, bf16));
    float dot = sum(total), beta = e->beta;
    for (int64_t s = 0; s < end; s += LANES) {
        vec d = e->d_logits ? get(e->d_logits, index + s, e->keys - s, bf16) : (vec){0};
        d += get(p, at + s, e->keys - s, bf16) * (get(d_p, at + s, e->keys - s, bf16) - dot);
        d = where(visible(tile, s), d);
        if (d_logits) store(d_logits + s, d);
        if (d_conv) store(d_conv + s, where(load_bits(active + s / 8), d) * beta);
    }
}

// Adds up the gradient of the weights (HEADS outputs from `first`, input `in`, row `i` of taps, `taps` taps from `j`).
INLINE void weight_gradient(const struct evolution *e, const struct tile *tile, const float *d_conv, const float *map,
                            int64_t first, int64_t in, int64_t i, int64_t j, const int taps, float *d_weight) {
    vec total[HEADS][3] = {{{0}}};
    int64_t below = e->kernel - 1 - e->above;
    const float *x = map + in * tile->plane + i * tile->width + tile->margin - e->left + j, *d[HEADS];
    int outs = lowest(HEADS, e->heads - first);
    for (int out = 0; out < HEADS; out++)  // a head beyond the last reads the last one's, for nothing
        d[out] = d_conv + (first + lowest(out, outs - 1)) * tile->plane + below * tile->width + tile->margin;
    for (int64_t row = 0; row < (tile->end - tile->begin) * tile->width; row += tile->width)
        for (int64_t s = 0; s < tile->columns; s += LANES) {
            vec taken[3];
            UNROLL
            for (int tap = 0; tap < taps; tap++) taken[tap] = load(x + row + s + tap);
            UNROLL
            for (int out = 0; out < HEADS; out++) {
                vec gradient = load(d[out] + row + s);
                hold(&gradient);
                UNROLL
                for (int tap = 0; tap < taps; tap++) total[out][tap] += gradient * taken[tap];
            }
        }
    int64_t k = e->kernel;
    for (int out = 0; out < outs; out++)
        for (int tap = 0; tap < taps; tap++)
            d_weight[(((first + out) * e->heads + in) * k + i) * k + j + tap] += sum(total[out][tap]);
}

INLINE void weight_gradients(const struct evolution *e, const struct tile *tile, const float *d_conv, const float *map,
                             float *d_weight) {
    for (int64_t first = 0; first < e->heads; first += HEADS)
        for (int64_t in = 0; in < e->heads; in++)
            for (int64_t i = 0; i < e->kernel; i++)
                for (int64_t j = 0; j < e->kernel; j += 3)
                    switch (e->kernel - j) {
                    case 1: weight_gradient(e, tile, d_conv, map, first, in, i, j, 1, d_weight); break;
                    case 2: weight_gradient(e, tile, d_conv, map, first, in, i, j, 2, d_weight); break;
                    default: weight_gradient(e, tile, d_conv, map, first, in, i, j, 3, d_weight);
                    }
}

// Finishes the gradient of `vectors` vectors of a row of the mixed map, of up to HEADS heads, in `d_mixed`.
INLINE void mixed_vectors(const struct plan *plan, const struct tile *tile, const float *d_conv, int64_t first,
                          int64_t row, int64_t s, const int vectors, float *d_mixed) {
    const struct evolution *e = plan->e;
    vec total[HEADS][MOST_VECTORS] = {{{0}}};
    int64_t right = e->kernel - 1 - e->left;
    const float *at = d_conv + (row - tile->begin) * tile->width + tile->margin - right + s;
    convolve(e, tile, at, plan->sorted + first * e->heads * e->kernel * e->kernel, vectors, total);
    float rest = 1 - e->beta;
    for (int out = 0; out < HEADS; out++) {
        if (first + out >= e->heads) break;
        float *d = d_mixed + (first + out) * (tile->end - tile->begin) * tile->columns;
        d += (row - tile->begin) * tile->columns + s;
        for (int v = 0; v < vectors; v++) store(d + v * LANES, load(d + v * LANES) * rest + total[out][v]);
    }
}

INLINE void mixed_row(const struct plan *plan, const struct tile *tile, const float *d_conv, int64_t first, int64_t row,
                      int64_t end, float *d_mixed) {
    int64_t s = 0, wide = MOST_VECTORS * LANES;
    for (; s + wide <= end; s += wide) mixed_vectors(plan, tile, d_conv, first, row, s, MOST_VECTORS, d_mixed);
    switch ((end - s) / LANES) {
    case 3: mixed_vectors(plan, tile, d_conv, first, row, s, 3 % (MOST_VECTORS + 1), d_mixed); break;
    case 2: mixed_vectors(plan, tile, d_conv, first, row, s, 2, d_mixed); break;
    case 1: mixed_vectors(plan, tile, d_conv, first, row, s, 1, d_mixed); break;
    }
}

// Memory of a backward pass over a tile.
struct gradients {
    float *conv, *map;  // with margins: of the convolution's output; its input
    float *mixed;       // (K, rows, columns): of logits, then of the mixed map
};

INLINE int64_t gradients_size(const struct evolution *e, const struct tile *tile) {
    return 2 * map_size(e, tile) + e->heads * rows_of(e) * tile->columns;
}

INLINE struct gradients clear(const struct evolution *e, const struct tile *tile, float *memory) {
    int64_t size = map_size(e, tile);
    memset(memory, 0, 4 * gradients_size(e, tile));
    return (struct gradients){memory, memory + size, memory + 2 * size};
}

INLINE float *mixed_at(const struct tile *tile, const struct gradients *d, int64_t head, int64_t row) {
    return d->mixed + (head * (tile->end - tile->begin) + row - tile->begin) * tile->columns;
}

INLINE float *conv_at(const struct evolution *e, const struct tile *tile, const struct gradients *d, int64_t head,
                      int64_t row) {
    int64_t below = e->kernel - 1 - e->above;
    return d->conv + head * tile->plane + (row - tile->begin + below) * tile->width + tile->margin;
}

// From the gradients of logits and convolution: what the tile adds to those of the weights, and those of the mixed map.
INLINE void finish_gradients(const struct plan *plan, struct tile *tile, struct gradients *d, float *partial) {
    const struct evolution *e = plan->e;
    int64_t taps = e->heads * e->heads * e->kernel * e->kernel, rows = tile->end - tile->begin;
    if (e->weight) {
        weight_gradients(e, tile, d->conv, d->map, partial);
        for (int64_t head = 0; head < e->heads; head++) {
            const float *of_head = conv_at(e, tile, d, head, tile->begin);
            vec total = {0};
            for (int64_t row = 0; row < rows; row++)
                for (int64_t s = 0; s < tile->columns; s += LANES) total += load(of_head + row * tile->width + s);
            partial[taps + head] += sum(total);
        }
    }
    for (int64_t row = tile->begin; row < tile->end; row++) {
        int64_t end = is_padded(e, tile, row) ? 0 : look(e, tile, row);
        for (int64_t first = 0; e->weight && first < e->heads; first += HEADS)
            mixed_row(plan, tile, d->conv, first, row, end, d->mixed);
        for (int64_t head = 0; head < e->heads; head++) {
            float *of_head = mixed_at(tile, d, head, row);
            for (int64_t s = 0; s < end; s += LANES) store(of_head + s, where(visible(tile, s), load(of_head + s)));
            memset(of_head + end, 0, 4 * (tile->columns - end));
        }
    }
}

// Writes a map's rows of the tile, `factor` times what the gradients of the mixed map are.
INLINE void put_gradients(const struct evolution *e, const struct tile *tile, const struct gradients *d, void *map,
                          float factor, int bf16) {
    for (int64_t head = 0; head < e->heads; head++)
        for (int64_t row = tile->begin; row < tile->end; row++) {
            const float *from = mixed_at(tile, d, head, row);
            int64_t index = map_index(e, tile, head, row);
            for (int64_t s = 0; s < e->keys; s += LANES)
                put(map, index + s, e->keys - s, load(from + s) * factor, bf16);
        }
}

INLINE float *partial_of(const struct plan *plan, int64_t task) {
    int64_t heads = plan->e->heads, taps = plan->e->kernel * plan->e->kernel;
    return plan->partial + task * (heads * heads * taps + heads);
}

INLINE void backward_tile(struct plan *plan, int64_t task, int bf16) {
    const struct evolution *e = plan->e;
    struct tile tile = tile_of(e, task);
    int64_t size = gradients_size(e, &tile), below = e->kernel - 1 - e->above;
    float *memory = scratch(size + looks_size(e));
    if (!memory) {
        plan->failed = 1;
        return;
    }
    tile.looks = (int32_t *)(memory + size);
    move(e, &tile, tile.begin);
    struct gradients d = clear(e, &tile, memory);
    for (int64_t row = highest(tile.begin - below, 0); row < lowest(tile.end + e->above, e->queries); row++) {
        if (is_padded(e, &tile, row)) continue;
        int64_t end = look(e, &tile, row), own = row >= tile.begin && row < tile.end;
        for (int64_t head = 0; head < e->heads; head++)
            logits_gradient(e, &tile, head, row, end, e->probabilities, e->d_probabilities,
                            map_index(e, &tile, head, row), own ? mixed_at(&tile, &d, head, row) : NULL,
                            e->weight ? conv_at(e, &tile, &d, head, row) : NULL, bf16);
    }
    if (e->weight) {
        int64_t first = tile.begin - e->above, last = lowest(tile.end + below, e->queries);
        for (int64_t head = 0; head < e->heads; head++)
            for (int64_t row = highest(first, 0); row < last; row++) {
                float *x = d.map + head * tile.plane + (row - first) * tile.width + tile.margin;
                int64_t index = map_index(e, &tile, head, row);
                for (int64_t s = 0; s < e->keys; s += LANES) store(x + s, get(e->mixed, index + s, e->keys - s, bf16));
            }
    }
    finish_gradients(plan, &tile, &d, partial_of(plan, task));
    put_gradients(e, &tile, &d, e->d_scores, e->scale * (1 - e->alpha), bf16);
    if (e->d_previous) put_gradients(e, &tile, &d, e->d_previous, e->alpha, bf16);
}

static void NAMED(forward_float32)(const void *plan, int64_t task) { forward_tile((struct plan *)plan, task, 0); }
static void NAMED(forward_bfloat16)(const void *plan, int64_t task) { forward_tile((struct plan *)plan, task, 1); }
static void NAMED(backward_float32)(const void *plan, int64_t task) { backward_tile((struct plan *)plan, task, 0); }
static void NAMED(backward_bfloat16)(const void *plan, int64_t task) { backward_tile((struct plan *)plan, task, 1); }

// Shares a forward pass among the threads; returns whether it failed.
static int NAMED(forward)(const struct evolution *e, int64_t tasks, void (*task)(const void *, int64_t)) {
    float *sorted = malloc(4 * sorted_size(e));
    if (!sorted) return 1;
    if (e->weight) sort_weights(e, 0, sorted);
    struct plan plan = {.e = e, .sorted = sorted};
    share(&e->pool, tasks, task, &plan);
    free(sorted);
    return plan.failed;
}

// Shares a backward pass among the threads and adds up the gradients of the weights; returns whether it failed.
static int NAMED(backward)(const struct evolution *e, int64_t tasks, void (*task)(const void *, int64_t)) {
    int64_t weights = e->heads * e->heads * e->kernel * e->kernel, sums = weights + e->heads;
    float *sorted = malloc(4 * sorted_size(e)), *partial = calloc(tasks * sums, 4);
    struct plan plan = {.e = e, .sorted = sorted, .partial = partial, .failed = !sorted || !partial};
    if (!plan.failed) {
        if (e->weight) sort_weights(e, 1, sorted);
        share(&e->pool, tasks, task, &plan);
    }
    for (int64_t i = 0; e->weight && !plan.failed && i < sums; i++) {
        double total = 0;
        for (int64_t part = 0; part < tasks; part++) total += partial[part * sums + i];
        *(i < weights ? e->d_weight + i : e->d_bias + i - weights) = total;
    }
    free(sorted);
    free(partial);
    return plan.failed;
}

int NAMED(evolve)(const struct evolution *e) {
    return NAMED(forward)(e, tasks_of(e), e->bf16 ? NAMED(forward_bfloat16) : NAMED(forward_float32));
}

int NAMED(evolve_backward)(const struct evolution *e) {
    return NAMED(backward)(e, tasks_of(e), e->bf16 ? NAMED(backward_bfloat16) : NAMED(backward_float32));
}
