"""Downloads of an archive by ea_fairseq/data/download.py, and what a local server has for them."""

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

TGZ, ZIP = (random.Random(seed).randbytes(size) for seed, size in ((1, 300_000), (2, 200_000)))
FIRST, SECOND, ZIPPED = "/a/corpus.tgz", "/b/corpus.tgz", "/c/corpus.zip"
FILES = {FIRST: TGZ, SECOND: TGZ, ZIPPED: ZIP}
QUICK = {"DOWNLOAD_ATTEMPTS": "3", "DOWNLOAD_WAIT": "0.01", "DOWNLOAD_STALL": "20"}


def checksum(data: bytes, algorithm: str = "sha256") -> str:
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


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
        command = [
            sys.executable,
            "-m",
            "ea_fairseq.data.download",
            "--table",
            self.table,
            *flags,
            "corpus",
            self.archive,
        ]
        return [str(part) for part in command]

    def run(self, *flags: object, **variables: str) -> subprocess.CompletedProcess:
        env = os.environ | QUICK | variables
        return subprocess.run(self.command(*flags), env=env, cwd="/", capture_output=True, text=True, timeout=60)

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
        assert result.stderr.startswith("download: ") and result.stderr.endswith(".\n")
        assert result.stderr.count("\n") == 1, result.stderr
        for part in parts:
            assert part in result.stderr
        assert not self.archive.exists()
