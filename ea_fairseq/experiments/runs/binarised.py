"""What all folders of binarised data have in common, whichever of fairseq's tasks they are for."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from ea_fairseq.data.manifest import sha256
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.data_checksum import MANIFEST
from ea_fairseq.experiments.scoring.results import Dataset
from ea_fairseq.plain.own_file import own_file
from ea_fairseq.plain.records import MEGABYTE, FileName, as_record, read_json

OWN = "prepare-corpus"


@dataclass(frozen=True)
class Settings:
    """What a preparation was told: the script, and how many pairs to draw where it was to draw some."""

    dataset: FileName = OWN
    subsample: int | None = None


@dataclass(frozen=True)
class Source:
    """What data was made from; only archives have names."""

    archive: str = ""


@dataclass(frozen=True)
class Manifest:
    """The part of manifest.json that tells data sets apart."""

    settings: Settings = Settings()
    sources: list[Source] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Reads that of a folder; data without is of one's own."""
        path = folder / MANIFEST
        if not path.is_file():
            return cls()
        file = own_file(path, 10 * MEGABYTE)
        try:
            return as_record(cls, read_json(file, 10 * MEGABYTE))
        except ValueError as error:
            raise UserError(f"{path} is not what a preparation writes ({error}): copy it from the data.") from None


class Binarised(ABC):
    """A folder of binarised data.

    Attributes:
        task: fairseq's ``--task`` that reads it.
    """

    task: ClassVar[str]
    folder: Path

    @property
    def name(self) -> str:
        """The data set's name in tables: that of the folder that was given to the preparation."""
        folder = self.folder.resolve()
        return folder.parent.name if folder.name == "data-bin" else folder.name

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Source and target; None where there is no translation."""
        return None, None

    @property
    def facts(self) -> tuple[str, ...]:
        """What ea-fairseq evaluate must know of the data beside its task and its checksums."""
        return ()

    @abstractmethod
    def file_names(self, subset: str) -> list[str]:
        """The dictionaries and the files of a subset, relative to the folder."""

    @abstractmethod
    def vocabularies(self) -> Iterator[tuple[str, str, int]]:
        """Of each dictionary the parameter that it must fit, what errors call it, and its size."""

    def dataset(self, subset: str) -> Dataset:
        """What results say of the data; raises UserError, naming the first file of the subset that is not there."""
        digest = hashlib.sha256()
        for name in self.file_names(subset):
            if not (self.folder / name).is_file():
                raise UserError(f"{self.folder} has no {name}: give a folder that has it, or another --subset.")
            digest.update(f"{name} {sha256(self.folder / name)}\n".encode())
        manifest = self.folder / MANIFEST
        checksum = sha256(manifest) if manifest.is_file() else None
        return Dataset(self.name, *self.languages, subset, checksum, digest.hexdigest())
