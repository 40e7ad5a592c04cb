// All kernels, compiled for AVX2.
#if defined(__x86_64__)
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define LANES 8
#define SET avx2
#include "attention_backward.h"
#include "dropout_elements.h"
#include "norm_rows.h"
#include "translate.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
