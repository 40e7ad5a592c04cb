// Translation: each thread translates some sentences of a batch, and a new one when one is finished. Included once for
// each instruction set.
#pragma once
#include "decoder.h"

enum {
    MIN_STEP_ROWS = 16,
    MAX_STEP_ROWS = 120,
    MAX_ENCODED_TOKENS = 120
};  // hypotheses in a thread's step, and tokens in a group that is encoded

// The state of a thread that translates.
struct translator {
    const struct batch *batch;
    struct beam *beams;
    int64_t count;  // sentences
    struct candidate *candidates;
    float *x, *normalized, *attended, *first_values, *inner, *scores, *weights;  // buffers for the hypotheses of a step
};

// Starts new sentences until the thread has as many as it may have; returns whether there was not enough memory.
static int start_sentences(struct translator *translator) {
    const struct batch *batch = translator->batch;
    const struct translation *args = batch->args;
    while (translator->count < batch->max_sentences) {
        int64_t sentence = __atomic_fetch_add((int64_t *)&batch->next_sentence, 1, __ATOMIC_RELAXED);
        if (sentence >= args->sentences) break;
        struct beam *beam = &translator->beams[translator->count++];
        *beam = (struct beam){.sentence = sentence, .rows = 1};
        if (grow_beam(batch, beam, min_int(16, args->max_len + 1))) return 1;
        beam->tokens[0] = args->bos;
    }
    return 0;
}

// Computes the scores of the next token for all hypotheses; returns whether there was not enough memory.
static int decoder_step(struct translator *translator) {
    const struct batch *batch = translator->batch;
    const struct translation *args = batch->args;
    const struct stack *decoder = &args->decoder;
    struct hidden_states states = {0, decoder->width, decoder->normalize_before, translator->x, translator->normalized};
    for (struct beam *beam = translator->beams; beam < translator->beams + translator->count; beam++) {
        int64_t capacity = min_int(beam->step + 2, args->max_len + 1);  // the next step's tokens are written, too
        if (capacity > beam->capacity && grow_beam(batch, beam, min_int(2 * beam->capacity, args->max_len + 1)))
            return 1;
        for (int64_t row = 0; row < beam->rows; row++, states.rows++) {
            back_pointers_of(args, beam, row)[beam->step] = row;
            embed(decoder, beam->tokens[beam->step * args->beam_size + row], beam->step,
                  translator->x + states.rows * states.width);
        }
        beam->layer_cache = beam->cache;
    }
    apply_norm(&decoder->embedding_norm, states.width, states.rows, translator->x, translator->x);
    for (int64_t l = 0; l < decoder->layers; l++) {
        const struct layer *layer = &decoder->layer[l];
        for (int is_cross = 0; is_cross < 2; is_cross++) {
            const struct attention *attention = is_cross ? &layer->cross_attention : &layer->self_attention;
            float *query = translator->inner, *attended = translator->attended;
            const float *input = sublayer_input(&states, &attention->norm);
            apply_linear(&attention->in_proj, input, states.rows, NULL, translator->inner);
            if (!is_cross)
                mix_values(attention, !l, states.rows, states.width, 3 * states.width,
                           translator->inner + 2 * states.width, translator->first_values);
            for (struct beam *beam = translator->beams; beam < translator->beams + translator->count; beam++) {
                for (int64_t row = 0; row < beam->rows; row++) {
                    float *projected = query + row * attention->in_proj.outputs;
                    if (is_cross)
                        turn_heads(&attention->query_norm, NULL, attention->heads, states.width / attention->heads,
                                   projected);
                    else
                        turn_query_and_key(decoder, attention, beam->step, projected);
                }
                const float *tokens = input + (attended - translator->attended);
                if (has_word_weights(attention)) weigh_words(attention, beam->rows, 1, tokens, translator->weights);
                if (attend_in_step(batch, beam, l, is_cross, query, translator->weights, attended)) return 1;
                query += beam->rows * attention->in_proj.outputs;
                attended += beam->rows * states.width;
            }
            adjust_outputs(attention, states.rows, states.width, input, translator->inner + 2 * states.width,
                           3 * states.width, translator->inner, translator->attended);
            add_sublayer_output(&states, &attention->norm, &attention->out_proj, translator->attended);
        }
        feed_forward(layer, &states, translator->inner);
        for (struct beam *beam = translator->beams; beam < translator->beams + translator->count; beam++)
            beam->layer_cache += layer_cache_size(layer_cache_layout(batch, layer, beam->sentence, beam->capacity));
    }
    apply_norm(&decoder->final_norm, states.width, states.rows, translator->x, translator->x);
    apply_linear(&args->output_projection, translator->x, states.rows, NULL, translator->scores);
    return 0;
}

