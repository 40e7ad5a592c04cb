"""Rules for the values that fairseq's options may have in a checkpoint that is not trusted."""

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, dataclass, fields, replace
from enum import Enum
from functools import cache
from typing import Any, get_args

import torch
from fairseq.dataclass.configs import DatasetConfig
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.roberta import RobertaModel
from fairseq.models.transformer import TransformerConfig, TransformerModel
from fairseq.models.transformer.transformer_config import DecoderConfig, QuantNoiseConfig
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.utils import get_available_activation_fns

from ea_fairseq.attention.convolution_options import ConvolutionOptions
from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.attention.term_options import TermOptions
from ea_fairseq.models.encoder_options import ClassifierOptions, EncoderOptions
from ea_fairseq.models.graph_options import GraphOptions
from ea_fairseq.models.image_options import ConvImageOptions, ConvTransformerImageOptions, ResNetOptions, VitOptions
from ea_fairseq.models.layer_options import LayerOptions
from ea_fairseq.models.t5_options import T5Options
from ea_fairseq.models.time_series_options import DCTransformerOptions
from ea_fairseq.options import Values
from ea_fairseq.tasks.image_prediction import ImagePredictionConfig
from ea_fairseq.tasks.masked_time_series import MaskedTimeSeriesConfig
from ea_fairseq.tasks.node_prediction import NodePredictionConfig
from ea_fairseq.tasks.span_corruption import SpanCorruptionConfig


@dataclass(frozen=True)
class Rule:
    """The values that an option may have.

    Args:
        wanted: these values in words, for messages.
        allows: whether a value is one of them.
        required: whether None must pass ``allows``, too; otherwise None is always allowed.
    """

    wanted: str
    allows: Callable[[object], bool]
    required: bool = False


def integer(first: int, last: int) -> Rule:
    """An integer from ``first`` to ``last``, both included; no bool."""
    return Rule(
        f"a whole number from {first:,} to {last:,}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and first <= value <= last,
    )


def matching(wanted: str, pattern: str) -> Rule:
    """A string that a regular expression matches from beginning to end."""
    return Rule(wanted, lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None)


def one_of(*values: str) -> Rule:
    """One of a few values."""
    return Rule("one of " + ", ".join(map(str, values)), lambda value: value in values)


def registered(wanted: str, registry: Mapping[str, type], classes: Collection[type], *names: str) -> Rule:
    """A name in one of fairseq's registries whose class may be built.

    Args:
        wanted: what messages call it.
        registry: fairseq's registry, from names to classes.
        classes: classes of fairseq that may be built.
        names: names of further classes of fairseq that may be built.

    Classes from outside of fairseq are always allowed: they are ours or come from a user-dir that the user chose.
    """

    def allows(value: object) -> bool:
        found = registry.get(value) if isinstance(value, str) else None
        is_fairseqs = found is not None and found.__module__.partition(".")[0] == "fairseq"
        return found is not None and (not is_fairseqs or found in classes or value in names)

    return Rule(f"{wanted} or one from a --user-dir", allows)


