"""Folders of binarised data, whichever of fairseq's tasks they are for."""

import hashlib
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
EMBEDDING = "encoder.sentence_encoder.embed_tokens.weight"
MASK = 1  # fairseq's tasks add <mask> to the dictionary


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


class Binarised:
    """A folder of binarised data.

    Subclasses have ``file_names(subset)``, dictionaries and the files of a subset, relative to the folder, and
    ``vocabularies()``, of each dictionary the parameter that it must fit, what errors call it, and its size.

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


@dataclass(frozen=True)
class SentenceData(Binarised):
    """Sentences, or pairs of them, with labels or scores: ``input0/``, for pairs ``input1/``, and ``label/``."""

    task = "sentence_prediction"
    folder: Path

    def file_names(self, subset: str) -> list[str]:
        """The dictionaries and the files of a subset; a regression has scores in text and no dictionary of labels."""
        inputs = ["input0", *(["input1"] if (self.folder / "input1").is_dir() else [])]
        names = ["input0/dict.txt", *(f"{part}/{subset}.{kind}" for part in inputs for kind in ("bin", "idx"))]
        if (self.folder / "label" / f"{subset}.label").is_file():
            return [*names, f"label/{subset}.label"]
        return [*names, "label/dict.txt", *(f"label/{subset}.{kind}" for kind in ("bin", "idx"))]

    def vocabularies(self) -> Iterator[tuple[str, str, int]]:
        """That of words."""
        yield EMBEDDING, "input0", dictionary_size(self.folder / "input0" / "dict.txt")


@dataclass(frozen=True)
class TextData(Binarised):
    """Text of one language, for models of masked words."""

    task = "masked_lm"
    folder: Path

    def file_names(self, subset: str) -> list[str]:
        """The dictionary and the files of a subset."""
        return ["dict.txt", f"{subset}.bin", f"{subset}.idx"]

    def vocabularies(self) -> Iterator[tuple[str, str, int]]:
        """That of words."""
        yield EMBEDDING, "words", dictionary_size(self.folder / "dict.txt")


def dictionary_size(path: Path) -> int:
    """The types of a dictionary as fairseq's tasks of encoders read it, special symbols included."""
    from fairseq.data import Dictionary

    return len(Dictionary.load(str(path))) + MASK


@dataclass(frozen=True)
class SeriesData(Binarised):
    """Time series with classes, or with numbers to predict."""

    task = "time_series_prediction"
    folder: Path

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Whether a folder has time series."""
        return any(path.name.endswith((".ts", ".ts.gz")) for path in folder.iterdir())

    def file_names(self, subset: str) -> list[str]:
        """The file of a subset; series for validation may be those of the training set that are split off."""
        from ea_fairseq.series.folder import SPLITS, SeriesFolder

        if subset not in SPLITS:
            raise UserError(f"--subset: time series have {', '.join(SPLITS)}, not {subset}.")
        files = SeriesFolder(self.folder)
        path = files.find(subset) or (files.find("train") if subset == "valid" else None)
        return [path.name if path else f"{subset}.ts"]

    def vocabularies(self) -> Iterator[tuple[str, str, int]]:
        """None: series have no words."""
        yield from ()
