// Backward pass of a whole attention in float32, by sentences. Included once for each instruction set.
#pragma once
#include "attention_forward.h"
#include "evolution_backward.h"

// Probabilities of a row anew, from its logits.
INLINE void recompute_probabilities(const struct fused_arguments *a, const struct tile *tile, int64_t head, int64_t row,
                                    int64_t end, float *probabilities) {
    int64_t index = map_index(a, tile, head, row);
    if (!end) {
        for (int64_t s = 0; s < tile->columns; s++) probabilities[s] = s < a->keys ? 1.0f / a->keys : 0;
        return;
    }
    float logsumexp = a->logsumexp[index / a->keys];
    for (int64_t s = 0; s < end; s += LANES) {
        vec logits = masked_load(a->logits, index + s, a->keys - s, 0);
        store(probabilities + s, where(visible(tile, s), exponential(logits - logsumexp)));
    }
    memset(probabilities + end, 0, 4 * (tile->columns - end));
}

// A sentence's tokens side by side: its keys and values, what the rows of a tile need of queries and of gradients, and
// the gradients of keys and values.
struct sentence {
    float *query, *key, *value, *d_attended, *d_key, *d_value;
    int64_t first_query, first_attended;  // the rows that `query` and `d_attended` begin with
};

// Gradients of logits and of the convolution's output from those of what was attended to, and gradients of the values.
INLINE void attended_gradients(const struct fused_arguments *a, struct tile *tile, const struct sentence *tokens,
                               struct gradients *d, float *probabilities, float *d_probabilities, float *transposed) {
    int64_t from = tokens->first_attended, last = min_of(tile->end + a->above, a->queries), columns = tile->columns;
    for (int64_t head = 0; head < a->heads; head++) {
        const float *d_attended = tokens->d_attended + head * a->head_dim;
        pack_transposed(tokens->value + head * a->head_dim, channels(a), a->keys, a->head_dim, transposed, columns);
        matmul(last - from, a->head_dim, (struct matrix){d_attended, channels(a), 1}, transposed, columns,
               (struct result){d_probabilities, columns, columns, 1, 0});
        for (int64_t row = from; row < last; row++) {
            int64_t end = load_visibility(a, tile, row), own = row >= tile->begin && row < tile->end;
            float *p = probabilities + (row - from) * columns, *d_p = d_probabilities + (row - from) * columns;
            recompute_probabilities(a, tile, head, row, end, p);
            if (is_padded(a, tile, row)) continue;
            logits_gradient(a, tile, head, row, end, p, d_p, 0, own ? mixed_at(tile, d, head, row) : NULL,
                            a->weight ? conv_at(a, tile, d, head, row) : NULL, 0);
        }
        int64_t before = tile->begin - from;
        matmul(a->keys, tile->end - tile->begin, (struct matrix){probabilities + before * columns, 1, columns},
               d_attended + before * channels(a), channels(a),
               (struct result){tokens->d_value + head * a->head_dim, channels(a), a->head_dim, 1, tile->begin > 0});
    }
}

// Multiplies the gradients of a head's queries by the weight of its scores and returns the gradient of that weight,
// which is the dot product of queries and what their gradients were before.
INLINE float weigh_query_gradients(const struct fused_arguments *a, const struct tile *tile, int64_t head,
                                   float *d_query) {
    vec total = {0};
    for (int64_t row = tile->begin; row < tile->end; row++, d_query += channels(a)) {
        const float *query = token_at(a, tile, of_query(a, a->query), row) + head * a->head_dim;
        for (int64_t i = 0; i < a->head_dim; i += LANES) {
            vec d = masked_load(d_query, i, a->head_dim - i, 0);
            total += d * masked_load(query, i, a->head_dim - i, 0);
            masked_store(d_query, i, a->head_dim - i, d * a->mix[head], 0);
        }
    }
    return reduce_sum(total);
}

