// The arguments of dropout: what is left out depends on a seed and an element's index alone. structs.py reads this file.
#pragma once
#include "workers.h"

struct dropout {
    int64_t elements, seed;
    int64_t bf16;  // whether elements are bfloat16 instead of float32
    double p;      // the probability of leaving out an element; less than 1
    const void *x;
    void *y;
    struct thread_pool pool;
};

// Returns 0.
#define DECLARE_DROPOUT(set) EXPORTED int dropout_##set(const struct dropout *args);
DECLARE_DROPOUT(avx512)
DECLARE_DROPOUT(avx2)
DECLARE_DROPOUT(plain)
