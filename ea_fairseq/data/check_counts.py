"""Compare the counts in a manifest with those that are known of the full data."""

import argparse
import json
import sys
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.plain.commands import run


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


def differences(found: dict[str, int], known: dict[str, str]) -> str:
    """The counts that differ from the known ones, in words; empty where none does."""
    others = [f"{name} {found[name]} instead of {count}" for name, count in known.items() if found[name] != int(count)]
    return ", ".join(others)


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strict", action="store_true", help="other counts are an error, not a note")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("known", nargs="*", help="NAME=COUNT, or NAME~COUNT for what others may have counted otherwise")
    args = parser.parse_args()
    found = counts(json.loads(args.manifest.read_text(encoding="utf-8")))
    certain = dict(item.split("=") for item in args.known if "=" in item)
    others = dict(item.split("~") for item in args.known if "~" in item)
    wrong = differences(found, certain)
    if wrong and args.strict:
        raise UserError(f"the counts are not those of the full data, so do not trust {args.manifest.parent}: {wrong}.")
    noted = ", ".join(filter(None, [wrong, differences(found, others)]))
    if noted:
        print(f"note: with the full data and the default options, counts would differ: {noted}.", file=sys.stderr)


if __name__ == "__main__":
    run(main)
