"""``ea-fairseq info``: versions, the backend that computes attention, and what is missing, for bug reports.

It also works without fairseq and torch, and then reports that they are missing.
"""

import os
import platform
import re
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ea_fairseq.errors import printable
from ea_fairseq.plain.commands import PROGRAM, Parser

PACKAGE = Path(__file__).parent
NEEDED = ("torch", "numpy", "sacrebleu", "sacremoses", "sentencepiece", "subword-nmt", "torchprofile")
USEFUL = ("triton", "matplotlib")  # on a GPU; for figures
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "MKL_NUM_THREADS")
DESCRIPTION = "Prints versions, the backend of evolving attention, and what is missing: paste it into a bug report."


def main() -> None:
    """Parses the command line and prints :func:`report`."""
    Parser("info", DESCRIPTION, f"{PROGRAM} info").parse_args()
    problem = None
    try:
        import_module("ea_fairseq.plugin")
    except Exception as error:
        problem = str(error)
    print(report(problem))


def report(problem: str | None = None) -> str:
    """Returns the report: one line per fact, one sentence per missing thing, and ``~`` for the home folder.

    Args:
        problem: why fairseq cannot be used, or None if it can.
    """
    computing, lacks = backend_facts()
    installed = {name: installed_version(name) for name in (*NEEDED, *USEFUL)}
    if torch := sys.modules.get("torch"):
        installed["torch"] = torch.__version__  # has the build, such as +cpu, which some wheels' versions lack
    blocks = [
        {
            "ea-fairseq": f"{installed_version('ea-fairseq') or 'not installed, imported from source'}, in {PACKAGE}",
            "Python": platform.python_version(),
            "fairseq": fairseq_versions() + (", cannot be used" if problem else ", works"),
            **{name: found or "not installed" for name, found in installed.items()},
        },
        {"system": system(), "processor": processor(), **computing},
        {"models": "none: fairseq cannot be used"} if problem else models(),
    ]
    missing = [f"{name} is not installed: pip install {name}" for name in NEEDED if not installed[name]]
    sentences = [*([f"fairseq cannot be used: {problem}"] if problem else []), *missing, *lacks]
    table = "\n\n".join("\n".join(f"{name:15} {fact}" for name, fact in block.items()) for block in blocks)
    end = "\n".join(["Missing or wrong:", *(f"- {one}" for one in sentences)]) if sentences else "Nothing is missing."
    return without_home(f"{table}\n\n{end}")


def installed_version(package: str) -> str | None:
    """Returns a package's version by its name on PyPI, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def fairseq_versions() -> str:
    """Returns name and version of the installed packages that provide a module ``fairseq``."""
    versions = {name: installed_version(name) for name in ("fairseq-fixed", "fairseq")}
    return " and ".join(f"{name} {found}" for name, found in versions.items() if found) or "not installed by pip"


def system() -> str:
    """Returns operating system, kernel, architecture and C library."""
    return " ".join([platform.system(), platform.release(), platform.machine(), *platform.libc_ver()])


def processor() -> str:
    """Returns the processor's name and the number of cores that this process may use."""
    return f"{processor_name()}, {len(cores())} core{'s' * (len(cores()) != 1)}"


def processor_name() -> str:
    """Returns the processor's name or, if it is unknown, the architecture."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def cores() -> set[int]:
    """Returns the indices of the cores that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def backend_facts() -> tuple[dict[str, str], list[str]]:
    """Returns facts about the backend (threads, GPUs, native code) and a sentence for each part that is missing."""
    try:
        import torch
        from torch._subclasses import FakeTensorMode

        from ea_fairseq.kernels import check_records, dispatch
        from ea_fairseq.kernels.cpu import native_library
    except Exception as error:
        return {"native code": f"unknown: torch cannot be used ({error})"}, []
    limits = [f"{name}={printable(os.environ[name])}" for name in THREAD_VARIABLES if name in os.environ]
    facts = {
        "threads": ", ".join([str(torch.get_num_threads()), *limits]),
        "GPU": gpus(),
        "EA_BACKEND": printable(dispatch.backend) if "EA_BACKEND" in os.environ else "not set",
        "native code": native_code(),
        "attention by": dispatch.backend_name(torch.empty(0)),
    }
    if torch.cuda.is_available():
        with FakeTensorMode():  # a faulty GPU must not end the report
            facts["attention by"] += f", {dispatch.backend_name(torch.empty(0, device='cuda'))} on the GPU"
    facts["kernel checks"], wrong = check_records.report()
    refusal = dispatch.refusal()
    if not refusal and native_library.WHY_NOT:
        refusal = f"{native_library.WHY_NOT}; {native_library.remedy()}"
    return facts, [*([refusal] if refusal else []), *wrong]


def gpus() -> str:
    """Returns the names of the GPUs that CUDA lists, or why it lists none."""
    import torch

    try:
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    except (AssertionError, RuntimeError) as error:
        return f"cannot be used ({str(error).partition(chr(10))[0]})"
    return ", ".join(names) or "none"


def native_code() -> str:
    """Returns the native library's instruction set, compiler and threads, or a note that there is none."""
    from ea_fairseq.kernels.cpu import native_library

    if native_library.LIBRARY is None:
        return "none: evolving attention runs in plain PyTorch, slower" if native_library.WHY_NOT else "not loaded"
    compiler = native_library.Interface.of(native_library.LIBRARY).compiler.decode().strip()
    threads = "torch's threads" if native_library.parallel() else "one thread: torch's OpenMP was not found"
    return f"{native_library.instruction_set()}, compiled with {compiler}, {threads}"


def models() -> dict[str, str]:
    """Returns the names of the models that this package registers with fairseq, by purpose."""
    from fairseq.models import MODEL_REGISTRY

    kinds = {
        "graphs": ("gat",),
        "time series": ("dc_transformer", "time_series_lstm", "time_series_gru", "time_series_resnet"),
        "images": ("vit", "resnet", "_image"),
        "classifiers": ("_classifier",),
        "encoders": ("_roberta", "_bert"),
        "text to text": ("t5",),
        "translation": ("",),
    }
    found: dict[str, list[str]] = {kind: [] for kind in reversed(kinds)}
    for name, model in sorted(MODEL_REGISTRY.items()):
        if model.__module__.startswith(f"{__package__}."):
            found[next(kind for kind, endings in kinds.items() if name.endswith(endings))].append(name)
    return {kind: ", ".join(names) for kind, names in found.items()}


def without_home(text: str) -> str:
    """Replaces the home folder, which may contain the user's name, by ``~``."""
    try:
        home = os.fspath(Path.home())
    except RuntimeError:
        return text
    return text if home == "/" else re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
