// Whole attentions with evolving logits, in float32: maps stay in the cache. Included once for each instruction set.
#pragma once
#include "evolution_kernels.h"
#include "products.h"

// All numbers of a word, (K * width).
INLINE int64_t across(const struct evolution *e) { return e->heads * e->width; }

// Words (T or S, B, K * width) in a tensor that has `step` numbers of each.
struct words {
    float *numbers;
    int64_t step;
};

// Where the numbers of a word of the tile's sentence are.
INLINE float *word_at(const struct evolution *e, const struct tile *tile, struct words words, int64_t word) {
    return words.numbers + (word * e->sentences + tile->sentence) * words.step;
}

// Copies words of the tile's sentence side by side; whole vectors may be read beyond the last. In memory the words of a
// sentence are far apart, so those ahead are sent for early.
enum { AHEAD = 8, CACHE_LINE = 16 };
INLINE int64_t words_size(const struct evolution *e, int64_t words) { return words * across(e) + LANES; }
INLINE void gather(const struct evolution *e, const struct tile *tile, struct words from, int64_t first, int64_t words,
                   float *to) {
    for (int64_t word = 0; word < words; word++) {
        const float *ahead = word_at(e, tile, from, first + lowest(word + AHEAD, words - 1));
        for (int64_t i = 0; i < across(e); i += CACHE_LINE) __builtin_prefetch(ahead + i, 0);
        memcpy(to + word * across(e), word_at(e, tile, from, first + word), 4 * across(e));
    }
}

// The reverse of `gather`.
INLINE void scatter(const struct evolution *e, const struct tile *tile, const float *from, int64_t first, int64_t words,
                    struct words to) {
    for (int64_t word = 0; word < words; word++) {
        const float *ahead = word_at(e, tile, to, first + lowest(word + AHEAD, words - 1));
        for (int64_t i = 0; i < across(e); i += CACHE_LINE) __builtin_prefetch(ahead + i, 1);
        memcpy(word_at(e, tile, to, first + word), from + word * across(e), 4 * across(e));
    }
}

INLINE struct words of_query(const struct evolution *e, const float *numbers) {
    return (struct words){(float *)numbers, e->query_step};
}
INLINE struct words of_key(const struct evolution *e, const float *numbers) {
    return (struct words){(float *)numbers, e->key_step};
}
INLINE struct words of_attended(const struct evolution *e, const float *numbers) {
    return (struct words){(float *)numbers, across(e)};
}

// Writes Q K^T / sqrt(d) (EA eq. 1) into maps with margins: of the rows from `first` on, which begin at `query`.
INLINE void score_rows(const struct evolution *e, const struct tile *tile, const float *query, const float *key,
                       int64_t first, int64_t rows, float *map, float *turned) {
    for (int64_t head = 0; head < e->heads; head++) {
        float *to = map + head * tile->plane + (first - tile->begin + e->above) * tile->width + tile->margin;
        pack_turned(key + head * e->width, across(e), e->keys, e->width, turned, tile->columns);
        product(rows, e->width, (struct left){query + head * e->width, across(e), 1}, turned, tile->columns,
                (struct result){to, tile->width, tile->columns, e->scale, 0});
    }
}

