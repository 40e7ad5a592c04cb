"""What Python and the native code for CPUs have to agree on: the structs of a call, and how a library tells its own."""

from ctypes import CDLL, Structure, c_char_p, c_double, c_int64, c_void_p, sizeof
from pathlib import Path
from zlib import crc32

from ea_fairseq.kernels.cpu.translation_fields import TranslationFields

VERSION = 5  # that of interface.c


class CallFields(Structure):
    """``struct fused_arguments`` of fused_arguments.h."""

    _fields_ = [
        *((name, c_int64) for name in ("sentences", "heads", "queries", "keys", "kernel", "above", "left")),
        *((name, c_double) for name in ("scale", "own_weight", "previous_weight", "beta")),
        ("bf16", c_int64),
        *((name, c_void_p) for name in ("scores", "previous", "logits", "probabilities", "conv_input", "relu_mask")),
        *((name, c_void_p) for name in ("weight", "bias", "padded_keys", "padded_queries", "future")),
        *((name, c_void_p) for name in ("d_logits", "d_probabilities", "d_scores", "d_previous")),
        *((name, c_void_p) for name in ("d_weight", "d_bias")),
        *((name, c_int64) for name in ("head_dim", "query_stride", "key_stride")),
        *((name, c_void_p) for name in ("query", "key", "value", "d_attended", "attended", "logsumexp")),
        *((name, c_void_p) for name in ("d_query", "d_key", "d_value")),
        ("parallel", c_void_p),
        ("threads", c_int64),
    ]


class StepFields(Structure):
    """``struct step`` of step.h."""

    _fields_ = [
        *((name, c_int64) for name in ("rows", "heads", "head_dim", "keys", "kernel", "above", "left")),
        *((name, c_double) for name in ("scale", "own_weight", "previous_weight", "beta")),
        ("stride", c_int64),
        *((name, c_void_p) for name in ("query", "new_key", "new_value", "key", "value")),
        ("slots", c_int64),
        ("back_pointers", c_void_p),
        *((name, c_int64) for name in ("steps", "now")),
        *((name, c_void_p) for name in ("sentence", "padded_keys", "padded_queries", "weight", "bias", "conv_input")),
        *((name, c_int64) for name in ("conv_slots", "room")),
        *((name, c_void_p) for name in ("previous", "logits", "probabilities", "output", "parallel")),
        ("threads", c_int64),
    ]


FUNCTIONS = {
    "evolve": CallFields,
    "evolve_backward": CallFields,
    "attend": CallFields,
    "attend_backward": CallFields,
    "decode": StepFields,
    "translate": TranslationFields,
}


class Interface(Structure):
    """``ea_fairseq_interface`` of interface.c."""

    _fields_ = [
        *((name, c_int64) for name in ("version", "fused_arguments", "step", "translation", "sources")),
        ("compiler", c_char_p),
    ]

    @classmethod
    def of(cls, library: CDLL) -> "Interface":
        """What a library tells of itself, without calling any of it.

        Raises:
            ValueError: where it tells nothing.
        """
        return cls.in_dll(library, "ea_fairseq_interface")

    def fits(self, sources: int) -> bool:
        """Whether the library may be called; ``sources`` is the checksum of those at hand, 0 where none are."""
        layout = self.version, self.fused_arguments, self.step, self.translation
        return layout == (VERSION, *map(sizeof, (CallFields, StepFields, TranslationFields))) and (
            not sources or self.sources in (0, sources)
        )


def checksum(sources: Path) -> int:
    """Of the C files in a folder, as in setup.py; 0 where there are none."""
    return crc32(b"".join(path.read_bytes() for path in sorted(sources.glob("*.[ch]"))))
