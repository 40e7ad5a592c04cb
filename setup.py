from itertools import takewhile
from pathlib import Path
from shutil import which
from zlib import crc32

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

NATIVE = Path("ea_fairseq", "kernels", "cpu")
PYTHON314 = "ea_fairseq_python314"  # a module that Python 3.14 calls when it starts, see ea_fairseq/python314.py


class BuildPackage(build_py):
    """Also installs the module that Python 3.14 needs next to the package, in editable installations, too."""

    def run(self):
        super().run()
        place = self.get_finalized_command("install").install_lib if self.editable_mode else self.build_lib
        self.copy_file("ea_fairseq/python314.py", f"{place}/{PYTHON314}.py")
        start = f"import sys; sys.version_info >= (3, 14) and __import__('{PYTHON314}').install()\n"
        Path(place, f"{PYTHON314}.pth").write_text(start, encoding="utf-8")


class WheelForEveryPython(bdist_wheel):
    """Names the wheel after the platform only: ctypes loads the native code, which does not call Python."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class BuildNative(build_ext):
    """Compiles the native code, even over a library that looks newer, and says whether that worked."""

    def get_ext_filename(self, fullname):
        return f"{fullname.replace('.', '/')}.so"

    def finalize_options(self):
        super().finalize_options()
        self.force = True

    def build_extension(self, extension):
        compiler = " ".join(takewhile(lambda word: not word.startswith("-"), self.compiler.compiler_so)) or "C compiler"
        try:
            super().build_extension(extension)
        except Exception:
            reason = f"{compiler} failed, see above" if which(compiler.partition(" ")[0]) else f"there is no {compiler}"
            print(f"native code NOT compiled ({reason}): evolving attention will run in plain PyTorch, slower")
            raise  # an optional extension may fail
        print(f"native code compiled with {compiler}")


setup(
    ext_modules=[
        Extension(
            "ea_fairseq.kernels.cpu._native",
            sorted(map(str, NATIVE.glob("*.c"))),
            depends=sorted(map(str, NATIVE.glob("*.h"))),
            # With it, the package recognizes a library compiled from other sources, see kernels/cpu/interface.py.
            define_macros=[
                ("SOURCES", str(crc32(b"".join(path.read_bytes() for path in sorted(NATIVE.glob("*.[ch]"))))))
            ],
            extra_compile_args=["-O3", "-fvisibility=hidden", "-Wno-psabi"],
            libraries=["m"],
            optional=True,  # without a C compiler, everything works in PyTorch
        )
    ],
    cmdclass={"bdist_wheel": WheelForEveryPython, "build_ext": BuildNative, "build_py": BuildPackage},
)
