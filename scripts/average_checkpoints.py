"""Averages checkpoints: ``ea-fairseq average``; see --help."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    paths = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.execv(sys.executable, [sys.executable, "-P", "-m", "ea_fairseq", "average", *sys.argv[1:]])
