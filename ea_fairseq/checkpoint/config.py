"""The configuration in a checkpoint: a stranger's data, of which fairseq evaluates, opens and expands some."""

import re
import reprlib
from argparse import Namespace
from collections.abc import Collection, Iterator
from dataclasses import asdict

from fairseq.dataclass.configs import GenerationConfig
from fairseq.registry import REGISTRIES
from omegaconf import open_dict
from torch import Tensor

from ea_fairseq.checkpoint.option_rules import rules
from ea_fairseq.user_error import UserError

LONGEST, MOST, DEEPEST = 100_000, 10_000, 8  # characters of a string; values, and levels of them, in a configuration
LARGEST = 1 << 63
TABLE = 1 << 28  # numbers in a table of positions
READ = ("model", "task", "dataset", "criterion", "bpe", "tokenizer")  # the groups that building and translating read
CHOSEN = ("model", "task", "criterion", "optimizer", "lr_scheduler", "scoring")  # Namespaces where they are of old
WIDTHS = ("embed_dim", "ffn_embed_dim", "input_dim", "output_dim", "attention_heads")
POSITIONS = {"encoder": "max_source_positions", "decoder": "max_target_positions"}

brief = reprlib.Repr()
brief.maxstring = brief.maxlong = 120


def require_plain(name: str, config: object, kind: type):
    """Refuses a configuration with more in it than plain options.

    Plain are numbers, short texts that OmegaConf does not expand, and not too many of these in lists, dictionaries and
    Namespaces.

    Raises:
        UserError: naming the first option that is not plain.
    """
    if config is None:
        return
    if not isinstance(config, kind):
        raise UserError(f"its {name} is no configuration")
    for count, (option, value) in enumerate(walk(name, config)):
        if count > MOST:
            raise UserError(f"its {name} has more than {MOST:,} values")
        if isinstance(value, str):
            if len(value) > LONGEST:
                raise UserError(f"{option} has {len(value):,} characters, more than any option needs")
            if "${" in value or "\0" in value:
                raise UserError(f"{option} is {shown(value)}, which is no plain text")
        elif isinstance(value, int) and not -LARGEST <= value < LARGEST:
            raise UserError(f"{option} is a larger number than any option needs")


def require_choices(args: Namespace | None):
    """Raises UserError where options of old, which Hydra composes, choose what is no name: it may be a file."""
    for name in ("arch", "task", *REGISTRIES):
        value = entries(args).get(name)
        if value is not None and not (isinstance(value, str) and re.fullmatch(r"\w[\w-]{0,99}", value)):
            raise UserError(f"args.{name} is {shown(value)}, which is no name")


def walk(name: str, value: object, depth: int = 0) -> Iterator[tuple[str, object]]:
    """A value and all values in it, each with its name; raises UserError where one is of no option's type."""
    yield name, value
    if depth > DEEPEST:
        raise UserError(f"{name:.80} has more levels than any option needs")
    if isinstance(value, dict | Namespace):
        for key, inner in entries(value).items():
            if not isinstance(key, str) or not re.fullmatch(r"(?!__)\w[\w.-]{0,99}", key):
                raise UserError(f"{name:.80} has an option of the name {shown(key)}, which is none")
            yield from walk(f"{name}.{key}" if depth else key, inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from walk(name, inner, depth + 1)
    elif value is not None and not isinstance(value, bool | int | float | str):
        raise UserError(f"{name:.80} is a {type(value).__name__}, which no option is")


def entries(options: dict | Namespace | None) -> dict:
    return options if isinstance(options, dict) else vars(options) if options else {}


def shown(value: object) -> str:
    """The beginning of a value, what a terminal would act on escaped."""
    return brief.repr(value) if isinstance(value, str | int | float | list | tuple) else f"a {type(value).__name__}"


def require_known(state: dict, given: Collection[str] = ()):
    """Refuses a checkpoint of which more would be built, evaluated or opened than a translation model.

    Args:
        state: its content, the configuration plain.
        given: options, or whole groups, that do not matter because the user gives others.

    Raises:
        UserError: naming the first option that is not what it may be.
    """
    for config in filter(None, (state.get("cfg"), state.get("args"))):
        flat = isinstance(config, Namespace)  # as checkpoints of old have it
        for group, options in () if flat else config.items():
            if not isinstance(options, dict | Namespace | None if group in CHOSEN else dict | None):
                raise UserError(f"{group} is {shown(options)}, and must be a group of options")
        groups = {"args": config} if flat else {group: config.get(group) for group in READ if group not in given}
        for group, options in groups.items():
            for name, value in entries(options).items():
                rule = rules().get(f"{group}.{name}") or rules().get(name)
                if rule and (value is not None or rule.required) and name not in given and not rule.allows(value):
                    raise UserError(f"{group}.{name} is {shown(value)}, and must be {rule.wanted}")
        require_sizes(entries(config if flat else groups.get("model")), state["model"])


def require_sizes(options: dict, parameters: dict[str, Tensor]):
    """Refuses options that ask for a larger model than that of the parameters: a small file must not fill a memory.

    Raises:
        UserError: naming the option.
    """
    for side, positions in POSITIONS.items():
        tensors = {name: tensor for name, tensor in parameters.items() if name.startswith(f"{side}.")}
        layers = {int(found[1]) for name in tensors if (found := re.match(rf"{side}\.layers\.(\d{{1,6}})\.", name))}
        width = max((tensor.size(1) for tensor in tensors.values() if tensor.dim() == 2), default=1)
        limits = {f"{side}_{name}": width for name in WIDTHS}
        limits |= {f"{side}_layers": max(layers, default=-1) + 1, positions: TABLE // width}
        for name, limit in limits.items():
            if (size := options.get(name) or 0) > limit:
                raise UserError(f"{name} is {size:,}, and the model's parameters allow no more than {limit:,}")
    kernels = [tensor.size(-1) for name, tensor in parameters.items() if name.endswith("_attn.conv.weight")]
    if (size := options.get("ea_kernel_size") or 0) > (largest := max(kernels, default=99)):
        raise UserError(f"ea_kernel_size is {size:,}, and the model's parameters allow no more than {largest:,}")


def without_foreign_choices(state: dict, given: Collection[str]):
    """Takes out of a loaded checkpoint what its author has no say in: how to search, and files of embeddings.

    The model's embeddings are in the checkpoint, and the user says how to search.

    Args:
        given: options that the user has given, which stay.
    """
    search = {name: value for name, value in asdict(GenerationConfig()).items() if name not in given}
    embeddings = {f"{side}_embed_path" for side in POSITIONS}.difference(given)
    if (args := state.get("args")) is not None:
        for name in embeddings.union(search).intersection(vars(args)):
            delattr(args, name)
    if (cfg := state.get("cfg")) is not None:
        with open_dict(cfg):
            if cfg.get("generation") is not None and "generation" not in given:
                cfg.generation.update(search)
            for name in embeddings:
                if getattr(cfg.get("model"), name, None) is not None:
                    setattr(cfg.model, name, None)
