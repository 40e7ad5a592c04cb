"""The native code compiles with each compiler that is here, and what is installed works away from the checkout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from sysconfig import get_path

import pytest

from commands import PLUGIN, ROOT, run, run_well
from compilers import COMPILERS
from reversal import losses_of, train_command

NATIVE = ROOT / "ea_fairseq" / "kernels" / "cpu"


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_compiler_has_nothing_to_say_of_the_native_code(compiler, tmp_path):
    sources = sorted(NATIVE.glob("*.c"))
    flags = ["-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-fPIC", "-c"]
    compiled = subprocess.run([compiler, *flags, *sources], cwd=tmp_path, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    assert len(list(tmp_path.glob("*.o"))) == len(sources)


@pytest.fixture
def sources(tmp_path):
    """What installing reads, in a folder of its own; nothing of the native code but a file that compiles at once."""
    for name in ("setup.py", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    native = tmp_path / "ea_fairseq" / "kernels" / "cpu"
    native.mkdir(parents=True)
    for name in ("instruction_set.c", "translation.h", "evolution_fields.h", "workers.h"):
        shutil.copy(NATIVE / name, native)
    return tmp_path


def build(folder: Path, compiler: str) -> tuple[str, list[Path]]:
    """What building says, and the libraries that it leaves."""
    result = run(Path(sys.executable).name, "setup.py", "-q", "build_ext", "--inplace", cwd=folder, CC=compiler)
    assert result.returncode == 0, result.stderr
    return result.stdout, list((folder / "ea_fairseq").rglob("*.so"))


@pytest.mark.parametrize(
    ("compiler", "reason"), [("false", "false failed, see above"), ("no-such-compiler", "there is no no-such-compiler")]
)
def test_installing_needs_no_compiler_and_says_so(sources, compiler, reason):
    said, libraries = build(sources, compiler)
    assert said == f"native code NOT compiled ({reason}): evolving attention will run in plain PyTorch, slower\n"
    assert libraries == []


@pytest.mark.parametrize("compiler", COMPILERS)
def test_installing_says_what_it_compiled_with_and_replaces_a_library_that_looks_newer(sources, compiler):
    library = sources / "ea_fairseq" / "kernels" / "cpu" / "_native.so"
    library.write_bytes(b"")
    said, libraries = build(sources, compiler)
    assert said == f"native code compiled with {compiler}\n"
    assert libraries == [library]
    assert library.stat().st_size > 0


@pytest.fixture(scope="module", params=COMPILERS)
def installed(request, tmp_path_factory):
    """A compiler and an environment's folder of packages with the package as a wheel brings it, far from the checkout.

    Of the environment of the tests it sees the packages, but not this one, which an editable installation adds there.
    """
    sources, wheels, home = (tmp_path_factory.mktemp(name) for name in ("sources", "wheels", "an environment"))
    for name in ("setup.py", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, sources)
    compiled = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "ea_fairseq", sources / "ea_fairseq", ignore=compiled)
    pip = (Path(sys.executable).name, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run_well(*pip, "wheel", sources, "--no-deps", "--no-build-isolation", "-w", wheels, cwd=wheels, CC=request.param)
    run_well(Path(sys.executable).name, "-m", "venv", "--without-pip", home, cwd=home)
    python = home / "bin" / "python"
    run_well(*pip, "--python", python, "install", "--no-deps", *wheels.glob("*.whl"), cwd=wheels)
    (target,) = home.glob("lib/*/site-packages")
    (target / "dependencies.pth").write_text(f"{get_path('purelib')}\n")
    return request.param, target


@pytest.mark.slow
def test_a_wheel_has_all_modules_and_works_with_its_native_code(installed):
    compiler, target = installed
    modules = {path.relative_to(ROOT) for path in (ROOT / "ea_fairseq").rglob("*.py")}
    found = {path.relative_to(target) for path in (target / "ea_fairseq").rglob("*") if path.suffix in (".py", ".so")}
    libraries = {path for path in found if path.name.startswith("_native")}
    assert found - libraries == modules
    assert len(libraries) == 1
    told = run_well(Path(sys.executable).name, "-P", "-m", "ea_fairseq", cwd=target.parent, PYTHONPATH=str(target))
    assert f", in {target / 'ea_fairseq'}\n" in told
    assert f", compiled with {compiler} " in told
    assert told.endswith("Nothing is missing.\n")


@pytest.mark.slow
def test_fairseq_train_of_a_clean_environment_trains_with_the_installed_native_code(installed, home):
    compiler, target = installed
    _, *arguments = map(str, train_command(f"run of {compiler}", 5))
    arguments[arguments.index(str(PLUGIN))] = str(target / "ea_fairseq")
    environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "EA_BACKEND": "native"}
    command = [target.parents[2] / "bin" / "python", "-P", "-m", "fairseq_cli.train", *arguments]
    trained = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True)
    assert trained.returncode == 0, trained.stderr
    assert len(losses_of(trained.stdout + trained.stderr)) == 5
    where = subprocess.run([*command[:2], "-c", "import ea_fairseq; print(ea_fairseq.__file__)"], capture_output=True)
    assert where.stdout.decode().splitlines()[-1] == str(target / "ea_fairseq" / "__init__.py")


@pytest.mark.slow
def test_what_a_compiler_makes_passes_the_tests_of_the_native_code(installed, tmp_path):
    _, target = installed
    for name in ("tests", "scripts", "data-prep"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    files = ["tests/kernels/test_native_attention.py", "tests/decoding/test_decoding.py"]
    command = (Path(sys.executable).name, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *files)
    said = run_well(*command, cwd=tmp_path, PYTHONPATH=str(target))
    assert " skipped" not in said
