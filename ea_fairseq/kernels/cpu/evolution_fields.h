// The fields that every struct of an attention has: how its logits evolve; see fused_logits.py.
    int64_t heads;
    int64_t kernel, above, left;  // tap (i, j) of entry (t, s) reads (t - above + i, s - left + j)
    double scale;                 // factor of scores
    int64_t by_word;              // whether mix and beta have weights for each row of a map instead of for all rows
    const float *mix;             // (2, heads) or (2, B, heads, T): weights of scores and of previous logits, or NULL
    const float *weight, *bias;   // (heads, heads, kernel, kernel), (heads), of a convolution, or NULL
    const float *beta;            // (heads) or (B, heads, T): weight of its output
    const float *sinks;  // (heads): the logits of a key without a value, or NULL; translation alone has them
