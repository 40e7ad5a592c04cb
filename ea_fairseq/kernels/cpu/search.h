// Beam search of one sentence by fairseq's rules: the candidates of a step, and finished hypotheses. Included once for
// each instruction set.
#pragma once
#include <stdlib.h>

#include "linear.h"

// A token that may extend a hypothesis, and the log-probability of the extended hypothesis.
struct candidate {
    float score;
    int32_t row, token;
};

// A sentence that is being translated. Entries stay in the row in which they were computed; back-pointers follow the
// beam.
struct beam {
    int64_t sentence, rows, step;  // `rows` is the number of hypotheses at this step
    int64_t finished;                // finished hypotheses
    int64_t capacity;                 // number of steps that the buffers can hold
    int32_t *back_pointers;       // (2, beam, capacity): a hypothesis's row at each step, for even and odd steps
    int32_t *tokens;              // (capacity, beam): the input token of each step
    float *scores;                // the same size: log-probability of the hypothesis including this token
    float *cache, *layer_cache;   // of the decoder and of one of its layers, see decoder.h
    float *maps[2];               // logits (beam, K, S) that self- and cross-attentions pass to the next layer
};

INLINE int32_t *back_pointers_of(const struct translation *args, const struct beam *beam, int64_t row) {
    return beam->back_pointers + (beam->step % 2 * args->beam_size + row) * beam->capacity;
}

// Inserts a candidate into a list in descending order of at most `max`; returns the new length.
INLINE int64_t insert_candidate(struct candidate *candidates, int64_t count, int64_t max, struct candidate new) {
    if (count == max) count--;
    int64_t position = count;
    for (; position > 0 && candidates[position - 1].score < new.score; position--)
        candidates[position] = candidates[position - 1];
    candidates[position] = new;
    return count + 1;
}

// The logarithm of the sum of e^x of a row of scores.
INLINE float logsumexp(const float *x, int64_t count) {
    vec max = splat(-INFINITY), total = {0};
    for (int64_t i = 0; i < count; i += LANES)
        max = vec_max(max, blend(visible_keys(NULL, NULL, i, count), masked_load(x, i, count - i, 0), max));
    float shift = reduce_max(max);
    for (int64_t i = 0; i < count; i += LANES)
        total += where(visible_keys(NULL, NULL, i, count), exponential(masked_load(x, i, count - i, 0) - shift));
    return shift + logf(reduce_sum(total));
}

// The token that the sentence's prefix requires at this step, or padding. The last step ends every hypothesis.
INLINE int64_t prefix_token(const struct translation *args, const struct beam *beam) {
    if (beam->step >= min_int(args->prefix_length, args->max_len)) return args->pad;
    return args->prefix[beam->sentence * args->prefix_length + beam->step];
}

// A hypothesis's token at a step, given its back-pointers.
INLINE int32_t hypothesis_token(const struct translation *args, const struct beam *beam, const int32_t *rows,
                                int64_t step) {
    return beam->tokens[step * args->beam_size + rows[step]];
}

// Forbids the tokens that would repeat an n-gram of the hypothesis, whose context is `length` tokens from `last` on.
static void forbid_repeated_ngrams(const struct translation *args, const struct beam *beam, int64_t row, float *x) {
    const int32_t *rows = back_pointers_of(args, beam, row);
    int64_t length = args->no_repeat_ngram_size - 1, last = beam->step + 1 - length;
    for (int64_t first = 0; first < last; first++) {
        int64_t same = 0;
        while (same < length &&
               hypothesis_token(args, beam, rows, first + same) == hypothesis_token(args, beam, rows, last + same))
            same++;
        if (same == length) x[hypothesis_token(args, beam, rows, first + length)] = -INFINITY;
    }
}

// Forbids tokens that may not extend the hypothesis, and penalizes the unknown token.
static void apply_token_constraints(const struct translation *args, const struct beam *beam, int64_t row, float *x) {
    x[args->pad] = -INFINITY;
    x[args->unk] -= args->unk_penalty;
    if (beam->step >=
        min_int(args->prefix_length, args->max_len)) {  // the longest prefix counts for all sentences, as in fairseq
        if (beam->step < args->min_len) x[args->eos] = -INFINITY;
        for (int64_t i = 0; i < args->suppressed_count; i++) x[args->suppressed[i]] = -INFINITY;
    }
    if (args->no_repeat_ngram_size >= 2) forbid_repeated_ngrams(args, beam, row, x);
}

