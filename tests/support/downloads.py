"""Downloads of the archive `corpus`, and what a local server has for them.

As a program: TABLE OUTPUT, then the options of archives.
"""

import hashlib
import io
import json
import os
import random
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

from ea_fairseq.data.options import ARCHIVES, DEFAULTS, add_options, sources
from ea_fairseq.plain.commands import Parser, run

TGZ, ZIP = (random.Random(seed).randbytes(size) for seed, size in ((1, 300_000), (2, 200_000)))
FIRST, SECOND, ZIPPED = "/a/corpus.tgz", "/b/corpus.tgz", "/c/corpus.zip"
FILES = {FIRST: TGZ, SECOND: TGZ, ZIPPED: ZIP}
QUICK = {"DOWNLOAD_ATTEMPTS": "3", "DOWNLOAD_WAIT": "0.01", "DOWNLOAD_STALL": "20"}


def checksum(data: bytes, algorithm: str = "sha256") -> str:
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


def main() -> None:
    table, output, *flags = sys.argv[1:]
    parser = Parser("downloads", "", "")
    parser.set_defaults(**DEFAULTS)
    add_options(parser, ARCHIVES)
    sources(parser.parse_args(flags), Path(table)).get("corpus", Path(output))


class Download:
    """Downloads of the archive `corpus` into a folder with spaces, by a table of places."""

    def __init__(self, folder: Path, host: str) -> None:
        self.folder, self.host = folder / "an output", host
        self.folder.mkdir()
        self.archive, self.table = self.folder / "corpus.tmp", folder / "a table.tsv"
        self.places(FIRST, ZIPPED)

    def places(self, *paths: str, size: str | None = None, algorithm: str = "sha256", files=FILES) -> None:
        """Write the table."""
        lines = [
            f"corpus\t{size or len(files[path])}\t{checksum(files[path], algorithm)}\t{self.host}{path}\n"
            for path in paths
        ]
        self.table.write_text("archive\tsize\tchecksum\taddress\n" + "".join(lines))

    def command(self, *flags: object) -> list[str]:
        return list(map(str, [sys.executable, __file__, self.table, self.archive, *flags]))

    def run(self, *flags: object, **variables: str) -> subprocess.CompletedProcess:
        """Gets the archive in this process."""
        _, name, *arguments = self.command(*flags)
        output, errors, status = io.StringIO(), io.StringIO(), 0
        environment, argv = patch.dict(os.environ, QUICK | variables), patch.object(sys, "argv", [name, *arguments])
        with environment, argv, redirect_stdout(output), redirect_stderr(errors):
            try:
                run(main)
            except SystemExit as end:
                status = 1
                print(end.code, file=sys.stderr)
        return subprocess.CompletedProcess(arguments, status, output.getvalue(), errors.getvalue())

    def source(self) -> dict[str, object]:
        return json.loads((self.archive / "source.json").read_text())

    def parts(self) -> list[Path]:
        return sorted(self.folder.glob("*.part"))

    def begin(self, part: bytes) -> None:
        """Leave a part of an earlier download of TGZ."""
        (self.folder / f"corpus.{checksum(TGZ).partition(':')[2][:8]}.part").write_bytes(part)

    def assert_gave(self, result: subprocess.CompletedProcess, path: str) -> None:
        assert result.returncode == 0, result.stderr
        name = path.rpartition("/")[2]
        assert {file.name for file in self.archive.iterdir()} == {name, "source.json"}
        assert (self.archive / name).read_bytes() == FILES[path]
        assert urlsplit(self.source()["address"]).path == path
        assert not self.parts()

    def assert_refused(self, result: subprocess.CompletedProcess, *parts: str) -> None:
        assert result.returncode == 1
        assert result.stderr.startswith("downloads: ") and result.stderr.endswith(".\n")
        assert result.stderr.count("\n") == 1, result.stderr
        for part in parts:
            assert part in result.stderr
        assert not self.archive.exists()


if __name__ == "__main__":
    run(main)
