// All kernels, compiled for any processor.
#define LANES 8
#define SET plain
#include "attention_backward.h"
#include "dropout_elements.h"
#include "norm_rows.h"
#include "translate.h"
