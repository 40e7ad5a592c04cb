"""Preparations of data sets from small archives."""

import hashlib
import json
import subprocess
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

from corpora import run_prepare
from datasets import TEST, TRAIN, DataSet
from downloads import QUICK
from ea_fairseq.data.archives import Place, read_table
from ea_fairseq.plain.split_folder import SPLITS
from fairseq_steps import read
from small_archives import write_archives

REPOSITORY = Path(__file__).resolve().parents[2]
TABLE = read_table(REPOSITORY / "ea_fairseq/data/archives.tsv")


def path_of(place: Place) -> str:
    """Where a mirror has what is at a place."""
    return urlsplit(place.address).path


class Archives:
    """Small archives in a folder, each called like the file at its first place."""

    def __init__(self, folder: Path, train: int = TRAIN, test: int = TEST) -> None:
        self.folder = write_archives(folder, train, test)
        self.names = [archive for archive in TABLE if self.file(archive).is_file()]

    def file(self, archive: str) -> Path:
        return self.folder / TABLE[archive][0].file

    def checksum(self, archive: str) -> str:
        return f"sha256:{hashlib.sha256(self.file(archive).read_bytes()).hexdigest()}"

    def served(self) -> dict[str, bytes]:
        """What a mirror gives: every archive, at its first place only."""
        return {path_of(TABLE[archive][0]): self.file(archive).read_bytes() for archive in self.names}

    def accepting(self, *, but: str = "") -> list[str]:
        """Options that say that these are the archives that are meant."""
        choices = (["--accept", f"{archive}={self.checksum(archive)}"] for archive in self.names if archive != but)
        return list(chain(*choices))


def command(script: str, *arguments: object, repository: Path = REPOSITORY) -> list[str]:
    return ["bash", *map(str, (repository / f"data-prep/prepare-{script}.sh", *arguments))]


def prepare(data_set: str, *arguments: object) -> subprocess.CompletedProcess:
    return run_prepare(data_set, *arguments, **QUICK)


def prepared(script: str, *arguments: object) -> None:
    result = prepare(script, *arguments)
    assert result.returncode == 0, result.stderr


def assert_one_sentence(result: subprocess.CompletedProcess, *parts: str) -> None:
    """The run failed and said why."""
    assert result.returncode != 0
    assert result.stderr.count("\n") == 1 and result.stderr.endswith(".\n"), result.stderr
    for part in parts:
        assert part in result.stderr


@dataclass(frozen=True)
class Output:
    """What was made of a data set, in a folder."""

    data_set: DataSet
    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data-bin"

    @property
    def manifest(self) -> dict:
        return json.loads((self.data / "manifest.json").read_text())

    def words(self, split: str, language: str) -> list[str]:
        """The tokenized lines of a split."""
        return [line.replace("@@ ", "") for line in self._lines(self.data_set.words, split, language)]

    def subwords(self, split: str, language: str) -> list[str]:
        """The segmented lines of a split."""
        return self._lines(self.data_set.subwords, split, language)

    def _lines(self, folders: str, split: str, language: str) -> list[str]:
        folder = folders.split()[SPLITS.index(split)]
        return read(self.folder / folder / f"text.{language}")
