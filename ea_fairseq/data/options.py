"""The options of ``ea-fairseq prepare`` that data sets share, and the settings that text depends on."""

import os
import re
from argparse import ArgumentTypeError, Namespace, _ActionsContainer
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

from ea_fairseq.data.archives import TABLE, Sources, accepted_checksums, read_table
from ea_fairseq.plain.commands import Parser, at_least
from ea_fairseq.plain.flags import flag_of


class Option(NamedTuple):
    """An option.

    Args:
        name: name of its value; the flag has hyphens instead of underscores.
        metavar: placeholder of the value in the help; None for a switch.
        default: its value if it is not given; if this is a list, each use of the flag adds an item.
        help: its meaning; the default is added, unless it is empty.
        parse: parses the value.
        choices: the valid values.
    """

    name: str
    metavar: str | None
    default: object
    help: str
    parse: Callable[[str], Any] = str
    choices: tuple[str, ...] | None = None

    def add_to(self, parser: _ActionsContainer) -> None:
        """Adds it to a parser, or a group of one, whose default for it is set."""
        flag, default = flag_of(self.name), parser.get_default(self.name)
        if not self.metavar:
            parser.add_argument(flag, action="store_true", help=self.help + (" (default)" if default else ""))
            return
        shown = "" if default in (None, "", []) or "(default" in self.help else " (default: %(default)s)"
        how: dict[str, Any] = {"action": "append"} if isinstance(default, list) else {"choices": self.choices}
        parser.add_argument(flag, type=self.parse, metavar=self.metavar, help=self.help + shown, **how)


def folder(text: str) -> Path:
    """Parses the path of an existing folder."""
    if Path(text).is_dir():
        return Path(text).absolute()
    raise ArgumentTypeError(f"there is no folder {text}")


def host(text: str) -> str:
    """Parses the address of a host, with or without a folder."""
    if re.fullmatch("https?://[^/?#]+(/[^?#]*)?", text):
        return text
    raise ArgumentTypeError(f"needs an address such as https://host/folder, not '{text}'")


def number(text: str) -> int | float:
    """Parses digits as a whole number, and other text as a float."""
    return int(text) if text.isdigit() else float(text)


COUNT = at_least(1)
CORES = os.cpu_count() or 1
GROUPS = {
    "languages": (
        Option("source_lang", "xx", "", "language of the source, the suffix of its files"),
        Option("target_lang", "yy", "", "language of the target, the suffix of its files"),
    ),
    "archives": (
        Option("archives", "DIR", None, "use the archives in DIR, and download only those that are missing", folder),
        Option(
            "mirror", "URL", None, "download from this host, such as http://localhost:8000, not the known ones", host
        ),
        Option("accept", "NAME=SUM", [], "trust an archive with this checksum, sha256:..., not the known one"),
    ),
    "text": (
        Option("tokenizer", "NAME", "moses", "moses, or none for tokenized text", choices=("moses", "none")),
        Option("moses", "DIR", None, "tokenize with Moses' scripts in DIR (default: their port, sacremoses)", folder),
        Option("no_normalize", None, False, "do not normalise punctuation (default: normalise it like Moses)"),
        Option("dash_splits", None, False, 'split words at hyphens, as in "mother @-@ in @-@ law"'),
        Option("lowercase", None, False, "lower-case the text"),
    ),
    "subwords": (
        Option("subword", "NAME", "bpe", "bpe, sentencepiece or none", choices=("bpe", "sentencepiece", "none")),
        Option("separate_subword", None, False, "learn a subword model for each language, not one for both"),
        Option("merges", "N", 10_000, "number of BPE merges", COUNT),
        Option("model_type", "NAME", "unigram", "sentencepiece model: unigram or bpe", choices=("unigram", "bpe")),
        Option("vocab_size", "N", 8000, "size of a sentencepiece vocabulary", COUNT),
        Option("joined_dictionary", None, False, "one dictionary for both languages, as --share-all-embeddings needs"),
        Option("threshold", "N", 1, "replace words or subwords that occur less often by <unk>", COUNT),
    ),
    "training text": (
        Option("max_length", "N", 175, "drop training pairs with a side of more than N tokens", COUNT),
        Option("ratio", "R", 1.5, "drop training pairs with a side over R times the other", at_least(1, number)),
        Option("subsample", "N", None, "draw N training examples at random, for a trial", COUNT),
        Option("seed", "N", 1, "seed of the draw of --subsample", at_least(0)),
    ),
    "work": (
        Option(
            "workers", "N", CORES, "number of processes; results do not depend on it (default: one per core)", COUNT
        ),
        Option("compress", None, False, "gzip the training text between the steps"),
        Option("remove_intermediate", None, False, "remove text as soon as no further step needs it"),
        Option("dry_run", None, False, "print the steps and the disk space they need, and do nothing"),
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
        if wanted := [option for option in options if option.name in names]:
            group = parser.add_argument_group(title)
            for option in wanted:
                option.add_to(group)


def sources(options: Namespace, table: Path = TABLE) -> Sources:
    """Returns the sources of archives that the options name; raises UserError for a bad ``--accept``."""
    places = read_table(table)
    return Sources(places, options.archives, options.mirror, accepted_checksums(options.accept, places))


def text_settings(options: Namespace, names: tuple[str, ...], normalized: Collection[str]) -> dict[str, object]:
    """Returns the settings of these names, of subwords and of sampling, as in manifest.json.

    Args:
        normalized: splits whose punctuation is normalised; ``normalize`` says whether train is one.
    """
    subword = {"bpe": ("merges",), "sentencepiece": ("model_type", "vocab_size")}.get(options.subword, ())
    sample = ("subsample", "seed") if options.subsample else ()
    known = vars(options) | {"normalize": "train" in normalized}
    return {name: known[name] for name in (*names, *subword, *sample)}
