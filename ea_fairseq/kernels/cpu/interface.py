"""The interface of the native code for CPUs: the struct that each function takes, and the check that a library fits."""

from ctypes import CDLL, Structure, c_char_p, c_int64, sizeof
from pathlib import Path
from zlib import crc32

from ea_fairseq.kernels.cpu.structs import STRUCTS

VERSION = 10  # must equal the version in interface.c

LAYOUT = ("fused_arguments", "step", "vectors", "dropout", "translation")  # structs whose sizes a library tells
FUNCTIONS = {
    "evolve": STRUCTS["fused_arguments"],
    "evolve_backward": STRUCTS["fused_arguments"],
    "attend": STRUCTS["fused_arguments"],
    "attend_backward": STRUCTS["fused_arguments"],
    "decode": STRUCTS["step"],
    "norm": STRUCTS["vectors"],
    "norm_backward": STRUCTS["vectors"],
    "dropout": STRUCTS["dropout"],
    "translate": STRUCTS["translation"],
}


class Interface(Structure):
    """The struct ``ea_fairseq_interface`` of interface.c."""

    _fields_ = [
        *((name, c_int64) for name in ("version", *LAYOUT, "sources")),
        ("compiler", c_char_p),
    ]

    @classmethod
    def of(cls, library: CDLL) -> "Interface":
        """The interface of a library, which is read without calling a function.

        Raises:
            ValueError: if the library has none.
        """
        return cls.in_dll(library, "ea_fairseq_interface")

    def fits(self, sources: int) -> bool:
        """Whether the library may be called, given the checksum of the C files beside it, 0 if there are none."""
        layout = all(getattr(self, name) == sizeof(STRUCTS[name]) for name in LAYOUT)
        return self.version == VERSION and layout and (not sources or self.sources in (0, sources))


def checksum(sources: Path) -> int:
    """The checksum of the C files in a folder, as in setup.py; 0 if there are none."""
    return crc32(b"".join(path.read_bytes() for path in sorted(sources.glob("*.[ch]"))))
