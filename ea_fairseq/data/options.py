"""The options of ``ea-fairseq prepare`` that data sets share, and the settings that text depends on."""

import os
import re
from argparse import ArgumentTypeError, Namespace, _ActionsContainer
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

from ea_fairseq.data.archives import TABLE, Sources, accepted_checksums, read_table
from ea_fairseq.plain.commands import Parser, at_least


class Option(NamedTuple):
    """An option.

    Args:
        name: of its value; the flag has hyphens.
        metavar: what stands for the value in the help; None for a switch.
        parse: makes the value of text.
        default: its value on a command line without it.
        help: what it means; the help tells the default, too.
    """

    name: str
    metavar: str | None
    parse: Callable[[str], Any] | None
    default: object
    help: str

    def add_to(self, parser: _ActionsContainer) -> None:
        """Adds it to a parser, or a group of one, that knows its default."""
        flag, default = f"--{self.name.replace('_', '-')}", parser.get_default(self.name)
        if not self.metavar:
            told = " (default)" if default else ""
            parser.add_argument(flag, action="store_true", help=self.help + told)
        elif isinstance(default, list):
            parser.add_argument(flag, action="append", metavar=self.metavar, help=self.help)
        else:
            is_told = default in (None, "") or "(default" in self.help
            told = "" if is_told else " (default: %(default)s)"
            parse = self.parse or str
            parser.add_argument(flag, type=parse, metavar=self.metavar, help=self.help + told)


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


def host(text: str) -> str:
    """A parser of hosts, with or without a folder."""
    if re.fullmatch("https?://[^/?#]+(/[^?#]*)?", text):
        return text
    raise ArgumentTypeError(f"needs an address such as https://host/folder, not '{text}'")


def number(text: str) -> int | float:
    """A whole number, or another one, as it is written."""
    return int(text) if text.isdigit() else float(text)


COUNT = at_least(1)
CORES = os.cpu_count() or 1
GROUPS = {
    "languages": (
        Option("source_lang", "xx", str, "", "language of the source, the suffix of its files"),
        Option("target_lang", "yy", str, "", "language of the target, the suffix of its files"),
    ),
    "archives": (
        Option("archives", "DIR", folder, None, "use the archives in DIR, and download only those that are missing"),
        Option(
            "mirror",
            "URL",
            host,
            None,
            "download from this host, such as http://localhost:8000, instead of the known ones",
        ),
        Option("accept", "NAME=SUM", str, [], "trust an archive with this checksum, sha256:..., not the known one"),
    ),
    "text": (
        Option("tokenizer", "NAME", one_of("moses", "none"), "moses", "moses, or none for text that is tokenized"),
        Option("moses", "DIR", folder, None, "tokenize with Moses' scripts in DIR (default: their port, sacremoses)"),
        Option("no_normalize", None, None, False, "do not normalise punctuation (default: normalise it like Moses)"),
        Option("dash_splits", None, None, False, 'split words at hyphens, as in "mother @-@ in @-@ law"'),
        Option("lowercase", None, None, False, "lower-case the text"),
    ),
    "subwords": (
        Option("subword", "NAME", one_of("bpe", "sentencepiece", "none"), "bpe", "bpe, sentencepiece or none"),
        Option("separate_subword", None, None, False, "learn a subword model for each language, not one for both"),
        Option("merges", "N", COUNT, 10_000, "BPE merges"),
        Option("model_type", "NAME", one_of("unigram", "bpe"), "unigram", "unigram or bpe, of sentencepiece"),
        Option("vocab_size", "N", COUNT, 8000, "sentencepiece vocabulary"),
        Option(
            "joined_dictionary",
            None,
            None,
            False,
            "use one dictionary for both languages, as --share-all-embeddings needs",
        ),
        Option("threshold", "N", COUNT, 1, "replace words or subwords that occur less often by <unk>"),
    ),
    "training text": (
        Option("max_length", "N", COUNT, 175, "drop training pairs with a side of more than N tokens"),
        Option("ratio", "R", at_least(1, number), 1.5, "drop training pairs with a side over R times the other"),
        Option("subsample", "N", COUNT, None, "draw N training examples at random, for a trial"),
        Option("seed", "N", at_least(0), 1, "seed of the draw of --subsample"),
    ),
    "work": (
        Option(
            "workers", "N", COUNT, CORES, "number of processes; results do not depend on it (default: one per core)"
        ),
        Option("compress", None, None, False, "gzip the training text between the steps"),
        Option("remove_intermediate", None, None, False, "remove text as soon as no further step needs it"),
        Option("dry_run", None, None, False, "print the steps and the disk space they need, and do nothing"),
    ),
}
DEFAULTS = {option.name: option.default for group in GROUPS.values() for option in group}
ARCHIVES = frozenset({"archives", "mirror", "accept"})
WORK = frozenset({"workers", "compress", "remove_intermediate", "dry_run"})
SUBWORDS = frozenset({"moses", "subword", "merges", "model_type", "vocab_size", "subsample", "seed"})
PAIRS = SUBWORDS | WORK | {"separate_subword", "joined_dictionary", "max_length", "ratio"}
SENTENCES = SUBWORDS | WORK | {"lowercase", "threshold"}


def add_options(parser: Parser, names: Collection[str]) -> None:
    """Adds the shared options of these names, in groups."""
    for title, options in GROUPS.items():
        wanted = [option for option in options if option.name in names]
        if wanted:
            group = parser.add_argument_group(title)
            for option in wanted:
                option.add_to(group)


def sources(options: Namespace, table: Path = TABLE) -> Sources:
    """Where archives come from by the options; raises UserError for a bad ``--accept``."""
    places = read_table(table)
    return Sources(places, options.archives, options.mirror, accepted_checksums(options.accept, places))


def text_settings(options: Namespace, names: tuple[str, ...], normalized: Collection[str]) -> dict[str, object]:
    """The settings of these names, of subwords and of a sample, as manifest.json has them.

    Args:
        normalized: splits whose punctuation is normalised, by which ``normalize`` is set.
    """
    subword = {"bpe": ("merges",), "sentencepiece": ("model_type", "vocab_size")}.get(options.subword, ())
    sample = ("subsample", "seed") if options.subsample else ()
    known = vars(options) | {"normalize": "train" in normalized}
    return {name: known[name] for name in (*names, *subword, *sample)}
