"""Vocabulary shortlists: which target words a search may choose from, given the source words of a batch.

A file of lines, each a source word, a tab, and its translations with spaces between them; a line without a source word
has translations that every batch may have. It is the format of CTranslate2's vocabulary maps.
"""

from pathlib import Path

import torch
from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor

from ea_fairseq.errors import UserError

LARGEST = 1 << 30  # bytes of a file


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
            UserError: naming the file and the line that is not what it should be, or a file without words.
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
                            "that it knows: make one from the model's data with ea-fairseq shortlist."
                        )
                    if word:
                        translations[source.indices[word]] = torch.tensor(found)
                    else:
                        always += found
        except UnicodeDecodeError:
            raise UserError(f"--shortlist {path} is not UTF-8: give what ea-fairseq shortlist wrote.") from None
        except OSError as error:
            raise UserError(f"--shortlist {path} cannot be read ({error.strerror}): give a file.") from None
        if not always and not translations:
            raise UserError(f"--shortlist {path} has no words: give what ea-fairseq shortlist wrote.")
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
