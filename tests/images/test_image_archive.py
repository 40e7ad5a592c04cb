"""Archives of images: what is decoded, what is refused, and the cache."""

import gzip
import io
import struct
import tarfile
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq.errors import UserError
from ea_fairseq.images import archive, folder
from ea_fairseq.images.archive import read_archive
from ea_fairseq.images.folder import ImageFolder
from hostile_watch import watching
from image_archives import LABELS, draw_images, encode, members, write_images
from needs import CIFAR10, needs_cifar10
from small_archives import pack


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ["train.tar", "train.tgz"])
def test_images_are_those_that_were_packed(tmp_path, channels, name):
    drawn = draw_images(1, 7, channels=channels)
    read = read_archive(pack(tmp_path / name, members("train", drawn)), "train")
    np.testing.assert_array_equal(read.images, drawn)
    assert read.labels == LABELS
    assert read.targets.tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_a_photograph_of_jpeg_is_read_from_what_tar_packs_of_a_folder(tmp_path):
    """With folders as members, and Python's headers of POSIX, for more members than fit into the bound of headers."""
    place = tmp_path / "train/cat"
    place.mkdir(parents=True)
    photo = encode(np.full((6, 6, 3), 77, dtype=np.uint8), "JPEG", quality=95)
    for number in range(5):
        (place / f"{number}{'x' * 120}.JPG").write_bytes(photo)
    with tarfile.open(tmp_path / "train.tar", "w") as packed:
        packed.add(tmp_path / "train", "train")
    read = read_archive(tmp_path / "train.tar", "train")
    assert read.images.shape == (5, 6, 6, 3) and abs(read.images.astype(int) - 77).max() < 3


def test_ordinary_headers_of_many_members_do_not_count_as_an_attack(tmp_path, monkeypatch):
    monkeypatch.setattr("ea_fairseq.plain.containers.MAX_HEADERS", 20_000)
    with tarfile.open(tmp_path / "train.tar", "w") as packed:
        for number in range(50):
            info = tarfile.TarInfo(f"train/cat/{number}{'x' * 120}.png")
            data = encode(draw_images(number, 1)[0])
            info.size, info.mtime = len(data), 0.5
            packed.addfile(info, io.BytesIO(data))
    assert len(read_archive(tmp_path / "train.tar", "train")) == 50


