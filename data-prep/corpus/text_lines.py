"""Lines of text: tidying and reading them."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

BREAKS = re.compile("[\n-\r\x1c-\x1e\x85\u2028\u2029]+")  # what splitlines ends a line at


def tidy(line: str) -> str:
    """The line without its end, with what else could end a line turned into spaces."""
    return BREAKS.sub(" ", line).strip()


def open_bytes(path: Path) -> IO[bytes]:
    """The bytes of a plain or gzipped file."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def read_lines(path: Path) -> Iterator[str]:
    """The tidied lines of a plain or gzipped file; only a line feed ends a line."""
    open_text = gzip.open if path.suffix == ".gz" else open
    with open_text(path, "rt", encoding="utf-8-sig", newline="\n") as file:
        yield from map(tidy, file)
