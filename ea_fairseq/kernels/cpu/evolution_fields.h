// The fields that every struct of an attention has: how its logits evolve; see fused_logits.py.
    int64_t heads;
    int64_t kernel, above, left;  // tap (i, j) of entry (t, s) reads (t - above + i, s - left + j)
    double scale;                 // factor of scores
    const float *mix;             // (2, heads): weights of scores and of previous logits; NULL without previous logits
    const float *weight, *bias, *beta;  // (heads, heads, kernel, kernel), (heads), (heads); NULL without a convolution
    const float *sinks;  // (heads): the logits of a key without a value, or NULL; translation alone has them
