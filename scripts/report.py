"""Makes tables and figures of trained models' results: ``ea-fairseq report``; see --help."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    os.execv(sys.executable, [sys.executable, "-P", "-m", "ea_fairseq", "report", *sys.argv[1:]])