static void NAMED(attend_tile)(const void *argument, int64_t task) {
    struct plan *plan = (struct plan *)argument;
    const struct evolution *e = plan->e;
    struct tile tile = tile_of(e, task);
    int64_t size = map_size(e, &tile), part = rows_of(e) * tile.columns, line = HEADS * tile.columns;
    int64_t turned_size = e->width * tile.columns, keys_size = words_size(e, e->keys);
    float *map = scratch(size + HEADS * part + line + turned_size + 2 * keys_size + words_size(e, reach_of(e)) + looks_size(e));
    float *probabilities = map + size, *logits = probabilities + HEADS * part, *turned = logits + line;
    float *keys = turned + turned_size, *values = keys + keys_size, *queries = values + keys_size;
    if (!map) {
        plan->failed = 1;
        return;
    }
    tile.looks = (int32_t *)(queries + words_size(e, reach_of(e)));
    move(e, &tile, tile.begin);
    memset(map, 0, 4 * size);
    int64_t from = highest(tile.begin - e->above, 0);
    int64_t rows = lowest(tile.end + e->kernel - 1 - e->above, e->queries) - from;
    gather(e, &tile, of_query(e, e->query), from, rows, queries);
    gather(e, &tile, of_key(e, e->key), 0, e->keys, keys);
    gather(e, &tile, of_key(e, e->value), 0, e->keys, values);
    score_rows(e, &tile, queries, keys, from, rows, map, turned);
    mix_rows(e, &tile, map, 0);
    for (int64_t first = 0; first < e->heads; first += HEADS) {
        int64_t outs = lowest(HEADS, e->heads - first);
        for (int64_t row = tile.begin; row < tile.end; row++) {
            int64_t end = look(e, &tile, row);
            forward_row(plan, &tile, map, first, row, is_padded(e, &tile, row) ? 0 : end, logits, 0);
            for (int64_t out = 0; out < outs; out++) {
                float *of_head = logits + out * tile.columns;
                float *sums = e->sums + (tile.sentence * e->heads + first + out) * e->queries + row;
                softmax(e, &tile, of_head, end, sums);
                memcpy(probabilities + out * part + (row - tile.begin) * tile.columns, of_head, 4 * tile.columns);
            }
        }
        for (int64_t out = 0; out < outs; out++)  // EA eq. 5
            product(tile.end - tile.begin, e->keys, (struct left){probabilities + out * part, tile.columns, 1},
                    values + (first + out) * e->width, across(e),
                    (struct result){queries + (first + out) * e->width, across(e), e->width, 1, 0});
    }
    scatter(e, &tile, queries, tile.begin, tile.end - tile.begin, of_attended(e, e->attended));
}

// Probabilities of a row anew, from its logits.
INLINE void recall(const struct evolution *e, const struct tile *tile, int64_t head, int64_t row, int64_t end,
                   float *probabilities) {
    int64_t index = map_index(e, tile, head, row);
    if (!end) {
        for (int64_t s = 0; s < tile->columns; s++) probabilities[s] = s < e->keys ? 1.0f / e->keys : 0;
        return;
    }
    float sum = e->sums[index / e->keys];
    for (int64_t s = 0; s < end; s += LANES) {
        vec logits = get(e->logits, index + s, e->keys - s, 0);
        store(probabilities + s, where(visible(tile, s), exponential(logits - sum)));
    }
    memset(probabilities + end, 0, 4 * (tile->columns - end));
}

// A sentence's words side by side: its keys and values, what the rows of a tile need of queries and of gradients, and
// the gradients of keys and values.
struct sentence {
    float *query, *key, *value, *d_attended, *d_key, *d_value;
    int64_t first_query, first_attended;  // the rows that `query` and `d_attended` begin with
};

// Gradients of logits and of the convolution's output from those of what was attended to, and gradients of the values.
INLINE void attended_gradients(const struct evolution *e, struct tile *tile, const struct sentence *words,
                               struct gradients *d, float *probabilities, float *d_probabilities, float *turned) {
    int64_t from = words->first_attended, last = lowest(tile->end + e->above, e->queries), columns = tile->columns;
    for (int64_t head = 0; head < e->heads; head++) {
        const float *d_attended = words->d_attended + head * e->width;
        pack_turned(words->value + head * e->width, across(e), e->keys, e->width, turned, columns);
        product(last - from, e->width, (struct left){d_attended, across(e), 1}, turned, columns,
                (struct result){d_probabilities, columns, columns, 1, 0});
        for (int64_t row = from; row < last; row++) {
            int64_t end = look(e, tile, row), own = row >= tile->begin && row < tile->end;
            float *p = probabilities + (row - from) * columns, *d_p = d_probabilities + (row - from) * columns;
            recall(e, tile, head, row, end, p);
            if (is_padded(e, tile, row)) continue;
            logits_gradient(e, tile, head, row, end, p, d_p, 0, own ? mixed_at(tile, d, head, row) : NULL,
                            e->weight ? conv_at(e, tile, d, head, row) : NULL, 0);
        }
        int64_t before = tile->begin - from;
        product(e->keys, tile->end - tile->begin, (struct left){probabilities + before * columns, 1, columns},
                d_attended + before * across(e), across(e),
                (struct result){words->d_value + head * e->width, across(e), e->width, 1, tile->begin > 0});
    }
}

