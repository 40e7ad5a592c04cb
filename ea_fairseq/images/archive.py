"""Archives of images, one JPEG or PNG file per member. They are not trusted, and nothing is unpacked to disk."""

import io
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ea_fairseq.errors import UserError, printable
from ea_fairseq.images.description import MAX_LABELS, MAX_SIDE
from ea_fairseq.plain.containers import Entry, check_safe, read_entries, refusing_damage
from ea_fairseq.plain.descriptions import is_label
from ea_fairseq.plain.text_lines import progress

FORMATS = ("JPEG", "PNG")
SUFFIXES = (".jpg", ".jpeg", ".png")
MODES = ("L", "RGB")  # Pillow's names for grey and colour, 8 bits per channel
HEADERS = 2048  # bytes of headers that a member may have: its own, and one of POSIX or of a long name
MAX_IMAGES = 1 << 20
MAX_FILE = 1 << 24  # bytes of an image's file
MAX_BYTES = 1 << 31  # of all images, decoded


@dataclass(frozen=True)
class ImageSet:
    """N images of one size, and their classes.

    Args:
        path: the file, for messages.
        images: (N, H, W, C), uint8.
        labels: names of classes.
        targets: index in ``labels`` of each image's class.
    """

    path: str | Path
    images: np.ndarray
    labels: tuple[str, ...]
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.images)


def require_pillow() -> None:
    """Raises UserError if Pillow is missing, which only models of images need."""
    if find_spec("PIL") is None:
        raise UserError("images need Pillow, which is not installed: pip install pillow")


def read_archive(path: Path, split: str) -> ImageSet:
    """Decodes the images of an archive, ``SPLIT/CLASS/NAME.jpg`` or ``.png``; classes are sorted by name.

    Raises:
        UserError: naming the archive and the member that is no such image, or differs in size from the first one.
    """
    require_pillow()
    pixels, names, classes, shape = bytearray(), set[str](), list[str](), None
    # Pillow warns of images that are too large.
    with refusing_damage(path), warnings.catch_warnings(action="error", category=RuntimeWarning):
        for entry in files_of(path):
            with naming(path, entry):
                if entry.path in names:
                    raise UserError("it occurs twice")
                if len(names) == MAX_IMAGES:
                    raise UserError(f"it comes after {MAX_IMAGES:,} images, which are the maximum")
                names.add(entry.path)
                classes.append(class_of(entry.path, split))
                image, shape = decode(read_file(entry), shape)
                if len(pixels) + len(image) > MAX_BYTES:
                    raise UserError(f"with it, the images have more than {MAX_BYTES:,} bytes, too many to hold")
                pixels += image
    if shape is None:
        raise UserError(f"{path} has no images: it must have members {split}/CLASS/NAME.jpg or .png")
    labels = tuple(sorted({*classes}))
    if len(labels) > MAX_LABELS:
        raise UserError(f"{path} has {len(labels):,} classes, but there can be at most {MAX_LABELS:,}")
    numbers = {label: number for number, label in enumerate(labels)}
    images = np.frombuffer(pixels, dtype=np.uint8).reshape(-1, *shape)
    return ImageSet(path, images, labels, np.array([numbers[label] for label in classes]))


def files_of(path: Path) -> Iterator[Entry]:
    """Yields the members that are no folders, with progress on a terminal.

    Raises:
        UserError: if a name leads out of the archive, or the file is no archive.
    """
    entries = read_entries(path, HEADERS)
    for entry in progress(entries, f"decoding {path.name}", "images") if sys.stdout.isatty() else entries:
        if entry.path == path.name:  # read_entries yields a file that is no archive as its only member
            raise UserError(f"{path} is no tar, or an empty one")
        check_safe(path, entry)
        if not entry.is_folder:
            yield entry


@contextmanager
def naming(path: Path, entry: Entry) -> Iterator[None]:
    """Adds the names of a member and its archive to a UserError."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{printable(entry.path)} in {path}: {error}") from None


def class_of(name: str, split: str) -> str:
    """Returns the class in a member's name; raises UserError if the name has another form."""
    parts = name.split("/")
    if len(parts) != 3 or parts[0] != split or not name.lower().endswith(SUFFIXES) or not is_label(parts[1]):
        raise UserError(f"its name must be {split}/CLASS/NAME.jpg or .png")
    return parts[1]


def read_file(entry: Entry) -> bytes:
    """Reads a member; raises UserError if it is no file, or one that is too large."""
    if not entry.is_file:
        raise UserError("it is a link or a device: only files are read")
    with entry.open() as file:
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise UserError(f"it has more than {MAX_FILE:,} bytes")
    return data


def decode(data: bytes, shape: tuple[int, ...] | None) -> tuple[bytes, tuple[int, ...]]:
    """Decodes an image after checking its size.

    Args:
        data: a JPEG or PNG file.
        shape: (H, W, C) of the first image; None for the first one.

    Returns:
        H x W x C bytes, C = 1 or 3, and (H, W, C).

    Raises:
        UserError: if the file is no such image, is damaged, or has another size.
    """
    from PIL import Image  # an extra

    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.mode not in MODES:
                raise UserError(f"its pixels are {image.mode}: convert it to grey (L) or colour (RGB)")
            found = image.height, image.width, len(image.getbands())
            if max(found) > MAX_SIDE:
                raise UserError(f"it has {image.width:,} x {image.height:,} pixels, and a side can have {MAX_SIDE:,}")
            if shape not in (None, found):
                sizes = ["{} x {} x {}".format(*one) for one in (found, shape)]
                raise UserError(f"it has {sizes[0]} rows, columns and channels, and the first image has {sizes[1]}")
            return image.tobytes(), found
    except UserError:
        raise
    except Exception:  # Pillow raises errors of many kinds for damage
        raise UserError("it is no whole JPEG or PNG image") from None
