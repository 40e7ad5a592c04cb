// The backward pass of a whole attention in float32, one task per sentence. Included once for each instruction set.
#pragma once
#include "attention_forward.h"
#include "evolution_backward.h"

// Recomputes the probabilities of a row (EA eq. 5) from its logits and their logsumexp.
INLINE void recompute_probabilities(const struct fused_arguments *args, const struct tile *tile, int64_t head,
                                    int64_t row, int64_t end, float *probabilities) {
    int64_t index = map_index(args, tile, head, row);
    if (!end) {
        for (int64_t s = 0; s < tile->columns; s++) probabilities[s] = s < args->keys ? 1.0f / args->keys : 0;
        return;
    }
    float logsumexp = args->logsumexp[row_index(args, tile, head, row)];
    for (int64_t s = 0; s < end; s += LANES) {
        vec logits = masked_load(args->logits, index + s, args->keys - s, 0);
        store(probabilities + s, where(visible(tile, s), exponential(logits - logsumexp)));
    }
    memset(probabilities + end, 0, 4 * (tile->columns - end));
}

// Contiguous copies of a sentence's tensors: all keys, values and their gradients, and the queries and output gradients
// of the rows that a tile reads.
struct sentence_buffers {
    float *query, *key, *value, *d_attended, *d_key, *d_value;
    int64_t first_query, first_d_attended;  // first rows of `query` and of `d_attended`
};

// Gradients of the values, of the logits and of the convolution's output, from those of the attention's output:
// dP = dO V^T, dV = P^T dO, then through the softmax.
INLINE void softmax_and_value_gradients(const struct fused_arguments *args, struct tile *tile,
                                        const struct sentence_buffers *tokens, struct gradients *d,
                                        float *probabilities, float *d_probabilities, float *transposed) {
    int64_t from = tokens->first_d_attended, last = min_int(tile->end + args->above, args->queries),
            columns = tile->columns;
    for (int64_t head = 0; head < args->heads; head++) {
        const float *d_attended = tokens->d_attended + head * args->head_dim;
        pack_transposed(tokens->value + head * args->head_dim, channels(args), args->keys, args->head_dim, transposed,
                        columns);
        matmul(last - from, args->head_dim, (struct matrix){d_attended, channels(args), 1}, transposed, columns,
               (struct result){d_probabilities, columns, columns, 1, 0});
        for (int64_t row = from; row < last; row++) {
            int64_t end = load_key_mask(args, tile, row), own = row >= tile->begin && row < tile->end;
            float *p = probabilities + (row - from) * columns, *d_p = d_probabilities + (row - from) * columns;
            recompute_probabilities(args, tile, head, row, end, p);
            if (is_padded(args, tile, row)) continue;
            logits_gradient(args, tile, head, row, end, p, d_p, 0, own ? d_mixed_row(tile, d, head, row) : NULL,
                            args->weight ? d_conv_row(args, tile, d, head, row) : NULL, 0);
        }
        int64_t offset = tile->begin - from;
        matmul(args->keys, tile->end - tile->begin, (struct matrix){probabilities + offset * columns, 1, columns},
               d_attended + offset * channels(args), channels(args),
               (struct result){tokens->d_value + head * args->head_dim, channels(args), args->head_dim, 1,
                               tile->begin > 0});
    }
}

// Multiplies the queries of a head and their gradients by the weights of scores. Adds to the gradients of these weights,
// unless they are fixed: the dot products of the queries and their gradients before.
INLINE void weigh_queries(const struct fused_arguments *args, const struct tile *tile, int64_t head, float *query,
                          float *d_query, float *d_mix) {
    for (int64_t row = tile->begin; row < tile->end; row++, query += channels(args), d_query += channels(args)) {
        int64_t index = weight_index(args, tile, head, row);
        vec total = {0};
        for (int64_t i = 0; i < args->head_dim; i += LANES) {
            vec x = masked_load(query, i, args->head_dim - i, 0), d = masked_load(d_query, i, args->head_dim - i, 0);
            total += d * x;
            masked_store(query, i, args->head_dim - i, x * args->mix[index], 0);
            masked_store(d_query, i, args->head_dim - i, d * args->mix[index], 0);
        }
        if (args->d_mix) d_mix[index] += reduce_sum(total);
    }
}

