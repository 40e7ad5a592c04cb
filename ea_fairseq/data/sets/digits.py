"""scikit-learn's handwritten digits, as archives of images."""

import io
import tarfile
from argparse import Namespace
from pathlib import Path

from ea_fairseq.data import manifest
from ea_fairseq.data.data_set import DataSet
from ea_fairseq.data.manifest import sha256
from ea_fairseq.data.plan import Plan

SEED = 1  # of the split into training and test set
MOST = 16  # largest value of a pixel in scikit-learn's digits


class Digits(DataSet):
    """Digits of 8 x 8 pixels."""

    def prepare(self, options: Namespace) -> None:
        """Makes the archives, or prints the plan."""
        from ea_fairseq.images.archive import require_pillow  # imports torch

        require_pillow()
        plan = Plan()
        plan.add("data-bin", write_digits, SEED)
        self.carry_out(plan, self.output_folder(*options.given), options, strict=True)


def write_digits(output: Path) -> None:
    """Writes ``train.tar``, ``test.tar`` and their description into a new folder; a fifth of the digits is for test."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    parts = train_test_split(range(len(digits.target)), test_size=0.2, random_state=SEED, stratify=digits.target)
    chosen = dict(zip(("train", "test"), map(sorted, parts), strict=True))
    output.mkdir()
    for split, numbers in chosen.items():
        with tarfile.open(output / f"{split}.tar", "w") as archive:
            for number in numbers:
                image = png(digits.images[number] * (255 / MOST))
                member = tarfile.TarInfo(f"{split}/{digits.target[number]}/{number:04}.png")
                member.size = len(image)
                archive.addfile(member, io.BytesIO(image))
    found = {
        "settings": {"dataset": "prepare-digits"},
        "sources": [],
        "splits": {split: {"pairs": len(numbers), "steps": []} for split, numbers in chosen.items()},
        "dictionary_sizes": {},
        "files": {f"{split}.tar": f"sha256:{sha256(output / f'{split}.tar')}" for split in chosen},
    }
    manifest.write(output / manifest.MANIFEST, found)


def png(pixels) -> bytes:  # type: ignore[no-untyped-def]  # NumPy takes a while to import
    """Encodes a grey image (H, W) with values from 0 to 255 as PNG."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels.round().astype("uint8")).save(file, "PNG")
    return file.getvalue()


DATA_SET = Digits(
    name="digits",
    summary="scikit-learn's handwritten digits, small images to try models with",
    description="""\
Writes the 1,797 digits of 8 x 8 pixels that come with scikit-learn to OUT_DIR/data-bin, as archives for the task
image_prediction. A fifth of them is the test set.""",
    examples=("data/digits",),
    shared={"dry_run"},
    counts={"train": 1437, "test": 360},
)
