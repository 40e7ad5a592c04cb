"""Vocabulary shortlists: which target words a search may choose from, given the source words of a batch.

A file of lines, each a source word, a tab, and its translations with spaces between them; a line without a source word
has translations that every batch may have. It is the format of CTranslate2's vocabulary maps.
"""

from argparse import Action, ArgumentParser
from pathlib import Path

import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import FairseqTask
from torch import Tensor

from ea_fairseq.user_error import UserError

LARGEST = 1 << 30  # bytes of a file
fairseq_build_generator = FairseqTask.build_generator
fairseq_generation_args = options.add_generation_args


class Shortlist:
    """Target words by source word.

    Args:
        always: target words that every batch may have.
        translations: target words of a source word.
        symbols: words in the target dictionary.
    """

    def __init__(self, always: Tensor, translations: dict[int, Tensor], symbols: int):
        self.always, self.translations, self.symbols = always, translations, symbols

    @classmethod
    def read(cls, path: str | Path, source: Dictionary, target: Dictionary) -> "Shortlist":
        """Reads a file of words of these dictionaries.

        Raises:
            UserError: naming the file and the line that is not what it should be.
        """
        path = Path(path)
        always, translations = [], {}
        try:
            if path.stat().st_size > LARGEST:
                raise UserError(f"--shortlist {path} has more than {LARGEST:,} bytes: make it of fewer words.")
            with path.open(encoding="utf-8", newline="\n") as lines:
                for number, line in enumerate(lines, 1):
                    word, tab, others = line.rstrip("\n").partition("\t")
                    found = [target.indices.get(other) for other in others.split(" ")]
                    known = not word or word in source.indices
                    if not (tab and known) or None in found or (word and source.indices[word] in translations):
                        raise UserError(
                            f"--shortlist {path}: line {number} is not a word of the model's, a tab and translations "
                            "that it knows: make one from the model's data with data-prep/make-shortlist.sh."
                        )
                    if word:
                        translations[source.indices[word]] = torch.tensor(found)
                    else:
                        always += found
        except UnicodeDecodeError:
            raise UserError(f"--shortlist {path} is not UTF-8: give what data-prep/make-shortlist.sh wrote.") from None
        except OSError as error:
            raise UserError(f"--shortlist {path} cannot be read ({error.strerror}): give a file.") from None
        special = range(target.nspecial)
        return cls(torch.tensor([*special, *always]), translations, len(target))

    @classmethod
    def of_task(cls, path: str, task: FairseqTask) -> "Shortlist":
        """That of a task's dictionaries, read once."""
        read = vars(task).setdefault("shortlists", {})
        if path not in read:
            read[path] = cls.read(path, task.source_dictionary, task.target_dictionary)
        return read[path]

    def words(self, source: Tensor, others: Tensor) -> Tensor:
        """The target words (W,), ascending, that translations of source tokens may have, and some others."""
        may_be = torch.zeros(self.symbols, dtype=torch.bool)
        none = self.always[:0]
        translations = [self.translations.get(word, none) for word in source.unique().tolist()]
        may_be[torch.cat([self.always, others, *translations])] = True
        return may_be.nonzero().squeeze(-1)


class Choose(Action):
    """``--shortlist`` of fairseq's commands, whose configuration has no place for an option that fairseq does not know.

    Attributes:
        path: what the command line names.
    """

    path: str | None = None

    def __call__(self, parser, namespace, values, option_string=None):
        Choose.path = values


def patch_options():
    """Gives ``--shortlist`` to fairseq's commands that generate, and to what a task builds for them."""
    options.add_generation_args = add_generation_args
    FairseqTask.build_generator = build_generator


def add_generation_args(parser: ArgumentParser):
    """Adds fairseq's options of generation and ``--shortlist``."""
    group = fairseq_generation_args(parser)
    Choose.path = None
    about = "which target words translate which source words, of data-prep/make-shortlist.sh: choose among these alone"
    group.add_argument("--shortlist", action=Choose, metavar="FILE", help=about)
    return group


def build_generator(self: FairseqTask, models, args, *more, **options):
    """Builds a generator as fairseq does, with a ``shortlist`` where the arguments or the command line name one."""
    generator = fairseq_build_generator(self, models, args, *more, **options)
    if isinstance(generator, SequenceGenerator) and (path := getattr(args, "shortlist", None) or Choose.path):
        generator.shortlist = Shortlist.of_task(path, self)
    return generator
