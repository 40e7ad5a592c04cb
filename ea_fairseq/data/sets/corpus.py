"""Sentence pairs of one's own: train|valid|test.{xx,yy}, plain or gzipped, checked and linked into text folders."""

import hashlib
import re
from argparse import Namespace
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ea_fairseq.data.manifest import SPLITS
from ea_fairseq.data.options import PAIRS
from ea_fairseq.data.pairs import SentencePairs
from ea_fairseq.data.text_folder import History
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import checked_lines, find_file, progress, tidy


class OwnCorpus(SentencePairs):
    """The sentence pairs of a folder."""

    def prepare(self, options: Namespace) -> None:
        """Makes its data, or shows what there is to make; raises UserError for bad options and where a step fails."""
        corpus, path = options.given
        check_languages(options)
        folder = self.output_folder(path)
        plan = self.text_plan(folder, options)
        folder.say(f"checking {corpus}")
        for part, files in check_corpus(Path(corpus), plan.sides).items():
            make = partial(link_split, languages=plan.sides, files=files)
            checksums = [(file.path.name, file.checksum) for file in files]
            place = str(Path(corpus).absolute())
            plan.add(f"corpus/{part}", make, checksums, unsized="linked", place=place)
            plan.add_source(f"corpus/{part}", part, sum(file.size for file in files) if part == "train" else 0)
        chosen = replace(self, normalized=()) if options.no_normalize else self
        chosen.plan_data(plan, folder)


def check_languages(options: Namespace) -> None:
    """Raises UserError for what are no two languages."""
    for flag, language, example in (
        ("--source-lang", options.source_lang, "de"),
        ("--target-lang", options.target_lang, "en"),
    ):
        if not re.fullmatch("[A-Za-z0-9_]{1,64}", language):
            raise UserError(f"{flag} needs a language, the suffix of its files (such as {example}), not '{language}'.")
    if options.source_lang == options.target_lang:
        raise UserError(f"--source-lang and --target-lang are both {options.source_lang}: they must differ.")


@dataclass(frozen=True)
class CheckedFile:
    """A file of text that has passed :func:`check_file`; ``size`` and ``checksum`` (sha256) are of its text."""

    path: Path
    lines: int
    size: int
    checksum: str


def check_file(path: Path, name: str) -> CheckedFile:
    """Reads a file to its end and checks it.

    Raises:
        UserError: where it is empty, damaged or not UTF-8, or a file other than train has an empty line.
    """
    digest = hashlib.sha256()
    number = size = 0
    for number, line in progress(checked_lines(path), name):
        digest.update(line)
        size += len(line)
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        if not name.startswith("train.") and not tidy(text):
            raise UserError(
                f"line {number} of {path} is empty, and valid and test keep every line: remove it from both languages."
            )
    if number == 0:
        raise UserError(f"{path} is empty: put its sentences there, one a line.")
    return CheckedFile(path, number, size, digest.hexdigest())


def check_corpus(corpus: Path, languages: tuple[str, ...]) -> dict[str, tuple[CheckedFile, CheckedFile]]:
    """Checks all files of a corpus, and returns those of each split.

    Raises:
        UserError: where a file is missing or wrong, or the two of a split differ in their number of lines.
    """
    if not corpus.is_dir():
        raise UserError(f"there is no folder {corpus}: give the folder that holds the text of the corpus.")
    names = [f"{split}.{language}" for split in SPLITS for language in languages]
    paths = [find_file(corpus, name) for name in names]
    files = [check_file(path, name) for path, name in zip(paths, names, strict=True)]
    splits = dict(zip(SPLITS, zip(files[::2], files[1::2], strict=True), strict=True))
    for source, target in splits.values():
        if source.lines != target.lines:
            raise UserError(
                f"{source.path} has {source.lines} lines and {target.path} has {target.lines}: "
                "line by line they must be translations of each other."
            )
    return splits


def link_split(output: Path, *, languages: tuple[str, ...], files: tuple[CheckedFile, CheckedFile]) -> None:
    """Makes a text folder of the two files of a split, by links to them."""
    output.mkdir()
    for language, file in zip(languages, files, strict=True):
        suffix = ".gz" if file.path.suffix == ".gz" else ""
        (output / f"text.{language}{suffix}").symlink_to(file.path.absolute())
    lines = files[0].lines
    history = History([{"file": file.path.name, "sha256": file.checksum} for file in files])
    history.then("read", lines, Counter(), lines).write(output)


DATA_SET = OwnCorpus(
    name="corpus",
    summary="text of your own: train|valid|test.{xx,yy}",
    description="""\
Turns the sentence pairs train|valid|test.{xx,yy} (plain or .gz) in CORPUS_DIR into fairseq data in OUT_DIR/data-bin,
with the subword model, preparation.json and manifest.json beside the data. If interrupted, run it
again to resume.""",
    examples=(
        "--source-lang de --target-lang en --lowercase --merges 6000 --joined-dictionary data/multi30k "
        "data/multi30k-prepared",
    ),
    asks=("CORPUS_DIR", "OUT_DIR"),
    languages=(("", ""),),
    shared=PAIRS | {"source_lang", "target_lang", "tokenizer", "no_normalize", "dash_splits", "lowercase"},
)
