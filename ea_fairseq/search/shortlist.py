"""Vocabulary shortlists: the target tokens that a search may choose from, given the source tokens of a batch.

Each line of the file is a source token, a tab, and its translations separated by spaces. The translations of a line
without a source token are allowed in every batch. The format is that of CTranslate2's vocabulary maps.
"""

from pathlib import Path

import torch
from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor

from ea_fairseq.errors import UserError

MAX_BYTES = 1 << 30  # of a file


class Shortlist:
    """The target tokens that may translate each source token.

    Args:
        always: target tokens that are allowed in every batch.
        translations: the translations of each source token.
        vocabulary_size: number of tokens in the target dictionary.
    """

    def __init__(self, always: Tensor, translations: dict[int, Tensor], vocabulary_size: int):
        self.always, self.translations, self.vocabulary_size = always, translations, vocabulary_size

    @classmethod
    def read(cls, path: str | Path, source: Dictionary, target: Dictionary) -> "Shortlist":
        """Reads a file of tokens of these dictionaries.

        Raises:
            UserError: if the file cannot be read, has no tokens or has a malformed line; it names the file and line.
        """
        path = Path(path)
        always: list[int] = []
        translations: dict[int, Tensor] = {}
        try:
            if path.stat().st_size > MAX_BYTES:
                raise UserError(f"--shortlist {path} has more than {MAX_BYTES:,} bytes: make a smaller one.")
            with path.open(encoding="utf-8", newline="\n") as lines:
                for number, line in enumerate(lines, 1):
                    token, tab, targets = line.rstrip("\n").partition("\t")
                    found = [target.indices[one] for one in targets.split(" ") if one in target.indices]
                    is_complete = bool(tab) and len(found) == len(targets.split(" "))
                    is_new = not token or (token in source.indices and source.indices[token] not in translations)
                    if not (is_complete and is_new):
                        raise UserError(
                            f"--shortlist {path}: line {number} is not a source token, a tab and target tokens of the "
                            "model's dictionaries: make the file from the model's data with ea-fairseq shortlist."
                        )
                    if token:
                        translations[source.indices[token]] = torch.tensor(found)
                    else:
                        always += found
        except UnicodeDecodeError:
            raise UserError(f"--shortlist {path} is not UTF-8: give a file of ea-fairseq shortlist.") from None
        except OSError as error:
            raise UserError(f"--shortlist {path} cannot be read ({error.strerror}): give a file.") from None
        if not always and not translations:
            raise UserError(f"--shortlist {path} has no tokens: give a file of ea-fairseq shortlist.")
        special = range(target.nspecial)
        return cls(torch.tensor([*special, *always]), translations, len(target))

    @classmethod
    def of_task(cls, path: str, task: FairseqTask) -> "Shortlist":
        """The shortlist for a task's dictionaries, which is read once."""
        shortlists = vars(task).setdefault("shortlists", {})
        if path not in shortlists:
            shortlists[path] = cls.read(path, task.source_dictionary, task.target_dictionary)
        return shortlists[path]

    def target_tokens(self, source: Tensor, required: Tensor) -> Tensor:
        """The target tokens (W,), ascending, that may translate source tokens, and some required ones."""
        is_chosen = torch.zeros(self.vocabulary_size, dtype=torch.bool)
        none = self.always[:0]
        translations = [self.translations.get(token, none) for token in source.unique().tolist()]
        is_chosen[torch.cat([self.always, required, *translations])] = True
        return is_chosen.nonzero().squeeze(-1)
