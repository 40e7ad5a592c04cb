// The fields of each struct that tells kernels how the logits of an attention evolve; see FusedLogits in fused_logits.py.
    int64_t heads;
    int64_t kernel, above, left;  // tap (i, j) of entry (t, s) reads (t - above + i, s - left + j)
    double scale, own_weight, previous_weight, beta;
    const float *weight, *bias;   // (heads, heads, kernel, kernel), (heads); NULL: no convolution
