"""What precisions cost a model on a development set: ``precisions.json``, which ``ea-fairseq precisions`` writes."""

import logging
import math
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path

from ea_fairseq.plain.files import own_file
from ea_fairseq.plain.records import MEGABYTE, as_record, read_json, written_by

NAME = "precisions.json"  # in the folder of the checkpoint
LARGEST_LOSS = 0.1  # of BLEU, with which --native-fast takes a precision
COMMAND = "ea-fairseq precisions"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PrecisionBleu:
    """BLEU of one checkpoint in each precision.

    Args:
        checkpoint: its sha256, in hexadecimal digits.
        subset: of the binarised data.
        bleu: by precision; float32 is one of them.
    """

    checkpoint: str
    subset: str
    bleu: dict[str, float]

    @classmethod
    def read(cls, checkpoint: Path) -> "PrecisionBleu | None":
        """What was measured of a checkpoint; None if nothing was.

        Raises:
            UserError: if the file beside it is not what the command writes.
        """
        path = checkpoint.with_name(NAME)
        if not path.exists():
            return None
        with written_by(COMMAND, path, "remove it"):
            found = as_record(cls, read_json(own_file(path, MEGABYTE)))
            if "float32" not in found.bleu:
                raise ValueError("it has no float32")
        return found if found.checkpoint == digest(checkpoint) else None

    def loss(self, precision: str) -> float:
        """BLEU less than in float32, to two digits; infinite if the precision was not measured."""
        return round(self.bleu["float32"] - self.bleu.get(precision, -math.inf), 2)


def digest(checkpoint: Path) -> str:
    """The sha256 of a checkpoint, in hexadecimal digits."""
    with checkpoint.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def accurate(precisions: tuple[str, ...], checkpoint: Path) -> tuple[str, ...]:
    """Those of some precisions that cost at most LARGEST_LOSS, or all of them if that was not measured; logs it."""
    measured = PrecisionBleu.read(checkpoint)
    if measured is None:
        logger.warning(f"what other precisions cost in BLEU is not known of {checkpoint}: {COMMAND} measures it")
        return precisions
    scores = ", ".join(
        f"{measured.bleu[precision]:.2f} in {precision}" for precision in precisions if precision in measured.bleu
    )
    logger.warning(
        f"on {measured.subset}, BLEU of {checkpoint} is {scores}"
    )  # a warning, because translate logs no more
    return tuple(precision for precision in precisions if measured.loss(precision) <= LARGEST_LOSS)
