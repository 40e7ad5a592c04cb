// One decoding step of an attention, by rows. Included once for each instruction set.
#include <math.h>
#include <stdatomic.h>

#include "decoding.h"
#include "vectors.h"

#define PASTE(name, set) name##_##set
#define EXPAND(name, set) PASTE(name, set)

enum { TOGETHER = 4 };  // keys, vectors of a value or convolved heads that are computed side by side

struct plan {
    const struct step *step;
    int64_t rows_per_task;
    int64_t columns;  // room for a row of a map, its margins and a vector more
    atomic_int failed;
};

// One hypothesis, and the memory of the thread that works on it: rows of `columns` entries.
struct row {
    int64_t index, columns;
    int64_t *places;   // where each key and its value begin in their buffers
    int32_t *visible;  // all bits set where a key is, none where padding is or nothing
    float *window;     // rows of each head: above of them, of earlier steps, and this step's
    float *logits;     // of each head
};

INLINE int64_t lowest(int64_t x, int64_t y) { return x < y ? x : y; }
INLINE int64_t whole_vectors(int64_t count) { return (count + LANES - 1) / LANES * LANES; }
INLINE ivec visible(const struct row *row, int64_t s) { return *(const unaligned_ivec *)(row->visible + s); }
INLINE int64_t size(const struct step *a) { return a->heads * a->width; }
INLINE int is_padded(const struct step *a, const struct row *row) {
    return a->padded_queries && a->padded_queries[row->index];
}

INLINE float *window_row(const struct step *a, const struct row *row, int64_t above, int64_t head) {
    return row->window + (above * a->heads + head) * row->columns;
}

// Finds the row's keys and which of them may be seen; keeps this step's.
INLINE void look(const struct step *a, struct row *row) {
    const int32_t *ancestors = a->ancestors + row->index * a->steps;
    int64_t sentence = a->sentence ? a->sentence[row->index] : 0;
    const uint8_t *padded = a->padded ? a->padded + (a->sentence ? sentence * a->keys : row->index * a->steps) : NULL;
    for (int64_t s = 0; s < a->keys; s++) {
        row->places[s] = (s * a->slots + (a->sentence ? sentence : ancestors[s])) * size(a);
        row->visible[s] = padded && padded[s] ? 0 : -1;
    }
    for (int64_t s = a->keys; s < row->columns; s++) row->visible[s] = 0;
    if (a->new_key) {
        memcpy(a->key + row->places[a->keys - 1], a->new_key + row->index * a->apart, 4 * size(a));
        memcpy(a->value + row->places[a->keys - 1], a->new_value + row->index * a->apart, 4 * size(a));
    }
}

// Dot products of a row's query with all its keys (EA eq. 1), mixed with the previous layer's logits (EA eq. 4).
INLINE void compare(const struct step *a, const struct row *row) {
    const float *query = a->query + row->index * a->apart;
    for (int64_t s = 0; s < a->keys; s += TOGETHER) {
        const float *keys[TOGETHER];
        for (int i = 0; i < TOGETHER; i++) keys[i] = a->key + row->places[lowest(s + i, a->keys - 1)];
        for (int64_t head = 0; head < a->heads; head++) {
            vec total[TOGETHER] = {{0}};
            for (int64_t x = 0, at = head * a->width; x < a->width; x += LANES, at += LANES) {
                vec part = get(query, at, a->width - x, 0);
                for (int i = 0; i < TOGETHER; i++) total[i] += part * get(keys[i], at, a->width - x, 0);
            }
            float *to = window_row(a, row, a->above, head) + a->left + s;
            for (int i = 0; i < TOGETHER; i++) to[i] = sum(total[i]);
        }
    }
    float scale = a->scale, alpha = a->alpha;
    ivec word = is_padded(a, row) ? (ivec){0} : ~(ivec){0};
    for (int64_t head = 0; head < a->heads; head++) {
        float *map = window_row(a, row, a->above, head);
        memset(map, 0, 4 * a->left);
        int64_t s = 0;
        for (; s < a->keys; s += LANES) {
            vec x = load(map + a->left + s) * scale;
            if (a->previous)
                x = lerp(x, get(a->previous, (row->index * a->heads + head) * a->keys + s, a->keys - s, 0), alpha);
            store(map + a->left + s, where(visible(row, s) & word, x));
        }
        memset(map + a->left + s, 0, 4 * (row->columns - a->left - s));
    }
}

// Fetches the rows of earlier steps that the convolution reads, and leaves this step's for later ones.
INLINE void recall(const struct step *a, const struct row *row) {
    for (int64_t back = a->above; back >= 0; back--) {
        int64_t then = a->now - back, held = then < 0 ? 0 : a->sentence ? a->keys : a->keys - back;
        int64_t origin = then < 0 ? 0 : back ? a->ancestors[row->index * a->steps + then] : row->index;
        int64_t ring = (then + a->above + 1) % (a->above + 1);
        for (int64_t head = 0; head < a->heads; head++) {
            float *map = window_row(a, row, a->above - back, head);
            float *saved = a->mixed + ((ring * a->mixed_slots + origin) * a->heads + head) * a->room;
            if (back) {
                memset(map, 0, 4 * a->left);
                memcpy(map + a->left, saved, 4 * held);
                memset(map + a->left + held, 0, 4 * (row->columns - a->left - held));
            } else {
                memcpy(saved, map + a->left, 4 * held);
            }
        }
    }
}

