"""A folder of binarised data: what its preparation says of it, without reading the data."""

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from manifest import sha256
from step import StepError, run

from experiments.arguments import Parser
from experiments.own_file import own_file
from experiments.records import MEGABYTE, FileName, as_record, read_json
from experiments.runs.preparation import PREPARATION, Preparation
from experiments.scoring.results import Dataset

OWN = "prepare-corpus"
MANIFEST = "manifest.json"
REMOVE_BPE = {"bpe": "@@ ", "sentencepiece": "sentencepiece", "none": ""}  # values of fairseq's --remove-bpe
SPLIT_ALREADY = "WMT'14 English-French has its words split at their hyphens, and the papers count it as it is"
NOT_SPLIT = "the papers split compounds of WMT'14 English-German only"


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
        try:
            return as_record(cls, read_json(own_file(path, 10 * MEGABYTE), 10 * MEGABYTE))
        except ValueError as error:
            raise StepError(f"{path} is not what a preparation writes ({error}): copy it from the data.") from None


@dataclass(frozen=True)
class DataBin:
    """Binarised data.

    Args:
        tokenizer: ``moses``, or ``none`` for text that was tokenized already.
        subword: ``bpe``, ``sentencepiece`` or ``none``.
        dash_splits: whether words were split at their hyphens.
    """

    folder: Path
    source_lang: str
    target_lang: str
    tokenizer: str
    subword: str
    dash_splits: bool
    manifest: Manifest = Manifest()

    @classmethod
    def read(cls, folder: Path) -> "DataBin":
        """Reads preparation.json and manifest.json; data without is taken for Moses' tokens with BPE.

        Raises:
            StepError: naming the folder or file that is not there or is something else.
        """
        if not folder.is_dir():
            raise StepError(f"there is no folder {folder}: give that of the binarised data, DATA_BIN.")
        manifest = Manifest.read(folder)
        if not (folder / PREPARATION).is_file():
            return cls(folder, *languages_of(folder), "moses", "bpe", False, manifest)
        found = Preparation.described(folder)
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
            folder = self.folder.resolve()
            return folder.parent.name if folder.name == "data-bin" else folder.name
        name = settings.dataset.removeprefix("prepare-")
        if any(source.archive == "nc-v12" for source in self.manifest.sources):
            name = name.replace("wmt14", "wmt17")
        if "-" not in name:
            name += f"-{self.source_lang}{self.target_lang}"
        return name if settings.subsample is None else f"{name}-{settings.subsample}-pairs"

    def files(self, subset: str) -> list[Path]:
        """The dictionaries and the files of a subset.

        Raises:
            StepError: naming the first that is not there.
        """
        stem = f"{subset}.{self.source_lang}-{self.target_lang}"
        names = [f"dict.{language}.txt" for language in self.languages]
        names += [f"{stem}.{language}.{kind}" for language in self.languages for kind in ("bin", "idx")]
        for name in names:
            if not (self.folder / name).is_file():
                raise StepError(f"{self.folder} has no {name}: give a folder that has it, or another --subset.")
        return [self.folder / name for name in names]

    def dataset(self, subset: str) -> Dataset:
        """What results say of the data; raises StepError where the subset is not there."""
        digest = hashlib.sha256()
        for file in self.files(subset):
            digest.update(f"{file.name} {sha256(file)}\n".encode())
        manifest = self.folder / MANIFEST
        checksum = sha256(manifest) if manifest.is_file() else None
        return Dataset(self.name, *self.languages, subset, checksum, digest.hexdigest())

    def require_compounds(self) -> None:
        """Raises StepError unless compound-split BLEU is what papers report of this data."""
        dataset = self.manifest.settings.dataset
        if (dataset, *self.languages) != ("prepare-wmt14-ende", "en", "de"):
            reason = SPLIT_ALREADY if dataset == "prepare-wmt14-enfr" else NOT_SPLIT
            raise StepError(f"--compound-split is not for {self.name}: {reason}.")


def languages_of(folder: Path) -> tuple[str, str]:
    """Source and target language, from the names of files such as ``test.de-en.de.idx``."""
    for path in sorted(folder.iterdir()):
        if found := re.fullmatch(r"\w+\.(\w+)-(\w+)\.\1\.idx", path.name):
            return found[1], found[2]
    raise StepError(f"{folder} has no binarised data, such as test.de-en.de.idx: give another DATA_BIN.")


def main() -> None:
    """Prints what fairseq-generate must be told of the data, and its checksum, a line each."""
    parser = Parser("data_bin.py", "Describes binarised data for scripts/evaluate.sh.", "see scripts/evaluate.sh")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--subset", required=True)
    parser.add_argument("--compound-split", action="store_true")
    args = parser.parse_args()
    data = DataBin.read(args.folder)
    if args.compound_split:
        data.require_compounds()
    dataset = data.dataset(args.subset)
    print(*data.languages, REMOVE_BPE[data.subword], dataset.manifest, dataset.checksum, sep="\n")


if __name__ == "__main__":
    run(main)
