"""Flags with invalid values are refused before a command starts.

``parse_args_and_arch`` (fairseq/options.py) takes any text for flags that are read later: a training then ends in a
traceback after its first epoch (``--best-checkpoint-metric bleu``), ends with 0 and has trained nothing
(``--write-checkpoints-asynchronously``), or saves to where nothing finds it (a ``:`` in ``--save-dir``). What fairseq
refuses later with a sentence of its own is not checked here.
"""

import ast
import json
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fairseq import options
from fairseq.data.encoders import TOKENIZER_REGISTRY

from ea_fairseq.checkpoint.config import shown
from ea_fairseq.errors import UserError
from ea_fairseq.plain.flags import flag_of

CHOICE = re.compile(r"(argument [^:]+): invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)
fairseq_parse = options.parse_args_and_arch


def patch_flags() -> None:
    """Replaces ``parse_args_and_arch``, which all of fairseq's commands parse their flags with."""
    options.parse_args_and_arch = parse_args_and_arch


def parse_args_and_arch(parser: ArgumentParser, *args: Any, **kwargs: Any) -> Any:
    """Parses flags as fairseq does; for a misspelt choice, such as of ``--arch``, it suggests similar ones.

    Raises:
        UserError: naming an invalid flag.
    """
    error = parser.error
    parser.error = lambda message: error(with_suggestion(message))  # type: ignore[method-assign]
    try:
        found = fairseq_parse(parser, *args, **kwargs)
    except KeyError as error:
        if error.args != (None,):
            raise
        raise UserError("--task is missing: give the model's task, such as --task translation") from error
    parsed = found[0] if isinstance(found, tuple) else found
    if sentence := next(flaws(parsed, Path(sys.argv[0]).stem), None):
        raise UserError(sentence)
    return found


def with_suggestion(message: str) -> str:
    """Replaces the list of all choices in an error message of argparse by those similar to the misspelt one."""
    match = CHOICE.fullmatch(message)
    if match is None:
        return message
    flag, name, names = match.groups()
    similar = get_close_matches(name, [known.strip("'") for known in names.split(", ")], 3)
    return f"{flag}: there is no {name!r}: did you mean {' or '.join(similar)}?" if similar else message


def flaws(args: Namespace, command: str) -> Iterator[str]:
    """Yields a sentence for each flag that is invalid in a command such as ``fairseq-train``."""
    for name in ("model_overrides", "eval_bleu_args", "eval_bleu_detok_args", "adam_betas"):
        text = getattr(args, name, None)
        read, is_right, wanted = FORMS[name]
        if isinstance(text, str) and not is_valid(text, read, is_right):
            yield f"{flag_of(name)} must be {wanted}, not {shown(text)}"
    if getattr(args, "eval_bleu", False):
        known = sorted(TOKENIZER_REGISTRY)
        if args.eval_bleu_detok not in known:
            yield f"--eval-bleu-detok must be {', '.join(known[:-1])} or {known[-1]}, not {shown(args.eval_bleu_detok)}"
    elif getattr(args, "best_checkpoint_metric", None) == "bleu" and hasattr(args, "eval_bleu"):
        yield "--best-checkpoint-metric bleu needs --eval-bleu, by which validation measures it"
    if getattr(args, "write_checkpoints_asynchronously", False) and find_spec("iopath") is None:
        yield "--write-checkpoints-asynchronously needs iopath: pip install iopath"
    if ":" in str(getattr(args, "save_dir", "")):
        yield f"--save-dir must have no ':', by which fairseq separates checkpoints: rename {args.save_dir}"
    if command == "fairseq-generate" and getattr(args, "constraints", None):
        yield "--constraints is for fairseq-interactive, which reads them with each sentence"
    if getattr(args, "tie_adaptive_weights", False) and not getattr(args, "adaptive_input", False):
        yield "--tie-adaptive-weights needs --adaptive-input, whose weights it ties to the softmax"
    if getattr(args, "print_step", False) and not args.task.startswith("translation_lev"):
        yield "--print-step is for models that refine a translation in several steps"


def is_pair(value: object) -> bool:
    """Whether a value is two numbers."""
    return isinstance(value, tuple | list) and [isinstance(number, int | float) for number in value] == [True, True]


def is_dict(value: object) -> bool:
    """Whether a value is a dictionary."""
    return isinstance(value, dict)


def is_valid(text: str, read: Callable[[str], Any], is_right: Callable[[Any], bool]) -> bool:
    """Whether a text can be parsed, and its value passes the check."""
    try:
        return is_right(read(text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False


FORMS: dict[str, tuple[Callable[[str], Any], Callable[[Any], bool], str]] = {
    "model_overrides": (ast.literal_eval, is_dict, """a dictionary of Python's, such as "{'beam': 5}\""""),
    "eval_bleu_args": (json.loads, is_dict, """an object of JSON, such as '{"beam": 5}'"""),
    "eval_bleu_detok_args": (json.loads, is_dict, """an object of JSON, such as '{"target_lang": "en"}'"""),
    "adam_betas": (ast.literal_eval, is_pair, "two numbers, such as '(0.9, 0.98)'"),
}
