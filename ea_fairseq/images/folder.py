"""A folder of images: ``train.tar``, ``test.tar`` and perhaps ``valid.tar``, or ``.tar.gz``."""

import hashlib
import logging
from pathlib import Path

import numpy as np

from ea_fairseq.images.archive import ImageSet, read_archive
from ea_fairseq.plain.files import replacing
from ea_fairseq.plain.output_folder import wait_for_lock
from ea_fairseq.plain.split_folder import SplitFolder

logger = logging.getLogger(__name__)


class ImageFolder(SplitFolder[ImageSet]):
    """The archives of a folder; each is read once, when it is needed.

    Args:
        cache: folder for decoded images, which is made if necessary; None decodes the archives in each process.
    """

    ending = "tar"

    def __init__(self, folder: str | Path, cache: str | Path | None = None):
        super().__init__(folder)
        self.cache = None if cache is None else Path(cache)

    def load(self, path: Path, split: str) -> ImageSet:
        """Reads the images of a split; raises UserError naming the member that is malformed."""
        return read_archive(path, split) if self.cache is None else cached(path, split, self.cache)


def cached(path: Path, split: str, cache: Path) -> ImageSet:
    """Returns the images of an archive from the cache, whose file has the archive's checksum in its name, or makes it.

    Raises:
        UserError: as :func:`read_archive` does.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    place = cache / f"{split}-{checksum}.npz"
    with (cache / "lock").open("a") as lock:  # several trainings may start at once
        wait_for_lock(lock, lambda: logger.info(f"waiting for another process that reads images into {cache}"))
        found = load(place, path)
        if found is None:
            found = read_archive(path, split)
            with replacing(place) as unfinished, unfinished.open("wb") as file:
                np.savez(file, images=found.images, labels=np.array(found.labels), targets=found.targets)
        return found


def load(place: Path, path: Path) -> ImageSet | None:
    """Reads a file of the cache, whose arrays have checksums.

    Args:
        path: the archive that it was made from.

    Returns:
        The images, or None if the file is missing or damaged.
    """
    try:
        with np.load(place, allow_pickle=False) as arrays:
            images, targets, labels = arrays["images"], arrays["targets"], tuple(arrays["labels"].tolist())
    except Exception:  # NumPy raises errors of many kinds for damage
        return None
    count = len(images) if images.ndim == 4 else -1
    is_sound = images.dtype == np.uint8 and targets.dtype == np.int64 and targets.shape == (count,) and count > 0
    return ImageSet(path, images, labels, targets) if is_sound and np.isin(targets, range(len(labels))).all() else None