// Convolves, cuts at zero and mixes (EA eq. 4) a vector of each of `heads` heads from `head` on.
INLINE void evolve(const struct step *a, const struct row *row, int64_t head, int64_t s, const int heads) {
    int64_t taps = a->kernel * a->kernel;
    const float *weight = a->weight + head * a->heads * taps;
    vec total[TOGETHER];
    for (int i = 0; i < heads; i++) total[i] = splat(a->bias[head + i]);
    for (int64_t above = 0; above <= a->above; above++)
        for (int64_t input = 0; input < a->heads; input++)
            for (int64_t left = 0; left < a->kernel; left++) {
                vec x = load(window_row(a, row, above, input) + s + left);
                const float *tap = weight + input * taps + above * a->kernel + left;
                for (int i = 0; i < heads; i++) total[i] += x * tap[i * a->heads * taps];
            }
    float beta = a->beta;
    ivec real = is_padded(a, row) ? (ivec){0} : visible(row, s);
    for (int i = 0; i < heads; i++) {
        vec own = load(window_row(a, row, a->above, head + i) + a->left + s);
        vec x = lerp(own, where(passes(total[i]), total[i]), beta);
        store(row->logits + (head + i) * row->columns + s, where(real, x));
    }
}

// Softmax over a row's visible keys, in place; over all where none is visible.
INLINE void softmax(const struct step *a, const struct row *row, float *x) {
    vec most = splat(-INFINITY), total = {0};
    for (int64_t s = 0; s < a->keys; s += LANES)
        most = larger(most, either(visible(row, s), load(x + s), most));
    float shift = largest(most);
    for (int64_t s = 0; s < a->keys; s += LANES) {
        vec y = where(visible(row, s), exponential(load(x + s) - shift));
        total += y;
        store(x + s, y);
    }
    float whole = sum(total);
    for (int64_t s = 0; s < a->keys; s += LANES)
        store(x + s, whole == 0 ? splat(1.0f / a->keys) : load(x + s) / whole);
}

// Adds up the values by their probabilities (EA eq. 5).
INLINE void add_up(const struct step *a, const struct row *row) {
    for (int64_t head = 0; head < a->heads; head++) {
        const float *probabilities = row->logits + head * row->columns;
        for (int64_t x = 0; x < a->width; x += TOGETHER * LANES) {
            int64_t begin = head * a->width + x;
            vec total[TOGETHER] = {{0}};
            for (int64_t s = 0; s < a->keys; s++)
                for (int i = 0; i < TOGETHER; i++)
                    if (x + i * LANES < a->width)
                        total[i] += probabilities[s] * get(a->value + row->places[s], begin + i * LANES,
                                                           a->width - x - i * LANES, 0);
            for (int i = 0; i < TOGETHER; i++)
                if (x + i * LANES < a->width)
                    put(a->output, row->index * size(a) + begin + i * LANES, a->width - x - i * LANES, total[i], 0);
        }
    }
}

INLINE void hand_on(const struct step *a, const struct row *row, float *to) {
    for (int64_t head = 0; to && head < a->heads; head++)
        memcpy(to + (row->index * a->heads + head) * a->keys, row->logits + head * row->columns, 4 * a->keys);
}

static void decode_row(const struct step *a, struct row *row) {
    look(a, row);
    compare(a, row);
    if (a->weight) {
        if (a->above) recall(a, row);
        for (int64_t s = 0; s < a->keys; s += LANES) {
            int64_t head = 0;
            for (; head + TOGETHER <= a->heads; head += TOGETHER) evolve(a, row, head, s, TOGETHER);
            for (; head < a->heads; head++) evolve(a, row, head, s, 1);
        }
    }
    hand_on(a, row, a->logits);
    for (int64_t head = 0; head < a->heads; head++) softmax(a, row, row->logits + head * row->columns);
    hand_on(a, row, a->probabilities);
    add_up(a, row);
}

static void decode_rows(const void *argument, int64_t task) {
    struct plan *plan = (struct plan *)argument;
    const struct step *a = plan->step;
    int64_t columns = plan->columns, plane = a->heads * columns;
    float *memory = scratch(3 * columns + (a->above + 2) * plane);
    if (!memory) {
        atomic_store(&plan->failed, 1);
        return;
    }
    struct row row = {.columns = columns, .places = (int64_t *)memory, .visible = (int32_t *)(memory + 2 * columns)};
    row.window = memory + 3 * columns;
    row.logits = row.window + (a->above + (a->weight != NULL)) * plane;  // without a convolution the window's own
    int64_t end = lowest((task + 1) * plan->rows_per_task, a->rows);
    for (row.index = task * plan->rows_per_task; row.index < end; row.index++) decode_row(a, &row);
}

int EXPAND(decode, SET)(const struct step *a) {
    const int64_t worth_a_task = 1 << 17;  // multiplications
    int64_t per_row = 2 * a->keys * size(a) + a->keys * a->heads * a->heads * a->kernel * (a->above + 1);
    struct plan plan = {.step = a, .rows_per_task = 1 + worth_a_task / per_row};
    plan.columns = a->left + whole_vectors(a->keys) + a->kernel + LANES;
    share(&a->pool, (a->rows + plan.rows_per_task - 1) / plan.rows_per_task, decode_rows, &plan);
    return plan.failed;
}
