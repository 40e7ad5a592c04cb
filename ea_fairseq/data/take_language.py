"""Takes one language of binarised sentence pairs, in the names that fairseq's masked_lm reads, and describes it."""

import json
import shutil
from pathlib import Path

from ea_fairseq.data import manifest
from ea_fairseq.errors import UserError

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


def take_language(output: Path, *, data: Path, language: str, files: list[Path]) -> None:
    """Copies a language to a new folder.

    Args:
        data: folder of the binarised pairs.
        files: of the language in it.
    """
    output.mkdir()
    shutil.copyfile(data / f"dict.{language}.txt", output / "dict.txt")
    for file in files:
        shutil.copyfile(file, output / f"{file.name.partition('.')[0]}{file.suffix}")
    preparation = prepared(data, language)
    for model in preparation.get("models", []):
        shutil.copyfile(data / model, output / model)
    if preparation:
        manifest.write(output / PREPARATION, preparation)
    manifest.write(output / MANIFEST, described(data, output, language))
