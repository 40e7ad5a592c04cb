"""The options of ``ea-fairseq prepare`` that data sets share, and the settings that text depends on."""

import os
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Collection
from pathlib import Path

from ea_fairseq.data.archives import read_table
from ea_fairseq.data.download import TABLE, Sources, accepted_checksums
from ea_fairseq.plain.commands import Parser, at_least

DEFAULTS = {
    "tokenizer": "moses",
    "moses": None,
    "no_normalize": False,
    "dash_splits": False,
    "lowercase": False,
    "subword": "bpe",
    "separate_subword": False,
    "merges": 10_000,
    "model_type": "unigram",
    "vocab_size": 8000,
    "joined_dictionary": False,
    "max_length": 175,
    "ratio": 1.5,
    "threshold": 1,
    "subsample": None,
    "seed": 1,
    "workers": os.cpu_count() or 1,
    "compress": False,
    "remove_intermediate": False,
    "dry_run": False,
    "archives": None,
    "mirror": None,
    "accept": [],
}  # of all options that data sets share, whether a data set has them or not


def one_of(*names: str) -> Callable[[str], str]:
    """A parser of names."""

    def checked(text: str) -> str:
        if text in names:
            return text
        raise ArgumentTypeError(f"needs {', '.join(names[:-1])} or {names[-1]}, not '{text}'")

    return checked


def folder(text: str) -> Path:
    """A parser of folders that are there."""
    if Path(text).is_dir():
        return Path(text).absolute()
    raise ArgumentTypeError(f"there is no folder {text}")


def number(text: str) -> int | float:
    """A whole number, or another one, as it is written."""
    return int(text) if text.isdigit() else float(text)


def add_archive_options(parser: Parser) -> None:
    """Adds the options of data sets that are downloaded."""
    group = parser.add_argument_group("archives")
    group.add_argument(
        "--archives", type=folder, metavar="DIR", help="use the archives that are in DIR, and download the others only"
    )
    group.add_argument(
        "--mirror",
        metavar="URL",
        help="download from this host, such as http://localhost:8000, instead of those known",
    )
    group.add_argument(
        "--accept",
        action="append",
        metavar="NAME=SUM",
        help="trust an archive with this checksum, sha256:..., whatever the known one is",
    )


def sources(options: Namespace, table: Path = TABLE) -> Sources:
    """Where archives come from by the options; raises UserError for bad ones."""
    places = read_table(table)
    return Sources(options.archives, options.mirror, accepted_checksums(options.accept, places), places)


def add_text_options(parser: Parser, own: Collection[str] = (), pairs: bool = True) -> None:
    """Adds the options of tokens, subwords and training text.

    Args:
        own: options of tokens that a data set has, where others have a fixed setting.
        pairs: whether the text is sentence pairs, for translation.
    """
    text = parser.add_argument_group("text")
    if "tokenizer" in own:
        text.add_argument(
            "--tokenizer",
            type=one_of("moses", "none"),
            metavar="NAME",
            help="moses, or none for text that is already tokenized (default: %(default)s)",
        )
    text.add_argument(
        "--moses",
        type=folder,
        metavar="DIR",
        help="tokenize with the scripts of Moses in DIR (default: sacremoses, its translation to Python)",
    )
    if "no_normalize" in own:
        text.add_argument(
            "--no-normalize",
            action="store_true",
            help="leave punctuation as it is; by default it is normalised as Moses does",
        )
    if "dash_splits" in own:
        text.add_argument(
            "--dash-splits", action="store_true", help='split words at hyphens, as in "mother @-@ in @-@ law"'
        )
    if "lowercase" in own:
        text.add_argument("--lowercase", action="store_true", help="lower-case the text")
    add_subword_options(parser, pairs)
    training = parser.add_argument_group("training text")
    if pairs:
        training.add_argument(
            "--max-length",
            type=at_least(1),
            metavar="N",
            help="drop training pairs with a side of more than N tokens (default: %(default)s)",
        )
        training.add_argument(
            "--ratio",
            type=at_least(1, number),
            metavar="R",
            help="drop training pairs where one side is over R times as long as the other (default: %(default)s)",
        )
    unit = "pairs" if pairs else "examples"
    training.add_argument(
        "--subsample", type=at_least(1), metavar="N", help=f"draw N training {unit} at random, for a trial"
    )
    training.add_argument(
        "--seed", type=at_least(0), metavar="N", help="seed of the draw of --subsample (default: %(default)s)"
    )