// The best extensions of all hypotheses, at most twice the beam size, in descending order; `x` (rows, vocabulary) are
// the scores of tokens, which are modified.
static int64_t top_candidates(const struct translation *args, const struct beam *beam, float *x,
                              struct candidate *candidates) {
    int64_t vocabulary_size = args->output_projection.outputs, max = 2 * args->beam_size, count = 0,
            forced = prefix_token(args, beam);
    int64_t only = beam->step >= args->max_len ? args->eos : forced;  // padding: any token
    int64_t copies =
        forced == args->eos && beam->step ? args->beam_size : 1;  // a finished prefix fills the beam
    for (int64_t row = 0; row < beam->rows; row++, x += vocabulary_size) {
        for (int64_t i = 0; args->temperature != 1 && i < vocabulary_size; i++) x[i] /= (float)args->temperature;
        float total = logsumexp(x, vocabulary_size),
              previous_score = beam->step ? beam->scores[beam->step * args->beam_size + row] : 0;
        apply_token_constraints(args, beam, row, x);
        if (only != args->pad) {
            float score = x[only] - total + previous_score;
            for (int64_t i = 0; i < copies && score > -INFINITY; i++)
                count = insert_candidate(candidates, count, max, (struct candidate){score, row, only});
            continue;
        }
        float worst = count < max ? -INFINITY : candidates[count - 1].score;
        for (int64_t i = 0; i < vocabulary_size; i += LANES) {
            vec scores = masked_load(x, i, vocabulary_size - i, 0) - total + previous_score;
            uint32_t better = mask_bits((scores > worst) & visible_keys(NULL, NULL, i, vocabulary_size));
            for (; better; better &= better - 1) {
                int lane = __builtin_ctz(better);
                if (count == max && scores[lane] <= worst) continue;
                count = insert_candidate(candidates, count, max, (struct candidate){scores[lane], row, i + lane});
                if (count == max) worst = candidates[count - 1].score;
            }
        }
    }
    return count;
}

// Writes a hypothesis that is finished by a candidate.
static void finish_hypothesis(const struct translation *args, struct beam *beam, struct candidate last) {
    int64_t position = beam->sentence * args->beam_size + beam->finished++;
    int32_t *tokens = args->tokens + position * (args->max_len + 1);
    float *scores = args->scores + position * (args->max_len + 1);
    const int32_t *rows = back_pointers_of(args, beam, last.row);
    for (int64_t step = 1; step <= beam->step; step++) {
        tokens[step - 1] = hypothesis_token(args, beam, rows, step);
        scores[step - 1] = beam->scores[step * args->beam_size + rows[step]];
    }
    tokens[beam->step] = last.token;
    scores[beam->step] = last.score;
    args->lengths[position] = beam->step + 1;
}

// Finishes the hypotheses that the end of sentence extends, and begins the next step with the others. Returns whether
// the sentence is finished, or -1 if no token has a finite score.
static int advance_beam(const struct translation *args, struct beam *beam, const struct candidate *candidates,
                        int64_t count) {
    for (int64_t i = 0; i < min_int(args->beam_size, count); i++)
        if (candidates[i].token == args->eos && beam->finished < args->beam_size)
            finish_hypothesis(args, beam, candidates[i]);
    if (beam->step >= args->max_len) return beam->finished ? 1 : -1;
    if (beam->finished == args->beam_size) return 1;
    int64_t rows = 0, next_step = beam->step + 1;
    for (int64_t i = 0; i < count && rows < args->beam_size; i++) {
        if (candidates[i].token == args->eos) continue;
        int32_t *to = beam->back_pointers + (next_step % 2 * args->beam_size + rows) * beam->capacity;
        memcpy(to, back_pointers_of(args, beam, candidates[i].row), sizeof *to * (beam->step + 1));
        beam->tokens[next_step * args->beam_size + rows] = candidates[i].token;
        beam->scores[next_step * args->beam_size + rows++] = candidates[i].score;
    }
    beam->rows = rows;
    beam->step = next_step;
    return rows ? 0 : -1;
}
