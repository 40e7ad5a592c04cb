"""A folder of binarised sentence pairs: what its preparation says of it, without reading the data."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ea_fairseq.data.manifest import Layout, dictionary_sizes
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.binarised import OWN, Binarised, Manifest, SentenceData, SeriesData, TextData
from ea_fairseq.text.preparation import PREPARATION, Preparation

REMOVE_BPE = {"bpe": "@@ ", "sentencepiece": "sentencepiece", "none": ""}  # values of fairseq's --remove-bpe
SPLIT_ALREADY = "WMT'14 English-French has its words split at their hyphens, and the papers count it as it is"
NOT_SPLIT = "the papers split compounds of WMT'14 English-German only"


@dataclass(frozen=True)
class DataBin(Binarised):
    """Binarised data for translation.

    Args:
        tokenizer: ``moses``, or ``none`` for text that was tokenized already.
        subword: ``bpe``, ``sentencepiece`` or ``none``.
        dash_splits: whether words were split at their hyphens.
    """

    task = "translation"
    folder: Path
    source_lang: str
    target_lang: str
    tokenizer: str
    subword: str
    dash_splits: bool
    manifest: Manifest = field(default_factory=Manifest)

    @classmethod
    def read(cls, folder: Path) -> "DataBin":
        """Reads preparation.json and manifest.json; data without is taken for Moses' tokens with BPE.

        Raises:
            UserError: naming the folder or file that is not there or is something else.
        """
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}: give that of the binarised data, DATA_BIN.")
        manifest = Manifest.read(folder)
        if not (folder / PREPARATION).is_file():
            return cls(folder, *languages_of(folder), "moses", "bpe", False, manifest)
        found = Preparation.read(folder).require_languages()
        languages = found.source_lang, found.target_lang
        return cls(folder, *languages, found.tokenizer, found.subword, found.dash_splits, manifest)

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.source_lang, self.target_lang

    @property
    def assumed(self) -> bool:
        """Whether tokenizer and subwords are assumed, for want of preparation.json."""
        return not (self.folder / PREPARATION).is_file()

    @property
    def name(self) -> str:
        """The data set's name in tables, such as ``iwslt14-deen``; that of the folder for data of one's own."""
        settings = self.manifest.settings
        if settings.dataset == OWN:
            return super().name
        name = settings.dataset.removeprefix("prepare-")
        if any(source.archive == "nc-v12" for source in self.manifest.sources):
            name = name.replace("wmt14", "wmt17")
        if "-" not in name:
            name += f"-{self.source_lang}{self.target_lang}"
        return name if settings.subsample is None else f"{name}-{settings.subsample}-pairs"

    @property
    def facts(self) -> tuple[str, ...]:
        """Both languages, and what fairseq-generate is told to join words by."""
        return *self.languages, REMOVE_BPE[self.subword]

    def file_names(self, subset: str) -> list[str]:
        """The dictionaries and the files of a subset."""
        stem = f"{subset}.{self.source_lang}-{self.target_lang}"
        names = [f"dict.{language}.txt" for language in self.languages]
        return names + [f"{stem}.{language}.{kind}" for language in self.languages for kind in ("bin", "idx")]

    def vocabularies(self) -> Iterator[tuple[str, str, int]]:
        """Those of both languages."""
        sizes = dictionary_sizes(self.folder, Layout(self.languages))
        for side, language in zip(("encoder", "decoder"), self.languages, strict=True):
            yield f"{side}.embed_tokens.weight", language, sizes[language]

    def require_compounds(self) -> None:
        """Raises UserError unless compound-split BLEU is what papers report of this data."""
        dataset = self.manifest.settings.dataset
        if (dataset, *self.languages) != ("prepare-wmt14-ende", "en", "de"):
            reason = SPLIT_ALREADY if dataset == "prepare-wmt14-enfr" else NOT_SPLIT
            raise UserError(f"--compound-split is not for {self.name}: {reason}.")


def languages_of(folder: Path) -> tuple[str, str]:
    """Source and target language, from the names of files such as ``test.de-en.de.idx``."""
    for path in sorted(folder.iterdir()):
        if found := re.fullmatch(r"\w+\.(\w+)-(\w+)\.\1\.idx", path.name):
            return found[1], found[2]
    raise UserError(f"{folder} has no binarised data, such as test.de-en.de.idx: give another DATA_BIN.")


def read_data(folder: Path) -> Binarised:
    """Binarised data of whichever task; folders that are none of the others' are taken for translation.

    Raises:
        UserError: naming the folder or file that is not there or is something else.
    """
    if (folder / "input0").is_dir():
        return SentenceData(folder)
    if (folder / "dict.txt").is_file():
        return TextData(folder)
    if folder.is_dir() and SeriesData.is_in(folder):
        return SeriesData(folder)
    return DataBin.read(folder)
