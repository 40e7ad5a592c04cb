#include <string.h>

#include "translation.h"

#ifdef __x86_64__
#include <cpuid.h>

// Registers that the operating system has to save, as bits of XCR0.
enum { AVX_STATE = 0x6, AVX512_STATE = 0xe6 };

static int saves(unsigned state) {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & state) == state;
}
#endif

// The name of the widest instruction set that this processor has kernels for. CPUID itself is asked, because not every
// compiler's runtime answers __builtin_cpu_supports.
EXPORTED const char *instruction_set(void) {
#ifdef __x86_64__
    unsigned eax, ebx, ecx, edx;
    unsigned base = bit_FMA | bit_OSXSAVE, avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & base) != base || !saves(AVX_STATE)) return "plain";
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(ebx & bit_AVX2)) return "plain";
    return (ebx & avx512) == avx512 && saves(AVX512_STATE) ? "avx512" : "avx2";
#else
    return "plain";
#endif
}

// Whether this processor has AVX-512 with instructions for bfloat16.
EXPORTED int has_bfloat16(void) {
#ifdef BFLOAT16_COMPILES
    unsigned eax, ebx, ecx, edx;
    return strcmp(instruction_set(), "avx512") == 0 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) &&
           (eax & bit_AVX512BF16);
#else
    return 0;
#endif
}
