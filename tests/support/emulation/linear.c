// A linear layer in bfloat16 for processors without instructions for it.
#define LANES 16
#define SET emulated
#define BFLOAT16
#include "linear.h"

void emulated_linear(const struct linear *layer, const float *x, int64_t rows, const float *residual, float *y) {
    apply_linear(layer, x, rows, residual, y);
}
