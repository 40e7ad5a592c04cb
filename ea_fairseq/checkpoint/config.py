"""Checks of the configuration in an untrusted checkpoint: fairseq evaluates some options and opens files of others."""

import re
import reprlib
from argparse import Namespace
from collections.abc import Collection, Iterator
from dataclasses import asdict

from fairseq.dataclass.configs import GenerationConfig
from fairseq.registry import REGISTRIES
from omegaconf import open_dict
from torch import Tensor

from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.attention.term_options import TermOptions
from ea_fairseq.checkpoint.descriptions import require_descriptions
from ea_fairseq.checkpoint.option_rules import rules
from ea_fairseq.errors import UserError
from ea_fairseq.models.encoder_options import EncoderOptions
from ea_fairseq.models.graph_options import GraphOptions
from ea_fairseq.models.image_options import ConvImageOptions, ConvTransformerImageOptions, ResNetOptions, VitOptions
from ea_fairseq.models.layer_options import GATES, LayerOptions
from ea_fairseq.models.time_series_options import DCTransformerOptions
from ea_fairseq.options import Options

MAX_CHARACTERS = 100_000  # of a string
MAX_VALUES, MAX_DEPTH = 10_000, 8  # of a configuration
MAX_INT = 1 << 63
MAX_POSITION_ELEMENTS = 1 << 28  # positions * width of a position embedding
GROUPS = ("model", "task", "dataset", "criterion", "bpe", "tokenizer")  # groups read in building and translating
NAMESPACE_GROUPS = ("model", "task", "criterion", "optimizer", "lr_scheduler", "scoring")  # Namespaces in old files
WIDTHS = ("embed_dim", "ffn_embed_dim", "input_dim", "output_dim", "attention_heads")
POSITIONS = {"encoder": "max_source_positions", "decoder": "max_target_positions"}
OTHER_POSITIONS = {"encoder": ("max_positions", "tokens_per_sample")}  # of encoder-only models
STACKS = (  # defaults of the number of layers, of the width and of the feed-forward width
    {"encoder_layers": 6, "encoder_embed_dim": 512, "encoder_ffn_embed_dim": 2048},
    {"decoder_layers": 6, "decoder_embed_dim": 512, "decoder_ffn_embed_dim": 2048},
    {"blocks": 3, "width": 64, "ffn_width": 0},
)
LAYER = r"(encoder|decoder)\.(?:sentence_encoder\.)?layers\.(\d{1,6})\."
HEAD = r"classification_heads\.\w+\.(out_proj\.)?weight(_orig)?$"

brief = reprlib.Repr()
brief.maxstring = brief.maxlong = 120


def require_plain(name: str, config: object, kind: type) -> None:
    """Checks that a configuration has only plain options: numbers, short strings, and lists and dicts of these.

    A string that OmegaConf would expand (``${...}``) is not plain.

    Args:
        name: what messages call the configuration.
        config: the configuration, or None.
        kind: the type that it must have, dict or Namespace.

    Raises:
        UserError: naming the first option that is not plain.
    """
    if config is None:
        return
    if not isinstance(config, kind):
        raise UserError(f"its {name} is no configuration")
    for count, (option, value) in enumerate(walk(name, config)):
        if count > MAX_VALUES:
            raise UserError(f"its {name} has more than {MAX_VALUES:,} values")
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
        for group in ("args",) if flat else ("model", "task"):
            require_sizes(entries(groups.get(group)), state["model"])
            require_stored_elements(entries(groups.get(group)), state["model"])
        options = entries(groups.get("args" if flat else "model"))
        require_descriptions(entries(state.get("task_state")), state["model"], options, MAX_POSITION_ELEMENTS)


def require_sizes(options: dict, parameters: dict[str, Tensor]) -> None:
    """Checks that the options describe no larger model than the parameters: a small file must not fill the memory.

    Args:
        options: the model's options by name.
        parameters: the parameters by name, with fairseq's prefixes ``encoder.`` and ``decoder.``.

    Raises:
        UserError: naming the option.
    """
    limits: dict[str, int] = {}
    for side, positions in POSITIONS.items():
        tensors = {name: tensor for name, tensor in parameters.items() if name.startswith(f"{side}.")}
        layers = {int(found[2]) for name in tensors if (found := re.match(LAYER, name))}
        width = max((tensor.size(1) for tensor in tensors.values() if tensor.dim() > 1), default=1)
        limits |= {f"{side}_{name}": width for name in WIDTHS}
        limits |= {f"{side}_layers": max(layers, default=-1) + 1, positions: MAX_POSITION_ELEMENTS // width}
        limits |= dict.fromkeys(OTHER_POSITIONS.get(side, ()), limits[positions])
    heads = [tensor.size(0) for name, tensor in parameters.items() if re.match(HEAD, name)]
    limits["num_classes"] = max(heads, default=1)
    ours: tuple[type[Options], ...] = TermOptions, LayerOptions, EncoderOptions, DCTransformerOptions, GraphOptions
    of_images: tuple[type[Options], ...] = VitOptions, ConvImageOptions, ConvTransformerImageOptions, ResNetOptions
    for options_of in (*ours, *of_images, *(family.attention.options for family in FAMILIES.values())):
        limits |= options_of.limits(parameters)
    for name, limit in limits.items():
        if (size := options.get(name) or 0) > limit:
            raise UserError(f"{name} is {size:,}, and the model's parameters allow no more than {limit:,}")


def require_stored_elements(options: dict, parameters: dict[str, Tensor]) -> None:
    """Checks that the layers that the options describe have no more elements than the stored parameters.

    The estimate is a lower bound: the two linear layers of a feed-forward network, and one projection of an attention.

    Args:
        options, parameters: as for :func:`require_sizes`.

    Raises:
        UserError: naming the number of layers.
    """
    storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in parameters.values()}
    stored = sum(tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in storages.values())
    for stack in STACKS:
        if not stack.keys() & options.keys():
            continue
        layers, width, inner = (options.get(name) or default for name, default in stack.items())
        side = "decoder" if "decoder_layers" in stack else "encoder"
        if options.get("ffn") in GATES:
            inner = options.get("gated_ffn_dim") or inner
        if layers * (2 * width * inner + min_projection_elements(options, side, width)) > stored:
            raise UserError(
                f"{next(iter(stack))} is {layers:,}, which needs more than the {stored:,} elements of the parameters"
            )


def min_projection_elements(options: dict, side: str, width: int) -> int:
    """Returns a lower bound for the elements of an attention's projection; a branch may take part of the width."""
    share, heads = options.get("attention_share"), options.get(f"{side}_attention_heads") or 8
    if head_dim := options.get("head_dim"):
        return heads * head_dim * width // 2
    if not options.get("full_width_heads"):
        return width * width // 4
    return int(heads * width * width * (0.25 if share is None else float(share)))


def remove_search_and_embedding_options(state: dict, given: Collection[str]) -> None:
    """Removes the options of beam search, and paths of embeddings and of decoded images, from a checkpoint, in place.

    The user chooses how to search and where to store images, and the embeddings themselves are in the checkpoint.

    Args:
        state: a checkpoint's state, upgraded by fairseq.
        given: names of options that the user gives; these are not removed.
    """
    search = {name: value for name, value in asdict(GenerationConfig()).items() if name not in given}
    paths = {"image_cache", *(f"{side}_embed_path" for side in POSITIONS)}.difference(given)
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
