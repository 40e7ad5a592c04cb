"""What the scripts for experiments share: trainings, scores, tables, figures.

A script takes what it needs from here before anything else. Python puts the folder of a script first on its path, and
there `profile.py` would hide Python's own module of that name; so that folder makes way here for the plugin and for
the steps of data-prep, of which the scripts use a few.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1]
REPOSITORY = SCRIPTS.parent

sys.path[:] = [folder for folder in sys.path if not (folder and Path(folder).resolve() == SCRIPTS)]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "data-prep" / "corpus")]
sys.path.append(str(REPOSITORY / "ea_fairseq" / "plain"))
__path__.append(str(REPOSITORY / "ea_fairseq" / "plain"))  # as parts of this package, without PyTorch and fairseq

if find_spec("sacrebleu") is None:
    sys.exit(
        f"{Path(sys.argv[0]).stem}: this Python does not have what the project needs: activate the environment that it "
        "is installed in, such as with 'source .venv/bin/activate'."
    )
