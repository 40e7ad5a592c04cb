"""Lines of text: tidying and reading them."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def tidy(line: str) -> str:
    """The line without its end, with control characters and Unicode's line separators turned into spaces."""
    return BREAKS.sub(" ", line).strip()


def open_bytes(path: Path) -> IO[bytes]:
    """The bytes of a plain or gzipped file."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def read_lines(path: Path) -> Iterator[str]:
    """The tidied lines of a plain or gzipped file; only a line feed ends a line."""
    open_text = gzip.open if path.suffix == ".gz" else open
    with open_text(path, "rt", encoding="utf-8-sig", newline="\n") as file:
        yield from map(tidy, file)
