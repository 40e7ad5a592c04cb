"""Folders of binarised sentence pairs, and the class of any folder of data."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ea_fairseq.data.manifest import MANIFEST, Layout, dictionary_sizes
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.binarised import Binarised, GraphData, ImageData, SentenceData, SeriesData, TextData
from ea_fairseq.plain.files import own_file
from ea_fairseq.plain.records import MEGABYTE, FileName, Language, as_record, read_json, written_by
from ea_fairseq.text.preparation import PREPARATION, Preparation

OWN = FileName("prepare-corpus")
REMOVE_BPE = {
    "bpe": "@@ ",
    "sentencepiece": "sentencepiece",
    "t5": "sentencepiece",
    "none": "",
}  # values of fairseq's --remove-bpe
SPLIT_ALREADY = "WMT'14 English-French is already split at hyphens, and the papers score it as it is"
NOT_SPLIT = "the papers split compounds of WMT'14 English-German only"


@dataclass(frozen=True)
class Settings:
    """The name of a preparation's script, and how many pairs it drew, if not all."""

    dataset: FileName = OWN
    subsample: int | None = None


@dataclass(frozen=True)
class Source:
    """A source that data was made from; only archives have names."""

    archive: str = ""


@dataclass(frozen=True)
class Manifest:
    """The part of manifest.json that identifies a data set for translation."""

    settings: Settings = Settings()
    sources: list[Source] = field(default_factory=list)


class DataBin(Binarised):
    """Binarised sentence pairs, as preparation.json and manifest.json describe them.

    Data without these files is assumed to be the user's own, with Moses' tokens and BPE.

    Raises:
        UserError: naming the folder or file that is missing or invalid.
    """

    task = "translation"
    beam = 5  # default of the search

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}: give that of the binarised data, DATA_BIN.")
        self.manifest = Manifest()
        if (path := folder / MANIFEST).is_file():
            file = own_file(path, 10 * MEGABYTE)
            with written_by("a preparation", path, "copy it from the data"):
                self.manifest = as_record(Manifest, read_json(file, 10 * MEGABYTE))
        self.assumed = not (folder / PREPARATION).is_file()
        if self.assumed:
            source, target = languages_of(folder)
            self.preparation = Preparation(folder, "moses", False, "bpe", [], source_lang=source, target_lang=target)
        else:
            self.preparation = Preparation.read(folder).require_languages()
        self.languages: tuple[str, str] = str(self.preparation.source_lang), str(self.preparation.target_lang)
        self.facts = *self.languages, REMOVE_BPE[self.preparation.subword]

    @property
    def name(self) -> str:
        """The data set's name in tables, such as ``iwslt14-deen``; for the user's own data, the folder's."""
        settings = self.manifest.settings
        if settings.dataset == OWN:
            return super().name
        name = settings.dataset.removeprefix("prepare-")
        if any(source.archive == "nc-v12" for source in self.manifest.sources):
            name = name.replace("wmt14", "wmt17")
        if "-" not in name:
            name += f"-{''.join(self.languages)}"
        return name if settings.subsample is None else f"{name}-{settings.subsample}-pairs"

    def file_names(self, subset: str) -> list[str]:
        """The dictionaries and the files of a subset."""
        stem = f"{subset}.{'-'.join(self.languages)}"
        names = [f"dict.{language}.txt" for language in self.languages]
        return names + [f"{stem}.{language}.{kind}" for language in self.languages for kind in ("bin", "idx")]

    def vocabularies(self) -> Iterator[tuple[str, str, int]]:
        """The vocabularies of both languages."""
        sizes = dictionary_sizes(self.folder, Layout(self.languages))
        for side, language in zip(("encoder", "decoder"), self.languages, strict=True):
            yield f"{side}.embed_tokens.weight", language, sizes[language]

    def require_compounds(self) -> None:
        """Raises UserError unless papers report compound-split BLEU on this data."""
        dataset = self.manifest.settings.dataset
        if (dataset, *self.languages) != ("prepare-wmt14-ende", "en", "de"):
            reason = SPLIT_ALREADY if dataset == "prepare-wmt14-enfr" else NOT_SPLIT
            raise UserError(f"--compound-split is not for {self.name}: {reason}.")


class TextToTextData(DataBin):
    """Labelled sentences whose targets are words for the labels; fairseq reads them as sentence pairs."""

    task = "text_to_text"
    beam = 1

    @property
    def name(self) -> str:
        """The data set's name in tables: the folder's name, as for other labelled sentences."""
        return Binarised.name.fget(self)  # type: ignore[attr-defined]  # of a property


def languages_of(folder: Path) -> tuple[Language, Language]:
    """Returns source and target language, from the names of files such as ``test.de-en.de.idx``."""
    for path in sorted(folder.iterdir()):
        if found := re.fullmatch(r"\w+\.(\w+)-(\w+)\.\1\.idx", path.name):
            return Language(found[1]), Language(found[2])
    raise UserError(f"{folder} has no binarised data, such as test.de-en.de.idx: give another DATA_BIN.")


def read_data(folder: Path) -> Binarised:
    """Reads binarised data of any task; a folder that fits no other task is taken for translation.

    Raises:
        UserError: naming the folder or file that is missing or invalid.
    """
    for kind in (SentenceData, TextData, SeriesData, GraphData, ImageData):
        if any(any(folder.glob(mark)) for mark in kind.marks):
            return kind(folder)
    data = DataBin(folder)
    return TextToTextData(folder) if data.preparation.task else data
