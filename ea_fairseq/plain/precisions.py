"""The precisions in which native search multiplies by weights, and the options that choose among them."""

REDUCED = ("bfloat16", "int8")
INSTRUCTIONS = {"bfloat16": "AVX512_BF16", "int8": "AVX512_VNNI"}  # that each needs
# Options, and the precisions that they allow; native search takes the fastest of these and float32.
PRECISIONS = {"native_bf16": ("bfloat16",), "native_int8": ("int8",), "native_fast": REDUCED}


def about_precision(name: str) -> str:
    """Returns the help of an option."""
    precisions = PRECISIONS[name]
    if len(precisions) > 1:
        return f"multiply by weights in the fastest of float32, {' and '.join(precisions)}"
    return f"multiply by weights in {precisions[0]} if that is faster; needs {INSTRUCTIONS[precisions[0]]}"