def add_subword_options(parser: Parser, pairs: bool) -> None:
    """Adds the options of subwords and dictionaries."""
    subwords = parser.add_argument_group("subwords")
    subwords.add_argument(
        "--subword",
        type=one_of("bpe", "sentencepiece", "none"),
        metavar="NAME",
        help="bpe, sentencepiece or none (default: %(default)s)",
    )
    subwords.add_argument("--merges", type=at_least(1), metavar="N", help="BPE merges (default: %(default)s)")
    subwords.add_argument(
        "--model-type",
        type=one_of("unigram", "bpe"),
        metavar="NAME",
        help="unigram or bpe, of sentencepiece (default: %(default)s)",
    )
    subwords.add_argument(
        "--vocab-size", type=at_least(1), metavar="N", help="sentencepiece vocabulary (default: %(default)s)"
    )
    if not pairs:
        subwords.add_argument(
            "--threshold",
            type=at_least(1),
            metavar="N",
            help="words or subwords that are seen less often are <unk> (default: %(default)s)",
        )
        return
    subwords.add_argument(
        "--separate-subword",
        action="store_true",
        help="learn one subword model for each language (default: one for both)",
    )
    is_default = " (default)" if parser.get_default("joined_dictionary") else ""
    subwords.add_argument(
        "--joined-dictionary",
        action="store_true",
        help=f"one dictionary for both languages, as --share-all-embeddings needs{is_default}",
    )


def add_work_options(parser: Parser) -> None:
    """Adds the options of how the work is done, on which the result does not depend."""
    work = parser.add_argument_group("work")
    work.add_argument(
        "--workers",
        type=at_least(1),
        metavar="N",
        help="processes to work with; the result is the same for any N (default: the number of cores)",
    )
    work.add_argument("--compress", action="store_true", help="gzip the training text between the steps")
    work.add_argument(
        "--remove-intermediate", action="store_true", help="remove text as soon as no further step needs it"
    )
    add_dry_run(work)


def add_dry_run(parser) -> None:
    """Adds ``--dry-run``."""
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print what there is to do, and the disk it needs, and do nothing",
    )


def pair_settings(options: Namespace, normalized: Collection[str]) -> dict[str, object]:
    """The settings that prepared sentence pairs depend on, as manifest.json has them.

    Args:
        normalized: splits whose punctuation is normalised.
    """
    switches = ("lowercase", "dash_splits", "separate_subword", "joined_dictionary")
    values = ("tokenizer", "subword", "max_length", "ratio")
    return text_settings(options, normalized, switches, values)


def sentence_settings(options: Namespace, normalized: Collection[str]) -> dict[str, object]:
    """Those that labelled sentences depend on."""
    return text_settings(options, normalized, ("lowercase",), ("tokenizer", "subword", "threshold"))


def text_settings(
    options: Namespace, normalized: Collection[str], switches: tuple[str, ...], values: tuple[str, ...]
) -> dict[str, object]:
    """The settings of these names, and those of subwords and of a sample."""
    subword = {"bpe": ("merges",), "sentencepiece": ("model_type", "vocab_size")}.get(options.subword, ())
    sample = ("subsample", "seed") if options.subsample else ()
    names = (*switches, "normalize", *values, *subword, *sample)
    return {name: "train" in normalized if name == "normalize" else getattr(options, name) for name in names}
