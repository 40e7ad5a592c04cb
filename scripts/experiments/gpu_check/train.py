"""fairseq-train for torchrun; imported by this package, fairseq does without scikit-learn and SciPy."""

import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[3])  # in place of this folder
    import_module("ea_fairseq")
    import_module("fairseq_cli.train").cli_main()
