"""What Python and the native code for CPUs have to agree on: the structs of a call, and how a library tells its own."""

from ctypes import CDLL, Structure, c_char_p, c_int64, sizeof
from pathlib import Path
from zlib import crc32

from ea_fairseq.kernels.cpu.structs import STRUCTS

VERSION = 6  # that of interface.c

FUNCTIONS = {
    "evolve": STRUCTS["fused_arguments"],
    "evolve_backward": STRUCTS["fused_arguments"],
    "attend": STRUCTS["fused_arguments"],
    "attend_backward": STRUCTS["fused_arguments"],
    "decode": STRUCTS["step"],
    "translate": STRUCTS["translation"],
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
        sizes = (sizeof(STRUCTS[name]) for name in ("fused_arguments", "step", "translation"))
        return layout == (VERSION, *sizes) and (not sources or self.sources in (0, sources))


def checksum(sources: Path) -> int:
    """Of the C files in a folder, as in setup.py; 0 where there are none."""
    return crc32(b"".join(path.read_bytes() for path in sorted(sources.glob("*.[ch]"))))
