"""manifest.json: the sources, settings, versions, counts and checksums of a data set."""

import hashlib
import json
from pathlib import Path

from ea_fairseq.data.history import History
from ea_fairseq.data.layout import Layout
from ea_fairseq.errors import UserError

SPLITS = ("train", "valid", "test")


def count_tokens(data_bin: Path, layout: Layout, split: str) -> tuple[int, dict[str, int]]:
    """The number of pairs of a binarised split, and of tokens of each side without ``</s>``.

    Raises:
        UserError: where the sides differ in their number of sentences.
    """
    from fairseq.data.data_utils import load_indexed_dataset

    datasets = [load_indexed_dataset(str(data_bin / layout.text(split, side))) for side in layout.sides]
    pairs, *others = map(len, datasets)
    if set(others) - {pairs}:
        raise UserError(f"the two sides of {split} are of unequal length: run again.")
    tokens = [int(dataset.sizes.sum()) - pairs for dataset in datasets]
    return pairs, dict(zip(layout.sides, tokens, strict=True))


def dictionary_sizes(data_bin: Path, layout: Layout) -> dict[str, int]:
    """The size of each dictionary, fairseq's special symbols included."""
    from fairseq.data import Dictionary

    return {side: len(Dictionary.load(str(data_bin / layout.dictionary(side)))) for side in layout.sides}


def sha256(path: Path) -> str:
    """The sha256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe(data_bin: Path, layout: Layout, histories: dict[str, History]) -> dict[str, object]:
    """The part of manifest.json that describes binarised data and the history of its text, by split.

    Raises:
        UserError: where a split has another number of pairs than its history says.
    """
    splits, sources = {}, []
    for split, history in histories.items():
        pairs, tokens = count_tokens(data_bin, layout, split)
        if pairs != history.kept:
            raise UserError(f"lines of {split} are lost or repeated: run again.")
        splits[split] = {"pairs": pairs, "tokens": tokens, "steps": history.steps}
        sources += [source for source in history.sources if source not in sources]
    files = sorted(path for path in data_bin.rglob("*") if path.is_file())
    return {
        "sources": sources,
        "splits": splits,
        "dictionary_sizes": dictionary_sizes(data_bin, layout),
        "files": {str(path.relative_to(data_bin)): f"sha256:{sha256(path)}" for path in files},
    }


def write(path: Path, description: dict[str, object]) -> None:
    """Write a description as indented JSON."""
    path.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
