"""COMET of translations (Rei et al., EMNLP 2020), by the program ``comet-score`` of the package unbabel-comet.

The program has a Python environment of its own: the package needs NumPy 1 and protobuf 4, and this one is tested with
later versions.
"""

import json
import os
import shutil
import statistics
import subprocess
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.scoring.results import LARGEST_TEXT, Score
from ea_fairseq.plain.files import own_file, write_whole
from ea_fairseq.plain.records import as_record, read_json, written_by

NAME, FILE = "COMET", "comet.json"
PROGRAM, VARIABLE = "comet-score", "COMET_SCORE"
OPTIONS, WEIGHTS = "hparams.yaml", "checkpoints/model.ckpt"
# Nothing is downloaded, and the pickle of a checkpoint builds nothing but tensors and plain values.
SAFE = {"HF_HUB_OFFLINE": "1", "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}
VERSION = "import importlib.metadata; print(importlib.metadata.version('unbabel-comet'))"


@dataclass(frozen=True)
class CometModel:
    """A model in a folder, and the program that scores with it.

    Args:
        version: of unbabel-comet.
    """

    folder: Path
    program: Path
    version: str

    @classmethod
    def find(cls, folder: Path) -> "CometModel":
        """Finds the model of ``--comet``; raises UserError if it or the program is missing."""
        for name in (OPTIONS, WEIGHTS):
            if not (folder / name).is_file():
                raise UserError(f"--comet: there is no {folder / name}: give the folder of a COMET model.")
        found = shutil.which(os.environ.get(VARIABLE, PROGRAM))
        if found is None:
            raise UserError(
                f"--comet needs the program {PROGRAM}, and there is none: install unbabel-comet in a Python "
                f"environment of its own, and give the path of its {PROGRAM} as the variable {VARIABLE}."
            )
        program = Path(found).resolve()
        try:
            asked = [str(program.with_name("python")), "-I", "-c", VERSION]
            version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            raise UserError(f"{found} is not in the Python environment of unbabel-comet: set {VARIABLE}.") from None
        return cls(folder.resolve(), program, version)

    def command(self, texts: dict[str, Path], output: Path, cpu: bool) -> list[str]:
        """Returns the command that scores the files of ``source``, ``translation`` and ``reference`` into a file."""
        given = [f"--{name}s={path}" for name, path in texts.items()]
        where = [f"--model={self.folder / WEIGHTS}", f"--to_json={output}", f"--gpus={0 if cpu else 1}"]
        return [str(self.program), *given, *where, "--only_system", "--quiet"]


def environment() -> dict[str, str]:
    """The environment variables of the program; the user's have priority, except PYTHONPATH."""
    return SAFE | os.environ | {"PYTHONPATH": ""}


@dataclass(frozen=True)
class CometScores:
    """The COMET scores of translations.

    Args:
        model: the name of its folder.
        version: of unbabel-comet.
        scores: of the sentences; those of most models are from 0 to 1.
    """

    model: str
    version: str
    scores: list[float]

    @classmethod
    def of_program(cls, model: CometModel, written: Path, sentences: int) -> "CometScores":
        """Reads what the program wrote; raises UserError if it is not one score for each sentence."""
        try:
            (found,) = json.loads(written.read_text(encoding="utf-8")).values()
            scores = [float(sentence[NAME]) for sentence in found]
            if len(scores) != sentences or not all(map(isfinite, scores)):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, OSError):
            raise UserError(f"{model.program} did not write a score for each of the {sentences} sentences.") from None
        return cls(model.folder.name, model.version, scores)

    @classmethod
    def read(cls, folder: Path) -> "CometScores":
        """Reads comet.json next to results.json; raises UserError if it is missing or invalid."""
        path = folder / FILE
        if not path.is_file():
            raise UserError(f"there is no {path}: evaluate the model again, with --comet.")
        with written_by("ea-fairseq evaluate --comet", path, "evaluate the model again"):
            found = as_record(cls, read_json(own_file(path, LARGEST_TEXT), LARGEST_TEXT))
            if not found.scores or not all(map(isfinite, found.scores)):
                raise ValueError("'scores' must be finite")
            return found

    def write(self, path: Path) -> None:
        """Writes the scores as JSON."""
        write_whole(path, json.dumps(asdict(self)) + "\n")

    @property
    def counts(self) -> list[list[float]]:
        """For each sentence, its score in points and 1; the ratio of their sums is the score of all sentences."""
        return [[100 * score, 1.0] for score in self.scores]

    @property
    def score(self) -> Score:
        """The score of all sentences: the mean, times 100."""
        mean = statistics.fmean(self.scores)
        detail = f"{mean:.4f}, the mean of {len(self.scores):,} sentences"
        return Score(round(100 * mean, 2), detail, f"unbabel-comet {self.version}, {self.model}")