// Decodes step by step until no sentence is left. Returns 1 if there was not enough memory, 2 if no token has a finite
// score.
static int translate_sentences(struct translator *translator) {
    const struct translation *args = translator->batch->args;
    for (;;) {
        if (start_sentences(translator)) return 1;
        if (!translator->count) return 0;
        if (decoder_step(translator)) return 1;
        float *scores = translator->scores;
        int64_t unfinished = 0;
        for (int64_t i = 0; i < translator->count; i++) {
            struct beam *beam = &translator->beams[i];
            int64_t rows = beam->rows, count = top_candidates(args, beam, scores, translator->candidates);
            int done = advance_beam(args, beam, translator->candidates, count);
            if (done < 0) return 2;
            if (done)
                free_beam(beam);
            else if (unfinished++ < i)
                translator->beams[unfinished - 1] = *beam, *beam = (struct beam){0};
            scores += rows * args->output_projection.outputs;
        }
        translator->count = unfinished;
    }
}

// The task of one thread.
static int translate_task(const void *argument, int64_t task) {
    (void)task;
    struct batch *batch = (struct batch *)argument;
    const struct translation *args = batch->args;
    int64_t width = args->decoder.width, rows = batch->max_sentences * args->beam_size, inner = 3 * width;
    for (int64_t l = 0; l < args->decoder.layers; l++) inner = max_int(inner, args->decoder.layer[l].fc1.outputs);
    struct translator translator = {.batch = batch, .beams = calloc(batch->max_sentences, sizeof *translator.beams)};
    translator.candidates = malloc(2 * args->beam_size * sizeof *translator.candidates);
    translator.x = malloc(4 * rows * (8 * width + inner + args->output_projection.outputs));  // heads: at most width
    int failed = 1;
    if (translator.beams && translator.candidates && translator.x) {
        translator.normalized = translator.x + rows * width;
        translator.attended = translator.normalized + rows * width;
        translator.first_values = translator.attended + rows * width;
        translator.inner = translator.first_values + rows * width;
        translator.weights = translator.inner + rows * inner;
        translator.scores = translator.weights + rows * 4 * width;
        failed = translate_sentences(&translator);
    }
    for (int64_t i = 0; translator.beams && i < translator.count; i++) free_beam(&translator.beams[i]);
    free(translator.beams), free(translator.candidates), free(translator.x);
    if (failed == 2) __atomic_store_n(&batch->has_no_finite_score, 1, __ATOMIC_RELAXED);
    return failed;
}

// The number of sentences that a thread translates at the same time. With as many as have about as large caches as the
// weights that a step reads, weights no longer take most of a step's time, and more caches only take longer to read.
static int64_t max_sentences(const struct translation *args) {
    int64_t weights = args->output_projection.inputs * args->output_projection.outputs;
    for (int64_t l = 0; l < args->decoder.layers; l++) {
        const struct layer *layer = &args->decoder.layer[l];
        const struct attention *self = &layer->self_attention, *cross = &layer->cross_attention;
        const struct linear *linears[] = {&self->in_proj,  &self->out_proj, &cross->in_proj,
                                          &cross->out_proj, &layer->fc1,     &layer->fc2};
        for (int i = 0; i < 6; i++) weights += linears[i]->inputs * linears[i]->outputs;
    }
    // Hypotheses are expected to be as long as their sources.
    int64_t tokens = (1 + args->beam_size) * args->source_offsets[args->sentences] / args->sentences;
    int64_t balanced = weights / (2 * args->decoder.layers * args->decoder.width * tokens);
    return max_int(1, min_int(max_int(balanced, MIN_STEP_ROWS / args->beam_size), MAX_STEP_ROWS / args->beam_size));
}

int NAMED(translate)(const struct translation *args) {
    struct batch batch = {.args = args};
    int64_t threads = min_int(args->pool.parallel ? args->pool.threads : 1, args->sentences),
            tokens = args->source_offsets[args->sentences];
    batch.max_sentences = min_int(max_sentences(args), ceil_div(args->sentences, threads));
    batch.sentences_per_group = max_int(
        1, min_int(MAX_ENCODED_TOKENS * args->sentences / max_int(1, tokens), ceil_div(args->sentences, threads)));
    batch.memory = malloc(4 * (2 * args->decoder.layers * tokens * args->decoder.width + LANES));
    batch.zero_slots = calloc(args->beam_size, sizeof *batch.zero_slots);
    int failed =
        !batch.memory || !batch.zero_slots ||
        parallel_for(&args->pool, ceil_div(args->sentences, batch.sentences_per_group), encode_group, &batch) ||
        parallel_for(&args->pool, threads, translate_task, &batch);
    free(batch.memory), free(batch.zero_slots);
    return batch.has_no_finite_score ? 2 : failed;
}
