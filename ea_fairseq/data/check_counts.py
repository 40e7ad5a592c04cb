"""Compares the counts in a manifest with those that are known of the full data."""

import json
import sys
from pathlib import Path

from ea_fairseq.errors import UserError


def counts(manifest: dict) -> dict[str, int]:
    """Counts of a manifest by name: pairs of each split, entries of each dictionary, non-empty training pairs, and of
    time series channels, classes and steps of the longest."""
    train = manifest["splits"]["train"]["steps"]
    return {
        **{split: description["pairs"] for split, description in manifest["splits"].items()},
        **manifest.get("series", {}),
        **{f"dict.{language}": size for language, size in manifest["dictionary_sizes"].items()},
        "with_text": sum(step["read"] - step["dropped"]["empty"] for step in train if step["step"] == "clean"),
    }


def differences(found: dict[str, int], known: dict[str, int]) -> str:
    """The counts that differ from the known ones, in words; empty where none does."""
    others = [f"{name} {found[name]} instead of {count}" for name, count in known.items() if found[name] != count]
    return ", ".join(others)


def check_counts(manifest: Path, known: dict[str, int], others: dict[str, int], strict: bool) -> None:
    """Notes on stderr the counts that differ from those of the full data.

    Args:
        known: counts by name.
        others: counts that others may have counted otherwise.
        strict: whether it is the full data, so that other counts than the known ones are an error.

    Raises:
        UserError: naming them.
    """
    found = counts(json.loads(manifest.read_text(encoding="utf-8")))
    wrong = differences(found, known)
    if wrong and strict:
        raise UserError(f"the counts are not those of the full data, so do not trust {manifest.parent}: {wrong}.")
    noted = ", ".join(filter(None, [wrong, differences(found, others)]))
    if noted:
        print(f"note: with the full data and the default options, counts would differ: {noted}.", file=sys.stderr)
