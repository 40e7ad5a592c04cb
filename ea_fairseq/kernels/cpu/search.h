// Beam search of one sentence, by fairseq's rules: its hypotheses, the candidates of a step, those that end. Included
// once for each instruction set.
#pragma once
#include <stdlib.h>

#include "linear.h"

// A word that may follow a hypothesis, and the log-probability of the hypothesis with it.
struct candidate {
    float score;
    int32_t row, token;
};

// A sentence that is being translated. What a step has of a hypothesis stays in the row in which it was computed.
struct beam {
    int64_t sentence, rows, now;  // hypotheses of this step, and its number
    int64_t ended;                // hypotheses that ended
    int64_t room;                 // for steps
    int32_t *back_pointers;       // (2, beam, room): the row of each step of a hypothesis, now and in the next step
    int32_t *tokens;              // (room, beam): what a step reads
    float *scores;                // the same: of the hypothesis with this token
    float *cache, *layer_cache;   // of the decoder and of one of its layers, see decoder.h
    float *maps[2];               // that self-attentions and encoder-decoder attentions hand on, (beam, K, S)
};

INLINE int32_t *back_pointers_of(const struct translation *a, const struct beam *beam, int64_t row) {
    return beam->back_pointers + (beam->now % 2 * a->beam + row) * beam->room;
}

// Puts a candidate at its place among `count` in falling order, of which there may be `most`; returns the new count.
INLINE int64_t insert(struct candidate *candidates, int64_t count, int64_t most, struct candidate new) {
    if (count == most) count--;
    int64_t place = count;
    for (; place > 0 && candidates[place - 1].score < new.score; place--) candidates[place] = candidates[place - 1];
    candidates[place] = new;
    return count + 1;
}

// The logarithm of the sum of e^x of a row of scores.
INLINE float logsumexp(const float *x, int64_t count) {
    vec most = splat(-INFINITY), total = {0};
    for (int64_t i = 0; i < count; i += LANES)
        most = vec_max(most, blend(visible_keys(NULL, NULL, i, count), masked_load(x, i, count - i, 0), most));
    float shift = reduce_max(most);
    for (int64_t i = 0; i < count; i += LANES)
        total += where(visible_keys(NULL, NULL, i, count), exponential(masked_load(x, i, count - i, 0) - shift));
    return shift + logf(reduce_sum(total));
}

// The word that the prefix of a sentence has at this step; padding: none. The last step ends a hypothesis all the same.
INLINE int64_t word_of_prefix(const struct translation *a, const struct beam *beam) {
    if (beam->now >= min_of(a->prefix_length, a->max_len)) return a->pad;
    return a->prefix[beam->sentence * a->prefix_length + beam->now];
}

// A word of a hypothesis, given its back pointers.
INLINE int32_t word_at(const struct translation *a, const struct beam *beam, const int32_t *rows, int64_t step) {
    return beam->tokens[step * a->beam + rows[step]];
}

// Forbids the words that would end an n-gram that a hypothesis has already.
static void forbid_repetitions(const struct translation *a, const struct beam *beam, int64_t row, float *x) {
    const int32_t *rows = back_pointers_of(a, beam, row);
    int64_t length = a->ngram - 1, last = beam->now + 1 - length;  // of what comes before a word
    for (int64_t first = 0; first < last; first++) {
        int64_t same = 0;
        while (same < length && word_at(a, beam, rows, first + same) == word_at(a, beam, rows, last + same)) same++;
        if (same == length) x[word_at(a, beam, rows, first + length)] = -INFINITY;
    }
}

// Lowers the scores of words that may not follow a hypothesis, or not so easily.
static void forbid_words(const struct translation *a, const struct beam *beam, int64_t row, float *x) {
    x[a->pad] = -INFINITY;
    x[a->unk] -= a->unk_penalty;
    if (beam->now >= min_of(a->prefix_length, a->max_len)) {  // of all sentences, whether or not they have a prefix
        if (beam->now < a->min_len) x[a->eos] = -INFINITY;
        for (int64_t i = 0; i < a->suppressed_words; i++) x[a->suppressed[i]] = -INFINITY;
    }
    if (a->ngram >= 2) forbid_repetitions(a, beam, row, x);
}

