"""A folder of binarised data: what its preparation says of it, without reading the data."""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from manifest import sha256
from step import StepError, run

from experiments.arguments import Parser
from experiments.results import Dataset

OWN = "prepare-corpus"
PREPARATION = "preparation.json"
MANIFEST = "manifest.json"
REMOVE_BPE = {"bpe": "@@ ", "sentencepiece": "sentencepiece", "none": ""}  # values of fairseq's --remove-bpe
WITHOUT_PREPARATION = {"tokenizer": "moses", "subword": "bpe", "dash_splits": False}
SPLIT_ALREADY = "WMT'14 English-French has its words split at their hyphens, and the papers count it as it is"
NOT_SPLIT = "the papers split compounds of WMT'14 English-German only"


@dataclass(frozen=True)
class DataBin:
    """Binarised data.

    Args:
        tokenizer: ``moses``, or ``none`` for text that was tokenized already.
        subword: ``bpe``, ``sentencepiece`` or ``none``.
        dash_splits: whether words were split at their hyphens.
        manifest: the content of manifest.json, empty for data that has none.
    """

    folder: Path
    source_lang: str
    target_lang: str
    tokenizer: str
    subword: str
    dash_splits: bool
    manifest: dict

    @classmethod
    def read(cls, folder: Path) -> "DataBin":
        """Reads preparation.json and manifest.json; data without is taken for Moses' tokens with BPE.

        Raises:
            StepError: naming the folder or file that is not there or is something else.
        """
        if not folder.is_dir():
            raise StepError(f"there is no folder {folder}: give that of the binarised data, DATA_BIN.")
        manifest = read_json(folder / MANIFEST) or {}
        found = read_json(folder / PREPARATION)
        if found is None:
            found = WITHOUT_PREPARATION | languages_of(folder)
        try:
            names = ("source_lang", "target_lang", "tokenizer", "subword", "dash_splits")
            data = cls(folder, *(found[name] for name in names), manifest)
        except KeyError as error:
            raise StepError(f"{folder / 'preparation.json'} has no {error}: copy it from the data's folder.") from None
        if data.subword not in REMOVE_BPE:
            raise StepError(f"{folder / 'preparation.json'}: subword is {', '.join(REMOVE_BPE)}, not {data.subword}.")
        return data

    @property
    def languages(self) -> tuple[str, str]:
        return self.source_lang, self.target_lang

    @property
    def assumed(self) -> bool:
        """Whether tokenizer and subwords are assumed, for want of preparation.json."""
        return not (self.folder / PREPARATION).is_file()

    @property
    def name(self) -> str:
        """The data set's name in tables, such as ``iwslt14-deen``; that of the folder for data of one's own."""
        settings = self.manifest.get("settings", {})
        if settings.get("dataset", OWN) == OWN:
            folder = self.folder.resolve()
            return folder.parent.name if folder.name == "data-bin" else folder.name
        name = settings["dataset"].removeprefix("prepare-")
        if any(source.get("archive") == "nc-v12" for source in self.manifest.get("sources", [])):
            name = name.replace("wmt14", "wmt17")
        if "-" not in name:
            name += f"-{self.source_lang}{self.target_lang}"
        return f"{name}-{settings['subsample']}-pairs" if "subsample" in settings else name

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
        dataset = self.manifest.get("settings", {}).get("dataset")
        if (dataset, *self.languages) != ("prepare-wmt14-ende", "en", "de"):
            reason = SPLIT_ALREADY if dataset == "prepare-wmt14-enfr" else NOT_SPLIT
            raise StepError(f"--compound-split is not for {self.name}: {reason}.")


def read_json(path: Path) -> dict | None:
    """The object in a JSON file, or None where there is no such file."""
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return dict(found)
    except (TypeError, ValueError) as error:
        raise StepError(f"{path} is not what a preparation writes ({error}): copy it from the data's folder.") from None


def languages_of(folder: Path) -> dict[str, str]:
    """Source and target language, from the names of files such as ``test.de-en.de.idx``."""
    for path in sorted(folder.iterdir()):
        if found := re.fullmatch(r"\w+\.(\w+)-(\w+)\.\1\.idx", path.name):
            return {"source_lang": found[1], "target_lang": found[2]}
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
