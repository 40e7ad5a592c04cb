"""Binarise text as fairseq-preprocess does, and describe it in preparation.json and manifest.json."""

import argparse
import json
import logging
import shutil
import warnings
from pathlib import Path

from ea_fairseq.data import manifest
from ea_fairseq.data.layout import Layout
from ea_fairseq.data.manifest import SPLITS
from ea_fairseq.data.text_folder import TextFolder
from ea_fairseq.plain.commands import run

PREPARATION = ("source_lang", "target_lang", "tokenizer", "normalize", "dash_splits", "lowercase", "subword", "models")


def binarize(args: argparse.Namespace) -> None:
    """Write the dictionaries, and each split's sentences as token ids."""
    logging.getLogger("fairseq").setLevel("WARNING")
    warnings.simplefilter("ignore")
    from ea_fairseq.data.binary_text import make_dictionary

    languages = tuple(args.languages)
    folders = {split: TextFolder(getattr(args, split), languages) for split in SPLITS}
    files = [folders["train"].file(language) for language in languages]
    if args.joined_dictionary:
        dictionaries = [make_dictionary(files, args.workers)] * len(languages)
    else:
        dictionaries = [make_dictionary([file], args.workers) for file in files]
    args.output.mkdir()
    write_texts(args.output, Layout(languages), folders, dictionaries, args.workers)


def write_texts(output: Path, layout: Layout, folders: dict[str, TextFolder], dictionaries: list, workers: int) -> None:
    """Write the dictionary of each side, and the token ids of the sentences of each split, to a folder.

    Args:
        folders: text folders, by split.
        dictionaries: fairseq's, of the sides.
    """
    from ea_fairseq.data.binary_text import write_token_ids

    for side, dictionary in zip(layout.sides, dictionaries, strict=True):
        path = output / layout.dictionary(side)
        path.parent.mkdir(exist_ok=True)
        dictionary.save(str(path))
        for split, folder in folders.items():
            prefix = output / layout.text(split, side)
            write_token_ids(folder.file(side), folder.history.kept, dictionary, prefix, workers)


def setting(text: str) -> tuple[str, object]:
    """Parses NAME=VALUE; a value that is JSON, such as a number or true, is read as such."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of all steps that make a folder of data."""
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--settings", type=setting, nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_argument("--versions", default="", help="what tool_versions.py prints")
    parser.add_argument("--models", type=Path, nargs="*", default=[], help="subword models, to copy")
    parser.add_argument("output", type=Path, help="folder for the data")


def describe(
    args: argparse.Namespace, layout: Layout, folders: dict[str, TextFolder], more: dict, preparation: tuple[str, ...]
) -> None:
    """Copy the subword models into a folder of data and write preparation.json and manifest.json.

    Args:
        folders: of the text, by split.
        more: settings beside ``--settings``.
        preparation: names of the settings that preparation.json has.
    """
    for model in args.models:
        shutil.copyfile(model, args.output / model.name)
    settings = more | dict(args.settings) | {"models": [model.name for model in args.models]}
    manifest.write(args.output / "preparation.json", {name: settings[name] for name in preparation})
    histories = {split: folder.history for split, folder in folders.items()}
    versions = dict(line.split(maxsplit=1) for line in args.versions.splitlines())
    described = manifest.describe(args.output, layout, histories)
    manifest.write(args.output / "manifest.json", {"settings": settings, "versions": versions} | described)


def main() -> None:
    """Binarise and describe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--languages", nargs=2, required=True, metavar="LANGUAGE", help="source and target")
    for split in SPLITS:
        parser.add_argument(f"--{split}", type=Path, required=True, help="text folder")
    parser.add_argument("--joined-dictionary", action="store_true")
    add_data_options(parser)
    args = parser.parse_args()
    languages = tuple(args.languages)
    binarize(args)
    languages_by_role = dict(zip(("source_lang", "target_lang"), languages, strict=True))
    folders = {split: TextFolder(getattr(args, split), languages) for split in SPLITS}
    describe(args, Layout(languages), folders, languages_by_role, PREPARATION)


if __name__ == "__main__":
    run(main)
