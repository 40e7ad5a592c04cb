"""Binarise the text of a corpus with fairseq-preprocess and describe the preparation in preparation.json."""

import argparse
import json
import logging
import shutil
import sys
import traceback
import warnings
from pathlib import Path

from step import StepError, run

SPLITS = ("train", "valid", "test")


def preprocess(args: argparse.Namespace) -> None:
    """Call fairseq-preprocess and put its log where logs are kept."""
    warnings.simplefilter("ignore")
    logging.raiseExceptions = False
    logging.basicConfig(level="INFO", stream=sys.stdout, format="%(message)s")
    from fairseq import options
    from fairseq_cli.preprocess import main as fairseq_preprocess

    command = ["--source-lang", args.source_lang, "--target-lang", args.target_lang]
    for split in SPLITS:
        command += [f"--{split}pref", str(getattr(args, f"{split}pref"))]
    command += ["--destdir", str(args.output), "--workers", str(args.workers)]
    command += ["--joined-dictionary"] * args.joined_dictionary
    try:
        fairseq_preprocess(options.get_preprocessing_parser().parse_args(command))
    except OSError:
        raise
    except Exception as error:
        args.log.write_text(traceback.format_exc(), encoding="utf-8")
        raise StepError(f"fairseq-preprocess failed ({type(error).__name__}): see {args.log}.") from None
    shutil.move(args.output / "preprocess.log", args.log)


def count_sentences(data_bin: Path, split: str, languages: list[str]) -> int:
    """The number of pairs of a binarised split."""
    from fairseq.data.data_utils import load_indexed_dataset

    prefix = f"{split}.{'-'.join(languages)}"
    sizes = {len(load_indexed_dataset(str(data_bin / f"{prefix}.{language}"))) for language in languages}
    if len(sizes) > 1:
        raise StepError(f"fairseq-preprocess made unequal sides of {split}: run again with --workers 1.")
    return sizes.pop()


def describe(args: argparse.Namespace) -> dict[str, object]:
    """What preparation.json says."""
    languages = [args.source_lang, args.target_lang]
    splits = {"train": json.loads(args.cleaned.read_text(encoding="utf-8"))}
    if count_sentences(args.output, "train", languages) != splits["train"]["kept"]:
        raise StepError("fairseq-preprocess lost or repeated lines of train: run again with --workers 1.")
    for split in SPLITS[1:]:
        pairs = count_sentences(args.output, split, languages)
        dropped = dict.fromkeys(splits["train"]["dropped"], 0)
        splits[split] = {"read": pairs, "dropped": dropped, "kept": pairs}
    from fairseq.data import Dictionary

    dictionaries = {language: args.output / f"dict.{language}.txt" for language in languages}
    sizes = {language: len(Dictionary.load(str(path))) for language, path in dictionaries.items()}
    return {
        "source_lang": args.source_lang,
        "target_lang": args.target_lang,
        **json.loads(args.settings),
        "models": [model.name for model in args.models],
        "joined_dictionary": args.joined_dictionary,
        "dictionary_sizes": sizes,
        "splits": splits,
        "versions": dict(line.split() for line in args.versions.splitlines()),
    }


def main() -> None:
    """Binarise and describe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source-lang", required=True)
    parser.add_argument("--target-lang", required=True)
    for split in SPLITS:
        parser.add_argument(f"--{split}pref", type=Path, required=True, help="path without its language")
    parser.add_argument("--joined-dictionary", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--settings", default="{}", help="JSON object, for preparation.json")
    parser.add_argument("--models", type=Path, nargs="*", default=[], help="subword models, to copy")
    parser.add_argument("--versions", required=True, help="what tool_versions.py prints")
    parser.add_argument("--cleaned", type=Path, required=True, help="counts.json of the cleaning")
    parser.add_argument("--log", type=Path, required=True, help="where the log goes")
    parser.add_argument("output", type=Path, help="folder for the data")
    args = parser.parse_args()
    preprocess(args)
    for model in args.models:
        shutil.copyfile(model, args.output / model.name)
    description = json.dumps(describe(args), indent=2) + "\n"
    (args.output / "preparation.json").write_text(description, encoding="utf-8")


if __name__ == "__main__":
    run(main)
