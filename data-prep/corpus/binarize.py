"""Binarise the text of a corpus with fairseq-preprocess and describe the preparation in preparation.json."""

import argparse
import json
import logging
import shutil
import warnings
from pathlib import Path

from step import StepError, run

SPLITS = ("train", "valid", "test")


def preprocess(args: argparse.Namespace) -> None:
    """Call fairseq-preprocess and put its log where logs are kept."""
    warnings.simplefilter("ignore")
    logging.raiseExceptions = False
    from fairseq import options
    from fairseq_cli.preprocess import main as fairseq_preprocess

    command = ["--source-lang", args.source_lang, "--target-lang", args.target_lang]
    for split in SPLITS:
        command += [f"--{split}pref", str(getattr(args, f"{split}pref"))]
    command += ["--destdir", str(args.output), "--workers", str(args.workers)]
    command += ["--joined-dictionary"] * args.joined_dictionary
    fairseq_preprocess(options.get_preprocessing_parser().parse_args(command))
    logging.shutdown()
    shutil.move(args.output / "preprocess.log", args.log)


def count_sentences(data_bin: Path, split: str, languages: list[str]) -> int:
    """The number of pairs of a binarised split."""
    from fairseq.data.data_utils import load_indexed_dataset

    prefix = f"{split}.{'-'.join(languages)}"
    sizes = {len(load_indexed_dataset(str(data_bin / f"{prefix}.{language}"))) for language in languages}
    if len(sizes) > 1:
        raise StepError(
            f"fairseq-preprocess made sides of unequal length of {split}: run again with --workers 1."
        )
    return sizes.pop()


def describe(args: argparse.Namespace) -> dict[str, object]:
    """What preparation.json says."""
    languages = [args.source_lang, args.target_lang]
    splits = {"train": json.loads(args.cleaned.read_text(encoding="utf-8"))}
    if count_sentences(args.output, "train", languages) != splits["train"]["kept"]:
        raise StepError("fairseq-preprocess lost or repeated lines of train: run again with --workers 1.")
    for split in SPLITS[1:]:
        pairs = count_sentences(args.output, split, languages)
        splits[split] = {
            "read": pairs,
            "dropped": dict.fromkeys(splits["train"]["dropped"], 0),
            "kept": pairs,
        }
    from fairseq.data import Dictionary

    return {
        "source_lang": args.source_lang,
        "target_lang": args.target_lang,
        "tokenizer": args.tokenizer,
        "lowercase": args.lowercase,
        "subword": args.subword,
        "models": [model.name for model in args.models],
        "joined_dictionary": args.joined_dictionary,
        "dictionary_sizes": {
            language: len(Dictionary.load(str(args.output / f"dict.{language}.txt")))
            for language in languages
        },
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
    parser.add_argument("--tokenizer", required=True, help="for preparation.json, as the next ones")
    parser.add_argument("--lowercase", action="store_true")
    parser.add_argument("--subword", required=True)
    parser.add_argument(
        "--models", type=Path, nargs="*", default=[], help="subword models, copied beside the data"
    )
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
