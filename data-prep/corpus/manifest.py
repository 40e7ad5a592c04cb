"""manifest.json: all that a data set was made from and with, and what came out."""

import hashlib
import json
from pathlib import Path

from history import History
from step import StepError

SPLITS = ("train", "valid", "test")


def count_tokens(data_bin: Path, languages: tuple[str, str], split: str) -> tuple[int, dict[str, int]]:
    """The pairs of a binarised split, and the tokens of each language, ends of sentences not counted."""
    from fairseq.data.data_utils import load_indexed_dataset

    prefix = data_bin / f"{split}.{'-'.join(languages)}"
    datasets = [load_indexed_dataset(f"{prefix}.{language}") for language in languages]
    pairs, *others = map(len, datasets)
    if others != [pairs]:
        raise StepError(f"the two sides of {split} are of unequal length: run again.")
    tokens = [int(dataset.sizes.sum()) - pairs for dataset in datasets]
    return pairs, dict(zip(languages, tokens, strict=True))


def dictionary_sizes(data_bin: Path, languages: tuple[str, str]) -> dict[str, int]:
    """The types of each dictionary, fairseq's own symbols counted."""
    from fairseq.data import Dictionary

    return {language: len(Dictionary.load(str(data_bin / f"dict.{language}.txt"))) for language in languages}


def sha256(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe(data_bin: Path, languages: tuple[str, str], histories: dict[str, History]) -> dict[str, object]:
    """What manifest.json says of binarised data and of the text it was made of."""
    splits, sources = {}, []
    for split, history in histories.items():
        pairs, tokens = count_tokens(data_bin, languages, split)
        if pairs != history.kept:
            raise StepError(f"lines of {split} are lost or repeated: run again.")
        splits[split] = {"pairs": pairs, "tokens": tokens, "steps": history.steps}
        sources += [source for source in history.sources if source not in sources]
    return {
        "sources": sources,
        "splits": splits,
        "dictionary_sizes": dictionary_sizes(data_bin, languages),
        "files": {path.name: f"sha256:{sha256(path)}" for path in sorted(data_bin.iterdir())},
    }


def write(path: Path, description: dict[str, object]) -> None:
    """Write JSON."""
    path.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
