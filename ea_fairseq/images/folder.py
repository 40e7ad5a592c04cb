"""A folder of images: ``train.tar``, ``test.tar`` and perhaps ``valid.tar``, or ``.tar.gz``."""

import hashlib
import logging
from pathlib import Path

import numpy as np

from ea_fairseq.errors import UserError
from ea_fairseq.images.archive import ImageSet, read_archive
from ea_fairseq.plain.files import replacing
from ea_fairseq.plain.output_folder import wait_for_lock

logger = logging.getLogger(__name__)


class ImageFolder:
    """The archives of a folder; each is read once, when it is needed.

    Args:
        cache: folder for decoded images, which is made if necessary; None decodes the archives in each process.
    """

    def __init__(self, folder: str | Path, cache: str | Path | None = None):
        self.folder, self.cache = Path(folder), None if cache is None else Path(cache)
        self._read: dict[str, ImageSet] = {}

    def find(self, split: str) -> Path | None:
        """Returns the archive of a split, or None if there is none.

        Raises:
            UserError: if there are two, or no folder.
        """
        if not self.folder.is_dir():
            raise UserError(f"there is no folder {self.folder}: name one that has train.tar or train.tar.gz")
        found = [path for name in (f"{split}.tar", f"{split}.tar.gz") if (path := self.folder / name).exists()]
        if len(found) > 1:
            raise UserError(f"{self.folder} has both {found[0].name} and {found[1].name}: leave one of them there")
        return found[0] if found else None

    def read(self, split: str) -> ImageSet:
        """Returns the images of a split.

        Raises:
            UserError: naming the archive that is missing, or the member that is malformed.
        """
        if split not in self._read:
            path = self.find(split)
            if path is None:
                raise UserError(f"there is no {split}.tar or {split}.tar.gz in {self.folder}")
            self._read[split] = read_archive(path, split) if self.cache is None else cached(path, split, self.cache)
        return self._read[split]


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