// Gradients of queries and keys from those of the scores (EA eq. 1): dQ = dS K, which replaces the gradients of the
// output, and dK = dS^T Q.
INLINE void query_and_key_gradients(const struct fused_arguments *args, const struct tile *tile,
                                    const struct sentence_buffers *tokens, const struct gradients *d,
                                    struct parameter_gradients d_parameters) {
    int64_t rows = tile->end - tile->begin, offset = tile->begin - tokens->first_query;
    for (int64_t head = 0; head < args->heads; head++) {
        const float *d_scores = d_mixed_row(tile, d, head, tile->begin);
        float *query = tokens->query + offset * channels(args) + head * args->head_dim;
        float *d_query = tokens->d_attended + head * args->head_dim;
        matmul(rows, args->keys, (struct matrix){d_scores, tile->columns, 1}, tokens->key + head * args->head_dim,
               channels(args), (struct result){d_query, channels(args), args->head_dim, args->scale, 0});
        if (args->mix) weigh_queries(args, tile, head, query, d_query, d_mix_of(args, d_parameters));
        matmul(args->keys, rows, (struct matrix){d_scores, 1, tile->columns}, query, channels(args),
               (struct result){tokens->d_key + head * args->head_dim, channels(args), args->head_dim, args->scale,
                               tile->begin > 0});
    }
    scatter(args, tile, tokens->d_attended, tile->begin, rows, query_view(args, args->d_query));
}

static int attend_backward_sentence(const void *argument, int64_t task) {
    const struct pass *pass = argument;
    const struct fused_arguments *args = pass->args;
    struct tile tile = make_tile(args, task * tiles_per_sentence(args));
    int64_t size = gradients_size(args, &tile), rows_size = max_rows_read(args) * tile.columns;
    int64_t transposed_size = args->head_dim * tile.columns;
    int64_t keys_size = tokens_size(args, args->keys), queries_size = tokens_size(args, max_rows_read(args));
    float *memory = thread_scratch(size + 2 * rows_size + transposed_size + 4 * keys_size + 2 * queries_size +
                                   key_masks_size(args));
    float *probabilities = memory + size, *d_probabilities = probabilities + rows_size;
    float *transposed = d_probabilities + rows_size, *keys = transposed + transposed_size;
    float *queries = keys + 4 * keys_size;
    if (!memory) return 1;
    tile.key_masks = (int32_t *)(queries + 2 * queries_size);
    struct sentence_buffers tokens = {.query = queries, .d_attended = queries + queries_size, .key = keys};
    tokens.value = keys + keys_size, tokens.d_key = keys + 2 * keys_size, tokens.d_value = keys + 3 * keys_size;
    gather(args, &tile, key_view(args, args->key), 0, args->keys, tokens.key);
    gather(args, &tile, key_view(args, args->value), 0, args->keys, tokens.value);
    int64_t below = rows_below(args);
    struct parameter_gradients d_parameters = parameter_gradients_of_task(pass, task);
    for (int64_t begin = 0; begin < args->queries; begin += rows_per_tile(args)) {
        move_tile(args, &tile, begin);
        struct gradients d = zero_gradients(args, &tile, memory);
        tokens.first_query = max_int(begin - args->above, 0);
        tokens.first_d_attended = max_int(begin - below, 0);
        int64_t rows = min_int(tile.end + below, args->queries) - tokens.first_query;
        int64_t attended_rows = min_int(tile.end + args->above, args->queries) - tokens.first_d_attended;
        gather(args, &tile, query_view(args, args->query), tokens.first_query, rows, tokens.query);
        gather(args, &tile, attended_view(args, args->d_attended), tokens.first_d_attended, attended_rows,
               tokens.d_attended);
        // Backward through the weighted sum of values, the softmax (EA eq. 5) and the ReLU, in rows that read the tile.
        softmax_and_value_gradients(args, &tile, &tokens, &d, probabilities, d_probabilities, transposed);
        // Recompute the convolution's input (EA eq. 1 and the skip connection of eq. 4) for the gradient of its weight.
        if (args->weight) {
            scaled_scores(args, &tile, tokens.query, tokens.key, tokens.first_query, rows, d.conv_input, transposed);
            mix_previous_logits(args, &tile, d.conv_input, 0);
        }
        // Backward through the convolution and the skip connection (EA eq. 4) to previous logits, queries and keys.
        evolution_gradients(pass, &tile, &d, d_parameters, 0);
        if (args->d_previous) store_gradients(args, &tile, &d, args->d_previous, 1, args->mix + weight_count(args), 0);
        query_and_key_gradients(args, &tile, &tokens, &d, d_parameters);
    }
    scatter(args, &tile, tokens.d_key, 0, args->keys, key_view(args, args->d_key));
    scatter(args, &tile, tokens.d_value, 0, args->keys, key_view(args, args->d_value));
    return 0;
}

int NAMED(attend_backward)(const struct fused_arguments *args) {
    return run_backward(args, args->sentences, attend_backward_sentence);
}
