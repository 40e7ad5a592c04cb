"""Prints the packages that the check imports and this Python lacks, with their versions in a file of constraints.

It runs before anything is installed, so it imports nothing from this project.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

IMPORTED = (
    *("numpy", "yaml", "tqdm", "packaging", "omegaconf", "hydra", "antlr4", "bitarray", "regex", "portalocker"),
    *("tabulate", "colorama", "lxml", "sacrebleu", "joblib", "click", "sacremoses", "mock", "subword_nmt.apply_bpe"),
    "safetensors",
)
PACKAGES = {  # of modules with another name
    "fairseq": "fairseq-fixed",
    "hydra": "hydra-core",
    "antlr4": "antlr4-python3-runtime",
    "subword_nmt": "subword-nmt",
    "yaml": "PyYAML",
}


def missing() -> list[str]:
    """Returns modules that are missing, also as imports of others; fairseq is looked for, but not imported."""
    found = [] if find_spec("fairseq") else ["fairseq"]
    for module in IMPORTED:
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            found.append((error.name or module).partition(".")[0])
    return list(dict.fromkeys(found))


def main() -> None:
    """Reads the file of constraints, ``name==version`` per line; prints one package per line."""
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    versions = dict(line.split("==") for line in lines if "==" in line)
    for module in missing():
        package = PACKAGES.get(module, module)
        print(f"{package}=={versions[package]}" if package in versions else package)


if __name__ == "__main__":
    main()