def link(kind: bytes, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo("train/cat/x.png")
    info.type, info.linkname = kind, target
    return info


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def claim(width: int, height: int) -> bytes:
    """A PNG whose header claims a size, with few pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


GOOD = encode(draw_images(1, 1)[0])
FILES = {
    "it is no whole JPEG or PNG image": [
        *(b"", b"GIF89a", GOOD[:60], GOOD[: len(GOOD) // 2], b"\xff\xd8\xff\xe0", b"%!PS-Adobe-3.0 EPSF-3.0\n"),
        *(encode(draw_images(1, 1)[0], form) for form in ("GIF", "BMP", "TIFF", "PPM", "WEBP")),
        claim(6, 6),
        claim(20_000, 20_000),  # Pillow warns of a bomb
        claim(1 << 30, 1 << 30),
    ],
    "it has 5,000 x 1 pixels, and a side can have 4,096": [claim(5000, 1)],
    "it has 5 x 5 x 3 rows, columns and channels, and the first image has 6 x 6 x 3": [
        encode(draw_images(1, 1, side=5)[0])
    ],
    "it has 6 x 6 x 1 rows, columns and channels, and": [encode(draw_images(1, 1, channels=1)[0])],
    "its pixels are RGBA: convert it to grey (L) or colour (RGB)": [encode(draw_images(1, 1, channels=4)[0])],
}


@pytest.mark.parametrize(("sentence", "data"), [(sentence, data) for sentence in FILES for data in FILES[sentence]])
def test_a_file_that_is_no_such_image_is_named(tmp_path, sentence, data, recwarn):
    path = pack(tmp_path / "train.tgz", {"train/cat/a.png": GOOD, "train/cat/x.png": data})
    with pytest.raises(UserError) as refused:
        read_archive(path, "train")
    assert str(refused.value).startswith(f"train/cat/x.png in {path}: {sentence}")
    assert not recwarn


NAMES = {
    "its name must be train/CLASS/NAME.jpg or .png": [
        *("train/x.png", "test/cat/x.png", "train/a/b/x.png", "x.png", "train//x.png", "train/cat/x.gif"),
        *("train/\x1b[2J/x.png", "train/cat/.png/x"),
    ],
    "do not trust this archive": ["/train/cat/x.png", "../train/cat/x.png", "train/../../x.png", "C:/cat/x.png"],
}


@pytest.mark.parametrize(("sentence", "name"), [(sentence, name) for sentence in NAMES for name in NAMES[sentence]])
def test_a_name_of_another_form_is_refused(tmp_path, sentence, name):
    path = pack(tmp_path / "train.tar", {name: GOOD})
    with pytest.raises(UserError) as refused:
        read_archive(path, "train")
    assert sentence in str(refused.value) and str(path) in str(refused.value) and str(refused.value).isprintable()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
@pytest.mark.parametrize("target", ["train/cat/a.png", "/etc/passwd", "../../../a"])
def test_links_and_devices_are_refused_unread(tmp_path, kind, target):
    path = pack(tmp_path / "train.tar", {"train/cat/a.png": GOOD})
    with tarfile.open(path, "a") as packed:
        packed.addfile(link(kind, target))
    with watching(tmp_path) as seen, pytest.raises(UserError, match=r"train/cat/x\.png.*(it is a link|do not trust)"):
        read_archive(path, "train")
    assert not seen


def test_what_is_too_much_is_refused(tmp_path, monkeypatch):
    many = members("train", draw_images(1, 9))
    path = pack(tmp_path / "train.tgz", many)
    for name, limit, sentence in (
        ("MAX_IMAGES", 8, "008.png .* it comes after 8 images"),
        ("MAX_FILE", 100, "000.png .* it has more than 100 bytes"),
        ("MAX_BYTES", 8 * 108, "008.png .* with it, the images have more than 864 bytes"),
        ("MAX_LABELS", 2, "has 3 classes, but there can be at most 2"),
    ):
        with monkeypatch.context() as patch, pytest.raises(UserError, match=sentence):
            patch.setattr(archive, name, limit)
            read_archive(path, "train")
    with tarfile.open(tmp_path / "twice.tar", "w") as packed:
        for _ in range(2):
            info = tarfile.TarInfo("train/cat/x.png")
            info.size = len(GOOD)
            packed.addfile(info, io.BytesIO(GOOD))
    with pytest.raises(UserError, match=r"train/cat/x\.png in .*twice\.tar: it occurs twice"):
        read_archive(tmp_path / "twice.tar", "train")


def test_an_archive_without_images_is_named(tmp_path):
    for data in (b"<html>", b"", pack(tmp_path / "none.tar", {}).read_bytes()):
        (tmp_path / "train.tar").write_bytes(data)
        with pytest.raises(UserError, match=r"train\.tar is no tar, or an empty one"):
            read_archive(tmp_path / "train.tar", "train")
    (tmp_path / "train").mkdir()
    with tarfile.open(tmp_path / "train.tar", "w") as packed:
        packed.add(tmp_path / "train", "train")
    with pytest.raises(UserError, match=r"train\.tar has no images: it must have members train/CLASS"):
        read_archive(tmp_path / "train.tar", "train")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return pack(tmp_path_factory.mktemp("whole") / "train.tgz", members("train", draw_images(1, 4)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_archive_is_read_or_refused_in_a_sentence(whole, tmp_path_factory, data):
    """Bytes that are changed or cut off, before or after the compression."""
    content, packed = whole.read_bytes(), data.draw(st.booleans())
    content = bytearray(content if packed else gzip.decompress(content))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    path = tmp_path_factory.mktemp("damaged") / "train.tar.gz"
    path.write_bytes(content)
    try:
        read = read_archive(path, "train")
    except UserError as error:
        assert str(path) in str(error) and str(error).isprintable()
    else:
        assert read.images.dtype == np.uint8 and read.images.ndim == 4 and len(read.targets) == len(read)


@pytest.fixture
def decoded(monkeypatch):
    """The archives that are decoded meanwhile."""
    found = []
    monkeypatch.setattr(folder, "read_archive", lambda path, split: found.append(path) or read_archive(path, split))
    return found


def test_the_cache_is_used_until_the_archive_is_another(tmp_path, decoded):
    data = write_images(tmp_path / "data", {"train": 6})
    for _ in range(2):
        read = ImageFolder(data, tmp_path / "new/cache").read("train")
        plain = read_archive(data / "train.tar", "train")
        np.testing.assert_array_equal(read.images, plain.images)
        np.testing.assert_array_equal(read.targets, plain.targets)
        assert (read.labels, read.path) == (plain.labels, plain.path)
    assert len(decoded) == 1
    assert [*data.iterdir()] == [data / "train.tar"]
    write_images(data, {"train": 7})
    assert len(ImageFolder(data, tmp_path / "new/cache").read("train")) == 7
    assert len(decoded) == 2


def spoil(content: bytes, how: str) -> bytes:
    middle = len(content) // 2
    return {
        "empty": b"",
        "cut": content[:middle],
        "flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "other": b"no arrays",
    }[how]


@pytest.mark.parametrize("how", ["empty", "cut", "flipped", "other", "pickle", "array", "targets", "shape"])
def test_a_damaged_cache_is_made_anew(tmp_path, decoded, how):
    data, cache = write_images(tmp_path / "data", {"train": 60}), tmp_path / "cache"
    images = ImageFolder(data, cache).read("train").images
    (place,) = cache.glob("train-*.npz")
    arrays = {"images": images, "targets": np.zeros(60, np.int64), "labels": np.array(LABELS)}
    if how == "array":
        np.save(place.with_suffix(".npy"), images)
        place.with_suffix(".npy").replace(place)
    elif how in ("pickle", "targets", "shape"):
        wrong = {"pickle": ("labels", np.array([{}, 1])), "targets": ("targets", np.full(60, 3))}
        name, value = wrong.get(how, ("images", images[:50]))
        np.savez(place, **arrays | {name: value})
    else:
        place.write_bytes(spoil(place.read_bytes(), how))
    for _ in range(2):
        np.testing.assert_array_equal(ImageFolder(data, cache).read("train").images, images)
    assert len(decoded) == 2


def test_a_cache_that_cannot_be_finished_leaves_nothing(tmp_path, monkeypatch):
    data, cache = write_images(tmp_path / "data", {"train": 6}), tmp_path / "cache"

    def full(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match=r"No space left.*npz"):
        ImageFolder(data, cache).read("train")
    assert [path.name for path in cache.iterdir()] == ["lock"]


@needs_cifar10
@pytest.mark.slow
def test_the_photographs_of_cifar10_have_their_statistics():
    read = ImageFolder(CIFAR10).read("test")
    assert read.images.shape == (10_000, 32, 32, 3) and np.bincount(read.targets).tolist() == [1000] * 10
    pixels = read.images.reshape(-1, 3) / 255
    assert pixels.mean(axis=0) == pytest.approx((0.4941, 0.4851, 0.4504), abs=1e-4)
    assert pixels.std(axis=0) == pytest.approx((0.2448, 0.2422, 0.2606), abs=1e-4)