def is_number(value: object) -> bool:
    """Whether this is a finite int or float; no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_integer_list(value: object) -> bool:
    """Whether this is a list of at most 50 counts, or a string that fairseq reads as one."""
    if isinstance(value, str):
        return re.fullmatch(r"(\d{1,9}[, ]*){1,50}|\[(\d{1,9}[, ]*){0,50}\]", value) is not None
    return isinstance(value, list | tuple) and len(value) <= 50 and all(map(COUNT.allows, value))


def is_flat_json(value: object) -> bool:
    """Whether this is a string with a JSON object of numbers, bools, nulls and words, without nesting."""
    try:
        options = json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        return False
    return isinstance(options, dict) and all(
        WORD.allows(name) and (option is None or isinstance(option, bool) or is_number(option) or WORD.allows(option))
        for name, option in options.items()
    )


BOOLEAN = Rule("true or false", lambda value: isinstance(value, bool) or value in ("True", "False"))
REQUIRED_BOOLEAN = replace(BOOLEAN, required=True)
NUMBER = Rule("a number", is_number)
REQUIRED_NUMBER = Rule("a number", is_number, required=True)
INTEGER = integer(-(1 << 31), (1 << 31) - 1)
COUNT = integer(0, (1 << 31) - 1)
POSITIVE = integer(1, (1 << 31) - 1)
SIZE = integer(1, 1 << 16)
INTEGERS = Rule("whole numbers", is_integer_list)
WORD = matching("a word", r"[\w .,:+@-]{0,200}")
LANGUAGE = matching("a language", r"\w[\w@.-]{0,39}")
PATH = matching("a path", r"(?!.*://)[^\0]{0,4096}")
JSON = Rule("numbers and words in JSON", is_flat_json)
UNSET = Rule("left out", lambda value: False)

TOKENIZERS = ("moses", "nltk", "space")
SUBWORDS = ("byte_bpe", "bytes", "characters", "fastbpe", "sentencepiece", "subword_nmt", "wordpiece")  # no addresses
CRITERIA = (
    *("adaptive_loss", "cross_entropy", "label_smoothed_cross_entropy", "masked_lm", "sentence_prediction"),
    *(f"label_smoothed_cross_entropy_with_{name}" for name in ("alignment", "rdrop")),
)
TASKS = {TranslationTask, MaskedLMTask, SentencePredictionTask}
REGISTERED = {
    "model": registered(
        "an architecture of transformer or roberta", ARCH_MODEL_REGISTRY, {TransformerModel, RobertaModel}
    ),
    "task": registered("the task translation, masked_lm or sentence_prediction", TASK_REGISTRY, TASKS),
    **{
        kind: registered(f"one of {', '.join(names)}", REGISTRIES[kind]["registry"], (), *names)
        for kind, names in {"criterion": CRITERIA, "bpe": SUBWORDS, "tokenizer": TOKENIZERS}.items()
    },
}
SPECIAL = {
    **REGISTERED,
    **{f"{group}._name": rule for group, rule in REGISTERED.items()},
    "arch": REGISTERED["model"],
    "model": UNSET,
    "data": PATH,
    "source_lang": LANGUAGE,
    "target_lang": LANGUAGE,
    "bpe_codes": PATH,
    "image_cache": PATH,
    "sentencepiece_model": PATH,
    "sentencepiece_model_path": PATH,
    "wordpiece_vocab": PATH,
    "eval_bleu_args": JSON,
    "eval_bleu_detok": one_of(*TOKENIZERS),
    "eval_bleu_detok_args": JSON,
    "base_layers": integer(0, 100),
    "batch_size": COUNT,
    "max_source_positions": POSITIVE,
    "max_target_positions": POSITIVE,
    "max_tokens": COUNT,
    "num_batch_buckets": integer(0, 1000),
    "required_seq_len_multiple": integer(1, 1024),
}
ROBERTA = {  # the options that fairseq's RoBERTa adds to a Transformer's
    "classification_head_name": WORD,
    "ffn_blocks_to_remove": INTEGER,
    "ffn_reg_scale_factor": NUMBER,
    "load_checkpoint_heads": BOOLEAN,
    "max_positions": POSITIVE,
    "mha_heads_to_keep": INTEGER,
    "mha_reg_scale_factor": NUMBER,
    "num_classes": INTEGER,
    "pooler_activation_fn": one_of(*get_available_activation_fns()),
    "pooler_dropout": NUMBER,
    "spectral_norm_classification_head": BOOLEAN,
    "tokens_per_sample": POSITIVE,
    "untie_weights_roberta": BOOLEAN,
}
PARTS = {"encoder": DecoderConfig, "decoder": DecoderConfig, "quant_noise": QuantNoiseConfig}  # of TransformerConfig
PART_RULES = {  # for fields whose types in fairseq's dataclasses say too little
    "attention_heads": SIZE,
    "embed_dim": SIZE,
    "embed_path": PATH,
    "ffn_embed_dim": SIZE,
    "input_dim": SIZE,
    "layers": integer(0, 1000),
    "normalize_before": REQUIRED_BOOLEAN,
    "output_dim": SIZE,
    "pq_block_size": SIZE,
    "scalar": Rule("0 without a GPU", lambda value: is_number(value) and (value == 0 or torch.cuda.is_available())),
    "xformers_att_config": UNSET,  # fairseq evaluates it
}


@cache
def rules() -> dict[str, Rule]:
    """Rules for the options that building a model and translating read, by ``name`` or ``group.name``."""
    tasks = (
        *(TranslationConfig, MaskedLMConfig, SentencePredictionConfig),
        *(MaskedTimeSeriesConfig, NodePredictionConfig, ImagePredictionConfig, SpanCorruptionConfig),
    )
    configs = DatasetConfig, *tasks, *chosen_configs()
    found = {field.name: rule_for(field) for config in configs for field in fields(config)}
    return found | model_rules() | SPECIAL


@cache
def model_rules() -> dict[str, Rule]:
    """Rules for the options that a model is built from, by name."""
    options = (family.attention.options for family in FAMILIES.values())
    models = T5Options, EncoderOptions, ClassifierOptions, DCTransformerOptions, GraphOptions
    of_images = VitOptions, ConvImageOptions, ConvTransformerImageOptions, ResNetOptions
    ours = TermOptions, ConvolutionOptions, LayerOptions, *models, *of_images, *options
    found = {field.name: rule_for(field) for config in (TransformerConfig, *ours) for field in fields(config)}
    for part, config in PARTS.items():
        for field in (field for field in fields(config) if field.name != "_name"):
            found[f"{part}_{field.name}"] = PART_RULES.get(field.name) or rule_for(field)
            found[field.name] = UNSET  # fairseq would use it for both sides, and no flag sets it
        found[part] = UNSET
    return found | ROBERTA | {"arch": REGISTERED["model"]}


def chosen_configs() -> list[type]:
    """The dataclasses of options of the criteria, subword models and tokenizers that may be chosen."""
    return [
        config
        for kind in ("criterion", "bpe", "tokenizer")
        for name, config in REGISTRIES[kind]["dataclass_registry"].items()
        if REGISTERED[kind].allows(name)
    ]


SHARED = {field.name for field in fields(TransformerConfig)}  # names that a mechanism's options may have, too


def rule_for(option: Field) -> Rule:
    """The rule for a field of a dataclass of options, by its type or, for a mechanism's, by its values."""
    values: Values | None = option.metadata.get("values")
    if values is not None and option.type is not bool:  # of a mechanism
        return Rule(
            values.wanted,
            lambda value: isinstance(value, int | float | str) and parses(values, value),
            required=option.type is float and option.name in SHARED,
        )
    kind: Any = next((kind for kind in get_args(option.type) if kind is not type(None)), option.type)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return one_of(*(choice.value for choice in kind))
    return {bool: BOOLEAN, int: INTEGER, float: NUMBER if get_args(option.type) else REQUIRED_NUMBER, str: WORD}.get(
        kind, INTEGERS
    )


def parses(values: Values, value: object) -> bool:
    """Whether an option may have a value."""
    try:
        values.parse(value)
    except (OverflowError, TypeError, ValueError):
        return False
    return True
