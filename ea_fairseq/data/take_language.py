"""Take one language of binarised sentence pairs, in the names that fairseq's masked_lm reads, and describe it."""

import argparse
import json
import shutil
from pathlib import Path

from ea_fairseq.data import manifest
from ea_fairseq.errors import UserError
from ea_fairseq.plain.commands import run

PREPARATION, MANIFEST = "preparation.json", "manifest.json"
KEPT = ("tokenizer", "normalize", "dash_splits", "lowercase", "subword")


def prepared(data: Path, language: str) -> dict[str, object]:
    """What preparation.json of a language alone says; nothing where the pairs have none.

    Raises:
        UserError: where it is not what a preparation writes.
    """
    if not (data / PREPARATION).is_file():
        return {}
    try:
        pairs = json.loads((data / PREPARATION).read_text(encoding="utf-8"))
        side, models = (pairs["source_lang"], pairs["target_lang"]).index(language), pairs["models"]
        taken = models[side:][:1] or models[:1]
        if any(Path(name).name != name for name in taken):
            raise ValueError("a path, where a file beside it is meant")
        return {name: pairs[name] for name in KEPT} | {"models": taken}
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{data / PREPARATION} is not what a preparation writes: prepare the pairs again.") from None


def described(data: Path, output: Path, language: str) -> dict[str, object]:
    """The manifest.json of a language: of which pairs it is, where they have one of theirs, and its checksums."""
    pairs = data / MANIFEST
    return {
        "settings": {"dataset": "prepare-masked-lm", "language": language},
        "sources": [{"file": MANIFEST, "sha256": manifest.sha256(pairs)}] if pairs.is_file() else [],
        "files": {path.name: f"sha256:{manifest.sha256(path)}" for path in sorted(output.iterdir())},
    }


def main() -> None:
    """Copy and describe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--language", required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder of the binarised pairs")
    parser.add_argument("files", type=Path, nargs="+", help="of the language")
    parser.add_argument("output", type=Path, help="folder for the data")
    args = parser.parse_args()
    args.output.mkdir()
    shutil.copyfile(args.data / f"dict.{args.language}.txt", args.output / "dict.txt")
    for file in args.files:
        shutil.copyfile(file, args.output / f"{file.name.partition('.')[0]}{file.suffix}")
    preparation = prepared(args.data, args.language)
    for model in preparation.get("models", []):
        shutil.copyfile(args.data / model, args.output / model)
    if preparation:
        manifest.write(args.output / PREPARATION, preparation)
    manifest.write(args.output / MANIFEST, described(args.data, args.output, args.language))


if __name__ == "__main__":
    run(main)
