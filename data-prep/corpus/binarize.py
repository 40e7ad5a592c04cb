"""Binarise text with fairseq-preprocess, and describe it in preparation.json and manifest.json."""

import argparse
import json
import logging
import shutil
import sys
import traceback
import warnings
from pathlib import Path

import manifest
from manifest import SPLITS
from step import StepError, run
from text_folder import TextFolder

PARTS = 4  # of a file for each worker
LEAST_BYTES = 1000  # in a part
PREPARATION = ("source_lang", "target_lang", "tokenizer", "normalize", "dash_splits", "lowercase", "subword", "models")


def count_parts(args: argparse.Namespace) -> int:
    """How many parts fairseq-preprocess should cut a file into.

    It works on all parts but one at the same time, and then on the last one alone, so many parts keep all cores busy.
    """
    folders = [TextFolder(getattr(args, split), args.languages) for split in SPLITS]
    smallest = min(folder.file(language).stat().st_size for folder in folders for language in args.languages)
    return max(1, min(PARTS * args.workers, smallest // LEAST_BYTES))


def preprocess(args: argparse.Namespace) -> None:
    """Call fairseq-preprocess and put its log where logs are kept."""
    warnings.simplefilter("ignore")
    logging.raiseExceptions = False
    logging.basicConfig(level="INFO", stream=sys.stdout, format="%(message)s")
    from fairseq import options
    from fairseq_cli.preprocess import main as fairseq_preprocess

    source, target = args.languages
    command = ["--source-lang", source, "--target-lang", target]
    for split in SPLITS:
        command += [f"--{split}pref", str(getattr(args, split) / "text")]
    command += ["--destdir", str(args.output), "--workers", str(count_parts(args))]
    command += ["--joined-dictionary"] * args.joined_dictionary
    try:
        fairseq_preprocess(options.get_preprocessing_parser().parse_args(command))
    except OSError:
        raise
    except Exception as error:
        args.log.write_text(traceback.format_exc(), encoding="utf-8")
        raise StepError(f"fairseq-preprocess failed ({type(error).__name__}): see {args.log}.") from None
    shutil.move(args.output / "preprocess.log", args.log)


def setting(text: str) -> tuple[str, object]:
    """The name and value of NAME=VALUE; numbers, true and false are what they are in JSON."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def main() -> None:
    """Binarise and describe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--languages", nargs=2, required=True, metavar="LANGUAGE", help="source and target")
    for split in SPLITS:
        parser.add_argument(f"--{split}", type=Path, required=True, help="text folder, not compressed")
    parser.add_argument("--joined-dictionary", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--settings", type=setting, nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_argument("--versions", default="", help="what tool_versions.py prints")
    parser.add_argument("--models", type=Path, nargs="*", default=[], help="subword models, to copy")
    parser.add_argument("--log", type=Path, required=True, help="where the log goes")
    parser.add_argument("output", type=Path, help="folder for the data")
    args = parser.parse_args()
    languages = tuple(args.languages)
    preprocess(args)
    for model in args.models:
        shutil.copyfile(model, args.output / model.name)
    languages_by_role = dict(zip(("source_lang", "target_lang"), languages, strict=True))
    settings = languages_by_role | dict(args.settings) | {"models": [model.name for model in args.models]}
    manifest.write(args.output / "preparation.json", {name: settings[name] for name in PREPARATION})
    histories = {split: TextFolder(getattr(args, split), languages).history for split in SPLITS}
    versions = dict(line.split(maxsplit=1) for line in args.versions.splitlines())
    description = {"settings": settings, "versions": versions} | manifest.describe(args.output, languages, histories)
    manifest.write(args.output / "manifest.json", description)


if __name__ == "__main__":
    run(main)
