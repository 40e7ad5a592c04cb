#include <string.h>

#include "translation.h"

// The name of the widest instruction set that this processor has kernels for.
EXPORTED const char *instruction_set(void) {
#ifdef __x86_64__
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return "plain";
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return "avx512";
    return "avx2";
#else
    return "plain";
#endif
}

// Whether this processor has AVX-512 with instructions for bfloat16.
EXPORTED int has_bfloat16(void) {
#ifdef BFLOAT16_COMPILES
    return strcmp(instruction_set(), "avx512") == 0 && __builtin_cpu_supports("avx512bf16");
#else
    return 0;
#endif
}
