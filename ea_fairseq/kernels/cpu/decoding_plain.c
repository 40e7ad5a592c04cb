#define LANES 8
#define SET plain
#include "decoding_kernels.h"
