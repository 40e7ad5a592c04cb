// Translation with linear layers in int8, compiled for processors with AVX-512 and its instructions for that.
#include "translation.h"
#ifdef REDUCED_COMPILES
#ifdef __clang__
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")
#endif
#define LANES 16
#define SET avx512_int8
#define REDUCED
#define INT8
#include "translate.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
