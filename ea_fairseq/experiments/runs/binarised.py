"""Folders of binarised data, one class for each of fairseq's tasks."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from ea_fairseq.data.manifest import MANIFEST, sha256
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.scoring.results import Dataset
from ea_fairseq.plain.records import FileName
from ea_fairseq.plain.split_folder import SPLITS, SplitFolder

EMBEDDING = "encoder.sentence_encoder.embed_tokens.weight"


class Binarised:
    """A folder of binarised data.

    Attributes:
        task: fairseq's ``--task`` that reads it.
        marks: patterns of files by one of which such a folder is known.
        languages: source and target; None if nothing is translated.
        facts: what an evaluation depends on in addition to task and checksums.
    """

    task: ClassVar[str]
    marks: ClassVar[tuple[str, ...]] = ()
    languages: tuple[str | None, str | None] = None, None
    facts: tuple[str, ...] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file_names(self, subset: str) -> list[str]:
        """The dictionaries and the files of a subset, relative to the folder."""
        raise NotImplementedError

    def vocabularies(self) -> Iterator[tuple[str, str, int]]:
        """Yields, for each dictionary, its embedding parameter, its name in errors, and its size: none here."""
        yield from ()

    @property
    def name(self) -> str:
        """The data set's name in tables: the name of the folder that was given to the preparation."""
        folder = self.folder.resolve()
        return folder.parent.name if folder.name == "data-bin" else folder.name

    def dataset(self, subset: str) -> Dataset:
        """Describes the data for results; raises UserError naming the first missing file of the subset."""
        digest = hashlib.sha256()
        for name in self.file_names(subset):
            if not (self.folder / name).is_file():
                raise UserError(f"{self.folder} has no {name}: give a folder that has it, or another --subset.")
            digest.update(f"{name} {sha256(self.folder / name)}\n".encode())
        manifest = self.folder / MANIFEST
        checksum = sha256(manifest) if manifest.is_file() else None
        return Dataset(FileName(self.name), *self.languages, subset, checksum, digest.hexdigest())


class EncoderData(Binarised):
    """Data for a task of encoders, with one dictionary of words."""

    dictionary: ClassVar[str]
    words: ClassVar[str]

    def vocabularies(self) -> Iterator[tuple[str, str, int]]:
        """Yields the dictionary of words, with special symbols and ``<mask>``, which fairseq's tasks add."""
        from fairseq.data import Dictionary

        yield EMBEDDING, self.words, len(Dictionary.load(str(self.folder / self.dictionary))) + 1


class SentenceData(EncoderData):
    """Sentences or pairs of them, in ``input0/`` and ``input1/``, with labels or scores in ``label/``."""

    task, dictionary, words, marks = "sentence_prediction", "input0/dict.txt", "input0", ("input0",)

    def file_names(self, subset: str) -> list[str]:
        """The dictionaries and the files of a subset; for regression, scores are text and have no dictionary."""
        inputs = ["input0", *(["input1"] if (self.folder / "input1").is_dir() else [])]
        names = [self.dictionary, *(f"{part}/{subset}.{kind}" for part in inputs for kind in ("bin", "idx"))]
        if (self.folder / "label" / f"{subset}.label").is_file():
            return [*names, f"label/{subset}.label"]
        return [*names, "label/dict.txt", *(f"label/{subset}.{kind}" for kind in ("bin", "idx"))]


class TextData(EncoderData):
    """Text of one language, for models of masked words."""

    task, dictionary, words, marks = "masked_lm", "dict.txt", "words", ("dict.txt",)

    def file_names(self, subset: str) -> list[str]:
        """The dictionary and the files of a subset."""
        return [self.dictionary, f"{subset}.bin", f"{subset}.idx"]


class SplitData(Binarised):
    """Data with one file for each subset, of which the validation set may be split off the training set."""

    noun: ClassVar[str]

    def files(self) -> SplitFolder:
        """The files of the folder."""
        raise NotImplementedError

    def file_names(self, subset: str) -> list[str]:
        """The file of a subset."""
        if subset not in SPLITS:
            raise UserError(f"--subset: {self.noun} have {', '.join(SPLITS)}, not {subset}.")
        files = self.files()
        path = files.find(files.origin(subset))
        return [path.name if path else f"{subset}.{files.ending}"]


class SeriesData(SplitData):
    """Time series with classes, or with numbers to predict."""

    task, noun, marks = "time_series_prediction", "time series", ("*.ts", "*.ts.gz")

    def files(self) -> SplitFolder:
        """The files of the folder."""
        from ea_fairseq.series.folder import SeriesFolder

        return SeriesFolder(self.folder)


class GraphData(Binarised):
    """A graph whose nodes have classes."""

    task, marks = "node_prediction", ("nodes.tsv",)

    def file_names(self, subset: str) -> list[str]:
        """Both tables, which contain all subsets."""
        return ["nodes.tsv", "edges.tsv"]


class ImageData(SplitData):
    """Archives of images with classes."""

    task, noun, marks = "image_prediction", "images", ("train.tar", "train.tar.gz")

    def files(self) -> SplitFolder:
        """The files of the folder."""
        from ea_fairseq.images.folder import ImageFolder

        return ImageFolder(self.folder)
