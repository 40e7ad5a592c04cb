"""Files that are written whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ea_fairseq.plain.text_lines import named_in_errors


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields the path of a file to write, which then replaces ``path``; on failure it is removed."""
    unfinished = path.with_name(f"{path.name}.tmp")
    try:
        with named_in_errors(path):
            yield unfinished
            unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def write_whole(path: Path, text: str) -> None:
    """Writes a text file whole or not at all."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
