"""What a wheel of the project installs works without its checkout."""

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest

from commands import ROOT, SIZES
from corpora import LANGUAGES, write_corpus

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


@pytest.fixture(scope="module")
def installed(sources, tmp_path_factory):
    """Runs a program of an environment that has the wheel, and otherwise the packages of this one."""
    place = tmp_path_factory.mktemp("away")
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--wheel-dir", place]
    subprocess.run([*wheel, sources], check=True)
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

    def run(program: str, *arguments: object, stdin: str | None = None) -> str:
        command = [python.with_name(program), *map(str, arguments)]
        environment = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(place), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=work, env=environment, input=stdin, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    run.work = work
    return run


@pytest.mark.slow
def test_the_package_is_that_of_the_wheel_with_its_native_code(installed):
    package = Path(installed("python", "-c", "import ea_fairseq; print(ea_fairseq.__file__)").strip()).parent
    assert package.is_relative_to(installed.work.parent / "env")
    assert "compiled with" in installed("ea-fairseq", "info")


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
    package = Path(installed("python", "-c", "import ea_fairseq; print(ea_fairseq.__file__)").strip()).parent
    training = [
        "--user-dir",
        package,
        "--arch",
        "ea_transformer",
        *SIZES,
        "--optimizer",
        "adam",
        "--lr",
        "1e-3",
        "--cpu",
    ]
    installed(
        "fairseq-train",
        "binary",
        *training,
        "--max-tokens",
        200,
        "--max-update",
        2,
        "--disable-validation",
        "--save-dir",
        "out",
    )
    assert (installed.work / "out/checkpoint_last.pt").is_file()
