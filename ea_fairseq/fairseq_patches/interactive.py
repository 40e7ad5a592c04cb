"""``fairseq-interactive`` keeps empty lines empty, truncates where it is asked to, and names what is not UTF-8.

It (fairseq_cli/interactive.py) makes up a translation for an empty line, does not know ``--truncate-source``, which
data sets have, and ends with a traceback where its input is not UTF-8.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fairseq.tasks.translation import TranslationTask
from torch import Tensor

from ea_fairseq.errors import FileError
from ea_fairseq.fairseq_patches.text_files import utf8

fairseq_inference_step = TranslationTask.inference_step
fairseq_tokens = TranslationTask.get_interactive_tokens_and_lengths


def patch_interactive() -> None:
    """Replaces, in this command alone, what reads lines, what turns them into tokens, and what translates."""
    if Path(sys.argv[0]).stem != "fairseq-interactive":
        return
    from fairseq_cli import interactive

    interactive.buffered_read = partial(buffered_read, interactive.buffered_read)
    TranslationTask.get_interactive_tokens_and_lengths = tokens_and_lengths
    TranslationTask.inference_step = inference_step


def buffered_read(fairseq_read: Callable, path: str, buffer_size: int) -> Iterator[list[str]]:
    """Lines of a file or, for ``-``, of stdin, as fairseq reads them; raises FileError where they are not UTF-8."""
    try:
        with utf8(path):
            yield from fairseq_read(path, buffer_size)
    except UnicodeDecodeError as error:
        raise FileError(f"the input is not UTF-8: it has the byte 0x{error.object[error.start]:02x}") from error


def tokens_and_lengths(
    task: TranslationTask, lines: list[str], encode: Callable[[str], str]
) -> tuple[list[Tensor], list[int]]:
    """Tokens of lines; with ``--truncate-source`` no more than there are positions, the last the end of sentence."""
    tokens, lengths = fairseq_tokens(task, lines, encode)
    if not task.cfg.truncate_source:
        return tokens, lengths
    longest = task.cfg.max_source_positions
    tokens = [torch.cat([line[: longest - 1], line[-1:]]) if len(line) > longest else line for line in tokens]
    return tokens, [len(line) for line in tokens]


def inference_step(
    task: TranslationTask, generator: Any, models: list, sample: dict, *args: Any, **kwargs: Any
) -> list[list[dict]]:
    """Hypotheses of each sentence; of one without words an empty one."""
    found = fairseq_inference_step(task, generator, models, sample, *args, **kwargs)
    source, words = sample["net_input"]["src_tokens"], task.source_dictionary
    is_empty = (source.eq(words.pad()) | source.eq(words.eos())).all(dim=1).tolist()
    return [[nothing(task)] if empty else hypotheses for empty, hypotheses in zip(is_empty, found, strict=True)]


def nothing(task: TranslationTask) -> dict[str, Tensor]:
    """A hypothesis that is just the end of sentence."""
    none = torch.empty(0)
    tokens = torch.tensor([task.target_dictionary.eos()])
    return {
        "tokens": tokens,
        "score": torch.zeros(()),
        "positional_scores": torch.zeros(1),
        "attention": none,
        "alignment": none,
    }
