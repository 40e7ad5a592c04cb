"""The structs of translation.h: a model, source sentences, and the hypotheses that beam search ends with."""

from ctypes import POINTER, Structure, c_double, c_int64, c_void_p


class LinearFields(Structure):
    """``struct linear``."""

    _fields_ = [("inputs", c_int64), ("outputs", c_int64), ("weight", c_void_p), ("bias", c_void_p)]


class NormFields(Structure):
    """``struct norm``."""

    _fields_ = [("weight", c_void_p), ("bias", c_void_p), ("eps", c_double)]


class AttentionFields(Structure):
    """``struct attention``."""

    _fields_ = [
        *((name, c_int64) for name in ("heads", "kernel", "above", "left")),
        *((name, c_double) for name in ("scale", "own_weight", "previous_weight", "beta")),
        *((name, c_void_p) for name in ("previous_weights", "weight", "bias")),
        *((name, LinearFields) for name in ("input", "key", "value", "output")),
        ("norm", NormFields),
    ]


class LayerFields(Structure):
    """``struct layer``."""

    _fields_ = [
        *((name, AttentionFields) for name in ("self_attention", "cross_attention")),
        *((name, LinearFields) for name in ("up", "down")),
        ("norm", NormFields),
    ]


class StackFields(Structure):
    """``struct stack``."""

    _fields_ = [
        *((name, c_int64) for name in ("layers", "width", "normalize_before")),
        ("layer", POINTER(LayerFields)),
        *((name, c_void_p) for name in ("embeddings", "positions")),
        *((name, NormFields) for name in ("embedding_norm", "final_norm")),
    ]


class TranslationFields(Structure):
    """``struct translation``."""

    _fields_ = [
        *((name, StackFields) for name in ("encoder", "decoder")),
        ("vocabulary", LinearFields),
        ("sentences", c_int64),
        *((name, c_void_p) for name in ("source", "begins")),
        *((name, c_int64) for name in ("beam", "min_len", "max_len")),
        *((name, c_double) for name in ("unk_penalty", "temperature")),
        *((name, c_int64) for name in ("first", "eos", "pad", "unk", "ngram", "prefix_length", "suppressed_words")),
        *((name, c_void_p) for name in ("prefix", "suppressed", "tokens", "scores", "lengths", "parallel")),
        ("threads", c_int64),
    ]
