"""``fairseq-interactive`` translates empty lines to empty lines, truncates on request, and reports invalid UTF-8.

fairseq's (fairseq_cli/interactive.py) invents a translation for an empty line, ignores ``--truncate-source``, which
data sets support, and ends with a traceback if its input is not UTF-8.
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
    """Replaces, in this command only, the functions that read, tokenize and translate lines."""
    if Path(sys.argv[0]).stem != "fairseq-interactive":
        return
    from fairseq_cli import interactive

    interactive.buffered_read = partial(buffered_read, interactive.buffered_read)
    TranslationTask.get_interactive_tokens_and_lengths = tokens_and_lengths
    TranslationTask.inference_step = inference_step


def buffered_read(fairseq_read: Callable, path: str, buffer_size: int) -> Iterator[list[str]]:
    """Yields lines of a file or, for ``-``, of stdin, as fairseq does; raises FileError if they are not UTF-8."""
    try:
        with utf8(path):
            yield from fairseq_read(path, buffer_size)
    except UnicodeDecodeError as error:
        raise FileError(f"the input is not UTF-8: it has the byte 0x{error.object[error.start]:02x}") from error


def tokens_and_lengths(
    task: TranslationTask, lines: list[str], encode: Callable[[str], str]
) -> tuple[list[Tensor], list[int]]:
    """Returns tokens of lines; ``--truncate-source`` cuts them to the model's positions, with the end of sentence."""
    tokens, lengths = fairseq_tokens(task, lines, encode)
    if not task.cfg.truncate_source:
        return tokens, lengths
    longest = task.cfg.max_source_positions
    tokens = [torch.cat([line[: longest - 1], line[-1:]]) if len(line) > longest else line for line in tokens]
    return tokens, [len(line) for line in tokens]


def inference_step(
    task: TranslationTask, generator: Any, models: list, sample: dict, *args: Any, **kwargs: Any
) -> list[list[dict]]:
    """Returns the hypotheses of each sentence; for a sentence without tokens, an empty one."""
    found = fairseq_inference_step(task, generator, models, sample, *args, **kwargs)
    source, dictionary = sample["net_input"]["src_tokens"], task.source_dictionary
    is_empty = (source.eq(dictionary.pad()) | source.eq(dictionary.eos())).all(dim=1).tolist()
    return [
        [empty_hypothesis(task)] if empty else hypotheses for empty, hypotheses in zip(is_empty, found, strict=True)
    ]


def empty_hypothesis(task: TranslationTask) -> dict[str, Tensor]:
    """Returns a hypothesis with only the end of sentence."""
    none = torch.empty(0)
    tokens = torch.tensor([task.target_dictionary.eos()])
    return {
        "tokens": tokens,
        "score": torch.zeros(()),
        "positional_scores": torch.zeros(1),
        "attention": none,
        "alignment": none,
    }
