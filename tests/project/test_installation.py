"""``python -m ea_fairseq`` tells of every installation, also of a broken one."""

import platform
import sys
from pathlib import Path

import pytest
import torch

from commands import PLUGIN, run, run_well
from ea_fairseq import installation
from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.kernels import check_records, triton
from ea_fairseq.kernels import dispatch as backend
from ea_fairseq.kernels.check_records import Record
from ea_fairseq.kernels.cpu import native_library
from ea_fairseq.kernels.cpu.native_library import LIBRARY

PYTHON = Path(sys.executable).name
BROKEN = {
    "fairseq": "raise ValueError('mutable default for field')",
    "torch": "raise OSError('libcudart.so.12: cannot open shared object file')",
}


def rows(text: str) -> dict[str, str]:
    """Facts by name."""
    table = text.partition("Missing or wrong:")[0].partition("Nothing is missing.")[0]
    return {line[:15].strip(): line[16:] for line in table.splitlines() if line}


def told(*arguments, **environment) -> str:
    return run_well(PYTHON, "-P", "-m", "ea_fairseq", *arguments, cwd=Path("/"), **environment)


def test_it_tells_versions_and_who_computes():
    text = told(EA_BACKEND="auto", OMP_NUM_THREADS="1", HOME=str(PLUGIN.parents[1]))
    facts = rows(text)
    assert facts["ea-fairseq"].endswith(f", in ~/{PLUGIN.relative_to(PLUGIN.parents[1])}")
    assert facts["Python"] == platform.python_version()
    assert facts["torch"] == torch.__version__
    assert facts["fairseq"] == "fairseq-fixed 0.12.3.1, works"
    assert facts["threads"] == "1, OMP_NUM_THREADS=1"
    assert facts["EA_BACKEND"] == "auto"
    families = [
        name for name, family in FAMILIES.items() if family.attention.__module__.startswith("ea_fairseq.mechanisms.")
    ]
    assert facts["translation"] == ", ".join(sorted([*families, "modern_transformer"]))
    assert "ea_roberta" in facts["encoders"] and "pa_transformer_classifier" in facts["classifiers"]
    series, images = facts["time series"].split(", "), facts["images"].split(", ")
    assert {"ea_dc_transformer", "time_series_gru", "time_series_lstm", "time_series_resnet"} <= {*series}
    assert {"resnet", "ea_aa_resnet", "cnn_image", "vit"} <= {*images} and not [one for one in images if "time" in one]
    if LIBRARY:
        assert facts["native code"].startswith(f"{native_library.instruction_set()}, compiled with ")
        assert facts["attention by"].startswith("native code")
        assert text.endswith("\nNothing is missing.\n")


@pytest.mark.parametrize("broken", BROKEN)
def test_it_tells_of_what_cannot_be_imported(tmp_path, broken):
    (tmp_path / f"{broken}.py").write_text(BROKEN[broken])
    text = told(PYTHONPATH=str(tmp_path))
    facts = rows(text)
    assert facts["Python"] == platform.python_version()
    assert facts["fairseq"].endswith(", cannot be used")
    assert facts["models"] == "none: fairseq cannot be used"
    assert text.partition("Missing or wrong:\n")[2].startswith("- fairseq cannot be used: ")
    assert BROKEN[broken].split("'")[1] in text
    assert "Traceback" not in text


def test_only_the_command_overlooks_a_broken_fairseq(tmp_path):
    (tmp_path / "fairseq.py").write_text(BROKEN["fairseq"])
    result = run(PYTHON, "-P", "-c", "import ea_fairseq.plugin", cwd=Path("/"), PYTHONPATH=str(tmp_path))
    assert result.returncode == 1
    assert result.stdout == ""


def test_it_says_what_to_do_where_the_native_code_is_missing(monkeypatch):
    monkeypatch.setattr(backend, "backend", "auto")
    monkeypatch.setattr(native_library, "LIBRARY", None)
    monkeypatch.setattr(native_library, "WHY_NOT", "the native code was not compiled")
    text = installation.report()
    assert rows(text)["native code"].startswith("none")
    assert rows(text)["attention by"].startswith("plain PyTorch")
    assert "- the native code was not compiled; install ea_fairseq again where there is a C compiler: `pip" in text


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("fast\x1b", "must be auto, reference, native or triton, not 'fast\\x1b'"), ("triton", "pip install triton")],
)
def test_it_says_what_is_wrong_with_ea_backend(monkeypatch, name, sentence):
    monkeypatch.setattr(backend, "backend", name)
    monkeypatch.setattr(triton, "AVAILABLE", False)
    text = installation.report()
    assert text.partition("Missing or wrong:\n")[2].count("- ") == 1
    assert text.endswith(sentence)
    assert "\x1b" not in text


def test_it_tells_of_a_gpu(monkeypatch):
    monkeypatch.setattr(backend, "backend", "auto")
    monkeypatch.setattr(triton, "AVAILABLE", True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"GPU {index}")
    monkeypatch.setattr(check_records, "fingerprint", lambda device: "none")
    check_records.folder.cache_clear()
    facts = rows(installation.report())
    check_records.folder.cache_clear()
    assert facts["GPU"] == "GPU 0, GPU 1"
    assert facts["kernel checks"].startswith("0 kernels agree with PyTorch on GPU cuda:0, 0 do not; 0 kernels agree")
    assert facts["attention by"].endswith(", Triton on the GPU")

    def fail(index):
        raise RuntimeError("CUDA driver error\nmore of that")

    monkeypatch.setattr(torch.cuda, "get_device_name", fail)
    assert rows(installation.report())["GPU"] == "cannot be used (CUDA driver error)"


def test_it_tells_which_kernels_were_checked(monkeypatch, tmp_path):
    monkeypatch.setattr(backend, "backend", "triton")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    check_records.folder.cache_clear()
    for name, problem in (("one", ""), ("two", ""), ("three", "differs by 1")):
        Record.of(torch.device("cpu"), name).write({"kernel": f"kernel {name}", "problem": problem})
    text = installation.report()
    check_records.folder.cache_clear()
    assert rows(text)["kernel checks"] == "2 kernels agree with PyTorch on Triton's interpreter, 1 do not"
    assert text.endswith(
        "- on Triton's interpreter, Triton's kernel (kernel three) differs by 1; PyTorch computes instead"
    )


def test_it_names_packages_that_are_missing(monkeypatch):
    version = installation.installed_version
    monkeypatch.setattr(installation, "installed_version", lambda name: None if name == "sacrebleu" else version(name))
    text = installation.report()
    assert rows(text)["sacrebleu"] == "not installed"
    assert "\n- sacrebleu is not installed: pip install sacrebleu" in text


@pytest.mark.parametrize(
    ("home", "shown"),
    [("/home/ann", "~/x /home/anna/y"), ("/", "/home/ann/x /home/anna/y"), ("/home", "~/ann/x ~/anna/y")],
)
def test_the_home_folder_is_not_named(monkeypatch, home, shown):
    monkeypatch.setenv("HOME", home)
    assert installation.without_home("/home/ann/x /home/anna/y") == shown
