"""manifest.json: the sources, settings, versions, counts and checksums of binarised data."""

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ea_fairseq.data.text_folder import History
from ea_fairseq.errors import UserError

BACK_TRANSLATIONS = "train1"  # fairseq reads it after train, and --upsample-primary does not repeat it
TRAINING = ("train", BACK_TRANSLATIONS)
PARTS = (*TRAINING, "valid", "test")
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Layout:
    """The names of files in a folder of data for translation; ``sides`` are source and target."""

    sides: tuple[str, ...]

    def text(self, split: str, side: str) -> str:
        """The path of a side's sentences, without .bin and .idx."""
        return f"{split}.{'-'.join(self.sides)}.{side}"

    def dictionary(self, side: str) -> str:
        """The path of a side's dictionary."""
        return f"dict.{side}.txt"


class SentenceLayout(Layout):
    """The names of files in a folder of data for ``sentence_prediction``; ``sides`` are input0 and input1."""

    def text(self, split: str, side: str) -> str:
        """The path of a side's sentences, without .bin and .idx."""
        return f"{side}/{split}"

    def dictionary(self, side: str) -> str:
        """The path of a side's dictionary."""
        return f"{side}/dict.txt"


class TextLayout(Layout):
    """The names of files in a folder of plain text, which has one side."""

    def text(self, split: str, side: str) -> str:
        """The path of the sentences, without .bin and .idx."""
        return split

    def dictionary(self, side: str) -> str:
        """The path of the dictionary."""
        return "dict.txt"


def count_tokens(data_bin: Path, layout: Layout, split: str) -> tuple[int, dict[str, int]]:
    """Counts the pairs of a binarised split, and the tokens of each side without ``</s>``.

    Raises:
        UserError: if the sides differ in their number of sentences.
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


def checksums(folder: Path) -> dict[str, str]:
    """The checksum of each file in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): f"sha256:{sha256(path)}" for path in files}


def describe(data_bin: Path, layout: Layout, histories: dict[str, History]) -> dict[str, object]:
    """The part of manifest.json that describes binarised data and the history of its text, by split."""
    splits, sources = {}, []
    for split, history in histories.items():
        pairs, tokens = count_tokens(data_bin, layout, split)
        splits[split] = {"pairs": pairs, "tokens": tokens, "steps": history.steps}
        sources += [source for source in history.sources if source not in sources]
    sizes = dictionary_sizes(data_bin, layout)
    return {"sources": sources, "splits": splits, "dictionary_sizes": sizes, "files": checksums(data_bin)}


def write(path: Path, description: Mapping[str, object]) -> None:
    """Writes a description as indented JSON."""
    path.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def counts(manifest: dict) -> dict[str, int]:
    """Returns a manifest's counts by name: pairs of each split, entries of each dictionary, non-empty training pairs;
    for time series, channels, classes and steps of the longest; for graphs, nodes, edges, features and classes; for
    images, height, width, channels and classes."""
    train = manifest["splits"]["train"]["steps"]
    return {
        **{split: description["pairs"] for split, description in manifest["splits"].items()},
        **manifest.get("series", {}),
        **manifest.get("graph", {}),
        **manifest.get("images", {}),
        **{f"dict.{language}": size for language, size in manifest["dictionary_sizes"].items()},
        "with_text": sum(step["read"] - step["dropped"]["empty"] for step in train if step["step"] == "clean"),
    }


def differences(found: dict[str, int], known: Mapping[str, int]) -> str:
    """Describes the counts that differ from the known ones; empty if none does."""
    others = [f"{name} {found[name]} instead of {count}" for name, count in known.items() if found[name] != count]
    return ", ".join(others)


def check_counts(data_bin: Path, known: Mapping[str, int], others: Mapping[str, int], strict: bool) -> None:
    """Prints to stderr which counts in a folder's manifest differ from those of the full data.

    Args:
        known: counts by name.
        others: counts that others may have computed differently.
        strict: whether this is the full data, so that counts other than the known ones are an error.

    Raises:
        UserError: naming the wrong counts.
    """
    found = counts(json.loads((data_bin / MANIFEST).read_text(encoding="utf-8")))
    wrong = differences(found, known)
    if wrong and strict:
        raise UserError(f"the counts are not those of the full data, so do not trust {data_bin}: {wrong}.")
    noted = ", ".join(filter(None, [wrong, differences(found, others)]))
    if noted:
        print(f"note: with the full data and the default options, counts would differ: {noted}.", file=sys.stderr)