// Gradients of queries and keys from those of the mixed map; those of queries in place of them.
INLINE void score_gradients(const struct evolution *e, const struct tile *tile, const struct sentence *words,
                            const struct gradients *d) {
    int64_t rows = tile->end - tile->begin, before = tile->begin - words->first_query;
    float scale = e->scale * (1 - e->alpha);
    for (int64_t head = 0; head < e->heads; head++) {
        const float *d_scores = mixed_at(tile, d, head, tile->begin);
        float *query = words->query + before * across(e) + head * e->width;
        product(e->keys, rows, (struct left){d_scores, 1, tile->columns}, query, across(e),
                (struct result){words->d_key + head * e->width, across(e), e->width, scale, tile->begin > 0});
        product(rows, e->keys, (struct left){d_scores, tile->columns, 1}, words->key + head * e->width, across(e),
                (struct result){query, across(e), e->width, scale, 0});
    }
    scatter(e, tile, words->query + before * across(e), tile->begin, rows, of_query(e, e->d_query));
}

static void NAMED(attend_backward_sentence)(const void *argument, int64_t task) {
    struct plan *plan = (struct plan *)argument;
    const struct evolution *e = plan->e;
    struct tile tile = tile_of(e, task * (tasks_of(e) / e->sentences));
    int64_t size = gradients_size(e, &tile), part = reach_of(e) * tile.columns, turned_size = e->width * tile.columns;
    int64_t keys_size = words_size(e, e->keys), rows_size = words_size(e, reach_of(e));
    float *memory = scratch(size + 2 * part + turned_size + 4 * keys_size + 2 * rows_size + looks_size(e));
    float *probabilities = memory + size, *d_probabilities = probabilities + part, *turned = d_probabilities + part;
    float *keys = turned + turned_size, *queries = keys + 4 * keys_size;
    if (!memory) {
        plan->failed = 1;
        return;
    }
    tile.looks = (int32_t *)(queries + 2 * rows_size);
    struct sentence words = {.query = queries, .d_attended = queries + rows_size, .key = keys, .value = keys + keys_size};
    words.d_key = keys + 2 * keys_size, words.d_value = keys + 3 * keys_size;
    gather(e, &tile, of_key(e, e->key), 0, e->keys, words.key);
    gather(e, &tile, of_key(e, e->value), 0, e->keys, words.value);
    int64_t below = e->kernel - 1 - e->above;
    for (int64_t begin = 0; begin < e->queries; begin += rows_of(e)) {
        move(e, &tile, begin);
        struct gradients d = clear(e, &tile, memory);
        words.first_query = highest(begin - e->above, 0);
        words.first_attended = highest(begin - below, 0);
        int64_t rows = lowest(tile.end + below, e->queries) - words.first_query;
        gather(e, &tile, of_query(e, e->query), words.first_query, rows, words.query);
        rows = lowest(tile.end + e->above, e->queries) - words.first_attended;
        gather(e, &tile, of_attended(e, e->d_attended), words.first_attended, rows, words.d_attended);
        attended_gradients(e, &tile, &words, &d, probabilities, d_probabilities, turned);
        if (e->weight) {
            rows = lowest(tile.end + below, e->queries) - words.first_query;
            score_rows(e, &tile, words.query, words.key, words.first_query, rows, d.map, turned);
            mix_rows(e, &tile, d.map, 0);
        }
        finish_gradients(plan, &tile, &d, partial_of(plan, task));
        if (e->d_previous) put_gradients(e, &tile, &d, e->d_previous, e->alpha, 0);
        score_gradients(e, &tile, &words, &d);
    }
    scatter(e, &tile, words.d_key, 0, e->keys, of_key(e, e->d_key));
    scatter(e, &tile, words.d_value, 0, e->keys, of_key(e, e->d_value));
}

int NAMED(attend)(const struct evolution *e) { return NAMED(forward)(e, tasks_of(e), NAMED(attend_tile)); }

int NAMED(attend_backward)(const struct evolution *e) {
    return NAMED(backward)(e, e->sentences, NAMED(attend_backward_sentence));
}
