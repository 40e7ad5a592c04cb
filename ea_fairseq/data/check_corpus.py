"""A corpus of one's own: train|valid|test.{xx,yy}, plain or gzipped; it is checked, and linked into text folders."""

import gzip
import hashlib
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from ea_fairseq.data.history import History
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import open_bytes, tidy

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class CheckedFile:
    """A file of text that has passed :func:`check_file`; ``size`` and ``checksum`` (sha256) are of its text."""

    path: Path
    lines: int
    size: int
    checksum: str


def find_file(corpus: Path, name: str) -> Path:
    """The file of that name in the corpus, plain or gzipped; raises UserError where there are both or neither."""
    plain, gzipped = corpus / name, corpus / f"{name}.gz"
    if plain.is_file() and gzipped.is_file():
        raise UserError(f"{corpus} has both {name} and {name}.gz: remove the one that is not meant.")
    if not plain.is_file() and not gzipped.is_file():
        raise UserError(f"{corpus} has neither {name} nor {name}.gz: put its text there.")
    return plain if plain.is_file() else gzipped


def check_file(path: Path, name: str) -> CheckedFile:
    """Read a file to its end and check it.

    Raises:
        UserError: where it is empty, damaged or not UTF-8, or a file other than train has an empty line.
    """
    digest = hashlib.sha256()
    number = size = 0
    try:
        with open_bytes(path) as file:
            for number, line in enumerate(tqdm(file, desc=name, unit=" lines", disable=None, leave=False), 1):
                digest.update(line)
                size += len(line)
                text = line.decode("utf-8").removeprefix("\ufeff" if number == 1 else "")
                if not name.startswith("train.") and not tidy(text):
                    raise UserError(
                        f"line {number} of {path} is empty, and valid and test keep every line: "
                        "remove it from both languages."
                    )
    except UnicodeDecodeError:
        raise UserError(f"line {number} of {path} is not UTF-8: convert the file with iconv.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UserError(f"{path} is not a whole gzip file: fetch or compress it again.") from None
    if number == 0:
        raise UserError(f"{path} is empty: put its sentences there, one a line.")
    return CheckedFile(path, number, size, digest.hexdigest())


def check_corpus(corpus: Path, languages: tuple[str, str]) -> dict[str, tuple[CheckedFile, CheckedFile]]:
    """Checks all files of a corpus, and returns those of each split.

    Raises:
        UserError: where a file is missing or wrong, or the two of a split differ in their number of lines.
    """
    if not corpus.is_dir():
        raise UserError(f"there is no folder {corpus}: give the folder that holds the text of the corpus.")
    names = [f"{split}.{language}" for split in SPLITS for language in languages]
    paths = [find_file(corpus, name) for name in names]
    files = [check_file(path, name) for path, name in zip(paths, names, strict=True)]
    splits = dict(zip(SPLITS, zip(files[::2], files[1::2], strict=True), strict=True))
    for source, target in splits.values():
        if source.lines != target.lines:
            raise UserError(
                f"{source.path} has {source.lines} lines and {target.path} has {target.lines}: "
                "line by line they must be translations of each other."
            )
    return splits


def link_split(output: Path, *, languages: tuple[str, str], files: tuple[CheckedFile, CheckedFile]) -> None:
    """Makes a text folder of the two files of a split, by links to them."""
    output.mkdir()
    for language, file in zip(languages, files, strict=True):
        suffix = ".gz" if file.path.suffix == ".gz" else ""
        (output / f"text.{language}{suffix}").symlink_to(file.path.absolute())
    lines = files[0].lines
    history = History([{"file": file.path.name, "sha256": file.checksum} for file in files])
    history.then("read", lines, Counter(), lines).write(output / "history.json")