// Gradients of queries and keys from those of mixed logits; those of queries in place of them.
INLINE void score_gradients(const struct fused_arguments *a, const struct tile *tile, const struct sentence *tokens,
                            const struct gradients *d, struct sums sums) {
    int64_t rows = tile->end - tile->begin, before = tile->begin - tokens->first_query;
    for (int64_t head = 0; head < a->heads; head++) {
        const float *d_scores = mixed_at(tile, d, head, tile->begin);
        float scale = a->scale * (a->mix ? a->mix[head] : 1);
        float *query = tokens->query + before * channels(a) + head * a->head_dim;
        matmul(a->keys, rows, (struct matrix){d_scores, 1, tile->columns}, query, channels(a),
               (struct result){tokens->d_key + head * a->head_dim, channels(a), a->head_dim, scale, tile->begin > 0});
        matmul(rows, a->keys, (struct matrix){d_scores, tile->columns, 1}, tokens->key + head * a->head_dim,
               channels(a), (struct result){query, channels(a), a->head_dim, a->d_mix ? a->scale : scale, 0});
        if (a->d_mix) sums.scores[head] += weigh_query_gradients(a, tile, head, query);
    }
    scatter(a, tile, tokens->query + before * channels(a), tile->begin, rows, of_query(a, a->d_query));
}

static int attend_backward_sentence(const void *argument, int64_t task) {
    const struct plan *plan = argument;
    const struct fused_arguments *a = plan->a;
    struct tile tile = tile_of(a, task * tiles_per_sentence(a));
    int64_t size = gradients_size(a, &tile), rows_size = rows_read(a) * tile.columns;
    int64_t transposed_size = a->head_dim * tile.columns;
    int64_t keys_size = tokens_size(a, a->keys), queries_size = tokens_size(a, rows_read(a));
    float *memory = scratch(size + 2 * rows_size + transposed_size + 4 * keys_size + 2 * queries_size +
                            visibility_size(a));
    float *probabilities = memory + size, *d_probabilities = probabilities + rows_size;
    float *transposed = d_probabilities + rows_size, *keys = transposed + transposed_size;
    float *queries = keys + 4 * keys_size;
    if (!memory) return 1;
    tile.visibility = (int32_t *)(queries + 2 * queries_size);
    struct sentence tokens = {.query = queries, .d_attended = queries + queries_size, .key = keys};
    tokens.value = keys + keys_size, tokens.d_key = keys + 2 * keys_size, tokens.d_value = keys + 3 * keys_size;
    gather(a, &tile, of_key(a, a->key), 0, a->keys, tokens.key);
    gather(a, &tile, of_key(a, a->value), 0, a->keys, tokens.value);
    int64_t below = below_of(a);
    struct sums sums = sums_of_task(plan, task);
    for (int64_t begin = 0; begin < a->queries; begin += rows_of(a)) {
        move_tile(a, &tile, begin);
        struct gradients d = clear_gradients(a, &tile, memory);
        tokens.first_query = max_of(begin - a->above, 0);
        tokens.first_attended = max_of(begin - below, 0);
        int64_t rows = min_of(tile.end + below, a->queries) - tokens.first_query;
        int64_t attended_rows = min_of(tile.end + a->above, a->queries) - tokens.first_attended;
        gather(a, &tile, of_query(a, a->query), tokens.first_query, rows, tokens.query);
        gather(a, &tile, of_attended(a, a->d_attended), tokens.first_attended, attended_rows, tokens.d_attended);
        // Through the sums of values, the softmax and the ReLU, in all rows whose taps reach the tile.
        attended_gradients(a, &tile, &tokens, &d, probabilities, d_probabilities, transposed);
        // What the convolution has read, for the gradient of its weight.
        if (a->weight) {
            score_rows(a, &tile, tokens.query, tokens.key, tokens.first_query, rows, d.conv_input, transposed);
            mix_rows(a, &tile, d.conv_input, 0);
        }
        // Through the convolution and the skip connection, to queries and keys.
        finish_gradients(plan, &tile, &d, sums, 0);
        if (a->d_previous) write_gradients(a, &tile, &d, a->d_previous, 1, a->mix + a->heads, 0);
        score_gradients(a, &tile, &tokens, &d, sums);
    }
    scatter(a, &tile, tokens.d_key, 0, a->keys, of_key(a, a->d_key));
    scatter(a, &tile, tokens.d_value, 0, a->keys, of_key(a, a->d_value));
    return 0;
}

int NAMED(attend_backward)(const struct fused_arguments *a) {
    return run_backward(a, a->sentences, attend_backward_sentence);
}