// The best words after all hypotheses, at most twice as many as the beam is wide, in falling order; `x` are the rows'
// scores of the vocabulary, which are changed.
static int64_t best_candidates(const struct translation *a, const struct beam *beam, float *x,
                               struct candidate *candidates) {
    int64_t words = a->vocabulary.outputs, most = 2 * a->beam, count = 0, given = word_of_prefix(a, beam);
    int64_t only = beam->now >= a->max_len ? a->eos : given;  // padding: any word
    int64_t copies = given == a->eos && beam->now ? a->beam : 1;  // a prefix that ends gives all hypotheses of the beam
    for (int64_t row = 0; row < beam->rows; row++, x += words) {
        for (int64_t i = 0; a->temperature != 1 && i < words; i++) x[i] /= (float)a->temperature;
        float total = logsumexp(x, words), before = beam->now ? beam->scores[beam->now * a->beam + row] : 0;
        forbid_words(a, beam, row, x);
        if (only != a->pad) {
            float score = x[only] - total + before;
            for (int64_t i = 0; i < copies && score > -INFINITY; i++)
                count = insert(candidates, count, most, (struct candidate){score, row, only});
            continue;
        }
        float worst = count < most ? -INFINITY : candidates[count - 1].score;
        for (int64_t i = 0; i < words; i += LANES) {
            vec scores = masked_load(x, i, words - i, 0) - total + before;
            uint32_t better = mask_bits((scores > worst) & visible_keys(NULL, NULL, i, words));
            for (; better; better &= better - 1) {
                int lane = __builtin_ctz(better);
                if (count == most && scores[lane] <= worst) continue;
                count = insert(candidates, count, most, (struct candidate){scores[lane], row, i + lane});
                if (count == most) worst = candidates[count - 1].score;
            }
        }
    }
    return count;
}

// Writes a hypothesis that ends with a candidate.
static void end_hypothesis(const struct translation *a, struct beam *beam, struct candidate last) {
    int64_t place = beam->sentence * a->beam + beam->ended++;
    int32_t *tokens = a->tokens + place * (a->max_len + 1);
    float *scores = a->scores + place * (a->max_len + 1);
    const int32_t *rows = back_pointers_of(a, beam, last.row);
    for (int64_t step = 1; step <= beam->now; step++) {
        tokens[step - 1] = word_at(a, beam, rows, step);
        scores[step - 1] = beam->scores[step * a->beam + rows[step]];
    }
    tokens[beam->now] = last.token;
    scores[beam->now] = last.score;
    a->lengths[place] = beam->now + 1;
}

// Ends hypotheses whose next word is the end of sentence and begins the next step with the others; returns whether the
// sentence is done, or -1 where no word has a finite score.
static int advance(const struct translation *a, struct beam *beam, const struct candidate *candidates, int64_t count) {
    for (int64_t i = 0; i < min_of(a->beam, count); i++)
        if (candidates[i].token == a->eos && beam->ended < a->beam) end_hypothesis(a, beam, candidates[i]);
    if (beam->now >= a->max_len) return beam->ended ? 1 : -1;
    if (beam->ended == a->beam) return 1;
    int64_t rows = 0, next = beam->now + 1;
    for (int64_t i = 0; i < count && rows < a->beam; i++) {
        if (candidates[i].token == a->eos) continue;
        int32_t *to = beam->back_pointers + (next % 2 * a->beam + rows) * beam->room;
        memcpy(to, back_pointers_of(a, beam, candidates[i].row), sizeof *to * (beam->now + 1));
        beam->tokens[next * a->beam + rows] = candidates[i].token;
        beam->scores[next * a->beam + rows++] = candidates[i].score;
    }
    beam->rows = rows;
    beam->now = next;
    return rows ? 0 : -1;
}
