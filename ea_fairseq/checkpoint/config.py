"""Checks of the configuration in an untrusted checkpoint: fairseq evaluates some options and opens files of others."""

import re
import reprlib
from argparse import Namespace
from collections.abc import Collection, Iterator
from dataclasses import asdict

from fairseq.dataclass.configs import GenerationConfig
from fairseq.registry import REGISTRIES
from omegaconf import open_dict

from ea_fairseq.checkpoint.option_rules import rules
from ea_fairseq.errors import UserError

MAX_CHARACTERS = 100_000  # of a string
MAX_VALUES, MAX_DEPTH = 10_000, 8  # of a configuration
MAX_INT = 1 << 63
GROUPS = ("model", "task", "dataset", "criterion", "bpe", "tokenizer")  # groups read in building and translating
NAMESPACE_GROUPS = ("model", "task", "criterion", "optimizer", "lr_scheduler", "scoring")  # Namespaces in old files

brief = reprlib.Repr()
brief.maxstring = brief.maxlong = 120


def require_plain(name: str, config: object, kind: type, most: int = MAX_VALUES) -> None:
    """Checks that a configuration has only plain options: numbers, short strings, and lists and dicts of these.

    A string that OmegaConf would expand (``${...}``) is not plain.

    Args:
        name: what messages call the configuration.
        config: the configuration, or None.
        kind: the type that it must have, dict or Namespace.
        most: maximum number of values.

    Raises:
        UserError: naming the first option that is not plain.
    """
    if config is None:
        return
    if not isinstance(config, kind):
        raise UserError(f"its {name} is no configuration")
    for count, (option, value) in enumerate(walk(name, config)):
        if count > most:
            raise UserError(f"its {name} has more than {most:,} values")
        if isinstance(value, str):
            if len(value) > MAX_CHARACTERS:
                raise UserError(f"{option} has {len(value):,} characters, more than any option needs")
            if "${" in value or "\0" in value:
                raise UserError(f"{option} is {shown(value)}, which is no plain text")
        elif isinstance(value, int) and not -MAX_INT <= value < MAX_INT:
            raise UserError(f"{option} is a larger number than any option needs")


def require_choices(args: Namespace | None) -> None:
    """Checks that the choices in an old checkpoint's options are names: Hydra would read a path as a file.

    Raises:
        UserError: naming the first choice that is not a name.
    """
    for name in ("arch", "task", *REGISTRIES):
        value = entries(args).get(name)
        if value is not None and not (isinstance(value, str) and re.fullmatch(r"\w[\w-]{0,99}", value)):
            raise UserError(f"args.{name} is {shown(value)}, which is no name")


def walk(name: str, value: object, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yields a value and all values in it, depth first, each with its dotted name.

    Raises:
        UserError: if a value has a type that no option has, a key is not a valid name, or the nesting is too deep.
    """
    yield name, value
    if depth > MAX_DEPTH:
        raise UserError(f"{name:.80} has more levels than any option needs")
    if isinstance(value, dict | Namespace):
        for key, inner in entries(value).items():
            if not isinstance(key, str) or not re.fullmatch(r"(?!__)\w[\w.-]{0,99}", key):
                raise UserError(f"{name:.80} has an option with the invalid name {shown(key)}")
            yield from walk(f"{name}.{key}" if depth else key, inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from walk(name, inner, depth + 1)
    elif value is not None and not isinstance(value, bool | int | float | str):
        raise UserError(f"{name:.80} is a {type(value).__name__}, which no option is")


def entries(options: dict | Namespace | None) -> dict:
    """Returns options as a dictionary; empty for None."""
    return options if isinstance(options, dict) else vars(options) if options else {}


def shown(value: object) -> str:
    """Formats a value for messages: shortened, with control characters escaped; of other objects only the type."""
    return (
        brief.repr(value) if isinstance(value, str | int | float | list | tuple | None) else f"a {type(value).__name__}"
    )


def require_known(state: dict, given: Collection[str] = ()) -> None:
    """Checks each option that building a model and translating read against its rule (``option_rules.py``).

    Args:
        state: a checkpoint's state whose configuration has passed :func:`require_plain`.
        given: names of options, or of whole groups, that are not checked because the user overrides them.

    Raises:
        UserError: naming the first option that its rule does not allow.
    """
    for config in filter(None, (state.get("cfg"), state.get("args"))):
        flat = isinstance(config, Namespace)  # the format of old checkpoints
        for group, options in () if flat else config.items():
            if not isinstance(options, dict | Namespace | None if group in NAMESPACE_GROUPS else dict | None):
                raise UserError(f"{group} is {shown(options)}, and must be a group of options")
        groups = {"args": config} if flat else {group: config.get(group) for group in GROUPS if group not in given}
        for group, options in groups.items():
            for name, value in entries(options).items():
                rule = rules().get(f"{group}.{name}") or rules().get(name)
                if rule and (value is not None or rule.required) and name not in given and not rule.allows(value):
                    raise UserError(f"{group}.{name} is {shown(value)}, and must be {rule.wanted}")


def remove_search_and_embedding_options(state: dict, given: Collection[str]) -> None:
    """Removes the options of beam search, and paths of embeddings and of decoded images, from a checkpoint, in place.

    The user chooses how to search and where to store images, and the embeddings themselves are in the checkpoint.

    Args:
        state: a checkpoint's state, upgraded by fairseq.
        given: names of options that the user gives; these are not removed.
    """
    search = {name: value for name, value in asdict(GenerationConfig()).items() if name not in given}
    paths = {"image_cache", "encoder_embed_path", "decoder_embed_path"}.difference(given)
    if (args := state.get("args")) is not None:
        for name in paths.union(search).intersection(vars(args)):
            delattr(args, name)
    if (cfg := state.get("cfg")) is not None:
        with open_dict(cfg):
            if cfg.get("generation") is not None and "generation" not in given:
                cfg.generation.update(search)
            for group in filter(None, (cfg.get("model"), cfg.get("task"))):
                for name in paths:
                    if getattr(group, name, None) is not None:
                        setattr(group, name, None)
