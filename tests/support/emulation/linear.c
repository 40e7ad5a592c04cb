// A linear layer in bfloat16, or with INT8 in int8, for processors without instructions for it.
#define LANES 16
#define SET emulated
#define REDUCED
#include "linear.h"

void emulated_linear(const struct linear *layer, const float *x, int64_t rows, const float *residual, float *y) {
    apply_linear(layer, x, rows, residual, y);
}
