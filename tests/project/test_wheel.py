"""What a wheel of the project installs works without its checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from importlib.metadata import distribution
from pathlib import Path

import fairseq
import pytest

from commands import ROOT, SIZES
from corpora import LANGUAGES, write_corpus
from needs import COMPILERS

RECIPE = f"""
[train]
--arch ea_transformer
{chr(10).join(f"{flag} {value}" for flag, value in zip(SIZES[::2], SIZES[1::2], strict=True))}
--optimizer adam
--lr 1e-3
--criterion label_smoothed_cross_entropy
--max-tokens 200
--max-update 4
--disable-validation
--cpu
--seed 1
[evaluate]
--beam 2
"""
IMPORT_USER_DIR = """
from argparse import Namespace
from fairseq import models, utils
utils.import_user_module(Namespace(user_dir="ea_fairseq"))
print(models.ARCH_MODEL_REGISTRY["ea_transformer"].__name__)
"""
SCRIPT = "#!{python}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """A copy of what git has of the package and of what builds it, so that building leaves nothing in the checkout."""
    names = ["ea_fairseq", "setup.py", "pyproject.toml", "README.md", "LICENSE"]
    try:
        listed = subprocess.run(["git", "ls-files", "-z", *names], cwd=ROOT, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("needs git and a checkout of it, which knows the files that the wheel must have")
    copy = tmp_path_factory.mktemp("a checkout")
    for name in filter(None, listed.stdout.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy / name)
    return copy


def package_files(folder: Path) -> set[str]:
    """The files of the package in a folder that it is in."""
    return {str(path.relative_to(folder)) for path in (folder / "ea_fairseq").rglob("*") if path.is_file()}


def built(sources: Path, *command: str) -> None:
    result = subprocess.run([sys.executable, "setup.py", "-q", *command], cwd=sources, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_wheel_has_every_file_of_the_package(sources, tmp_path):
    built(sources, "build_py", "--build-lib", str(tmp_path))
    assert package_files(tmp_path) == package_files(sources)


def test_python_314_alone_imports_the_fix_of_fairseq_when_it_starts(sources, tmp_path):
    built(sources, "build_py", "--build-lib", str(tmp_path))
    start = f"import site, sys; site.addsitedir({str(tmp_path)!r}); print('ea_fairseq_python314' in sys.modules)"
    shown = subprocess.run([sys.executable, "-P", "-c", start], capture_output=True, text=True, check=True).stdout
    assert shown == f"{sys.version_info >= (3, 14)}\n"


def test_a_source_distribution_has_all_that_builds_a_wheel(sources, tmp_path):
    built(sources, "egg_info", "--egg-base", str(tmp_path), "sdist", "--dist-dir", str(tmp_path))
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert package_files(sources) | {"setup.py", "pyproject.toml", "README.md", "LICENSE"} <= names


@pytest.fixture(scope="module", params=COMPILERS or ["cc"])
def installed(request, sources, tmp_path_factory):
    """Runs a program of an environment that has the wheel, and otherwise the packages of this one.

    Each compiler in turn has compiled its native code.
    """
    place = tmp_path_factory.mktemp("away")
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--wheel-dir", place]
    subprocess.run([*wheel, sources], env={**os.environ, "CC": request.param}, check=True)
    (package,) = place.glob("*.whl")
    venv.create(place / "env", with_pip=False)
    python = place / "env/bin/python"
    layout = sysconfig.get_paths(vars={"base": str(place / "env"), "platbase": str(place / "env")})
    Path(layout["purelib"], "others.pth").write_text(sysconfig.get_path("purelib"))
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", package]
    subprocess.run(install, check=True)
    for entry in distribution("fairseq-fixed").entry_points.select(group="console_scripts"):
        script = python.with_name(entry.name)
        script.write_text(SCRIPT.format(python=python, module=entry.module, function=entry.attr))
        script.chmod(0o755)
    work = place / "work"
    work.mkdir()

    def run(program: str, *arguments: object, stdin: str | None = None, **variables: str) -> str:
        command = [python.with_name(program), *map(str, arguments)]
        environment = {
            "PATH": f"{python.parent}:/usr/bin:/bin",
            "HOME": str(place),
            "OMP_NUM_THREADS": "1",
            **variables,
        }
        done = subprocess.run(command, cwd=work, env=environment, input=stdin, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    run.work, run.packages, run.compiler = work, Path(layout["purelib"]), request.param
    return run


@pytest.mark.slow
def test_the_package_is_that_of_the_wheel_with_its_native_code(installed):
    package = installed.packages / "ea_fairseq"
    assert installed("python", "-c", "import ea_fairseq; print(ea_fairseq.__file__)") == f"{package}/__init__.py\n"
    modules = {path.relative_to(ROOT) for path in (ROOT / "ea_fairseq").rglob("*.py")}
    found = {path.relative_to(package.parent) for path in package.rglob("*") if path.suffix in (".py", ".so")}
    libraries = {path for path in found if path.name.startswith("_native")}
    assert found - libraries == modules and len(libraries) == 1
    told = installed("ea-fairseq", "info")
    assert f", in ~/{package.relative_to(installed.work.parent)}\n" in told
    assert f", compiled with {installed.compiler} " in told
    assert told.endswith("Nothing is missing.\n")


@pytest.mark.slow
def test_what_a_compiler_makes_passes_the_tests_of_the_native_code(installed, tmp_path):
    for name in ("tests", "scripts", "data-prep"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    files = ["tests/kernels/test_native_attention.py", "tests/decoding/test_decoding.py"]
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(installed.packages)}
    tested = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert tested.returncode == 0 and " skipped" not in tested.stdout, tested.stdout + tested.stderr


@pytest.mark.slow
def test_the_user_dir_is_found_from_anywhere(installed):
    """Where fairseq is installed beside it, whose files stand here as links."""
    beside = installed.packages / "fairseq"
    beside.mkdir()
    for entry in os.scandir(fairseq.__path__[0]):
        (beside / entry.name).symlink_to(entry.path)
    for first in ("", "import ea_fairseq"):
        assert installed("python", "-c", first + IMPORT_USER_DIR) == "EATransformerModel\n"
    shutil.rmtree(beside)


@pytest.mark.slow
def test_a_corpus_is_prepared_and_a_model_trained_evaluated_reported_and_used(installed):
    write_corpus(installed.work / "a corpus")
    (installed.work / "small.recipe").write_text(RECIPE)
    installed(
        "ea-fairseq", "prepare", "corpus", *LANGUAGES, "--merges", 20, "--joined-dictionary", "a corpus", "prepared"
    )
    installed("ea-fairseq", "train", "small.recipe", "--data", "prepared/data-bin", "--out", "run")
    installed("ea-fairseq", "evaluate", "prepared/data-bin", "run")
    installed("ea-fairseq", "report", "--out", "report", "run/evaluation")
    assert (installed.work / "report/report.html").is_file()
    lines = installed("ea-fairseq", "translate", "run", stdin="Der Hund schläft.\n\nDie Katze läuft.\n").split("\n")
    assert len(lines) == 4 and lines[0] and not lines[1]


@pytest.mark.slow
def test_fairseqs_own_commands_take_its_folder(installed):
    write_corpus(installed.work / "text")
    splits = [word for split in ("train", "valid") for word in (f"--{split}pref", f"text/{split}")]
    installed("fairseq-preprocess", "-s", "de", "-t", "en", *splits, "--destdir", "binary")
    training = ["--user-dir", installed.packages / "ea_fairseq", "--arch", "ea_transformer", *SIZES]
    training += ["--optimizer", "adam", "--lr", "1e-3", "--cpu", "--max-tokens", 200, "--max-update", 2]
    installed("fairseq-train", "binary", *training, "--disable-validation", "--save-dir", "out", EA_BACKEND="native")
    assert (installed.work / "out/checkpoint_last.pt").is_file()
