"""CIFAR-10 as archives of JPEG; every image is decoded."""

from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ea_fairseq.data import manifest
from ea_fairseq.data.data_set import DataSet
from ea_fairseq.data.manifest import sha256
from ea_fairseq.data.options import Option, folder
from ea_fairseq.data.plan import Plan
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import find_file

SPLITS = ("train", "test")
IMAGES = "read train.tar.gz and test.tar.gz (or .tar) in DIR, whose members are SPLIT/CLASS/NAME.jpg"
COUNTS = {"train": 50_000, "test": 10_000, "height": 32, "width": 32, "channels": 3, "classes": 10}  # Krizhevsky, 2009


class Images(DataSet):
    """Images with classes, in the archives of a folder."""

    def prepare(self, options: Namespace) -> None:
        """Prepares the data, or prints the plan.

        Raises:
            UserError: naming the option or the archive that is missing, or the image that is wrong.
        """
        (path,) = options.given
        output = self.output_folder(path)
        if options.images is None:
            raise UserError("give the folder of the archives with --images: no place is known to have them as JPEG.")
        archives = {split: find_file(options.images, f"{split}.tar") for split in SPLITS}
        plan = Plan()
        make, checksums = partial(take_images, archives=archives), [*map(sha256, archives.values())]
        plan.add("data-bin", make, checksums, size=sum(path.stat().st_size for path in archives.values()))
        self.carry_out(plan, output, options, strict=True)


def take_images(output: Path, *, archives: Mapping[str, Path]) -> None:
    """Checks, copies and describes archives in a new folder.

    Args:
        archives: archives by split.

    Raises:
        UserError: naming the archive and the image that is wrong, or a class that only the test set has.
    """
    from ea_fairseq.images.archive import read_archive
    from ea_fairseq.images.description import ImageDescription

    splits, known = {}, None
    for split, path in archives.items():
        try:
            read = read_archive(path, split)
        except UserError as error:
            raise UserError(f"{str(error).rstrip('.')}.") from None
        found = ImageDescription.of(read.images, read.labels)
        sizes = {"height": found.height, "width": found.width, "channels": found.channels, "classes": found.outputs}
        if known not in (None, (sizes, read.labels)):
            raise UserError(f"{path} has other sizes or classes than {archives['train']}.")
        known = sizes, read.labels
        splits[split] = {"pairs": len(read), "mean": found.mean, "deviation": found.deviation, "steps": []}
    output.mkdir()
    for path in archives.values():
        (output / path.name).write_bytes(path.read_bytes())
    description = {
        "settings": {"dataset": "prepare-cifar10"},
        "sources": [{"file": path.name, "sha256": sha256(path)} for path in archives.values()],
        "splits": splits,
        "dictionary_sizes": {},
        "images": sizes,
        "labels": read.labels,
        "files": manifest.checksums(output),
    }
    manifest.write(output / manifest.MANIFEST, description)


DATA_SET = Images(
    name="cifar10",
    summary="CIFAR-10, images of ten classes, as JPEG",
    description="""\
Decodes all images of train.tar.gz and test.tar.gz, whose members are files of JPEG or PNG, SPLIT/CLASS/NAME.jpg, counts
them, and copies the archives to OUT_DIR/data-bin for the task image_prediction. There must be 50,000 and 10,000 images
of 32 x 32 pixels in ten classes. As JPEG is lossy, results are not those of the original data.
If interrupted, run it again to resume.""",
    examples=("--images ~/cifar10 data/cifar10",),
    shared={"dry_run"},
    own=(Option("images", "DIR", None, IMAGES, folder),),
    counts=COUNTS,
)
