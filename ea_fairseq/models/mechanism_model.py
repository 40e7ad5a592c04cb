"""Code that all models with a mechanism share, for any of fairseq's models that they are built on."""

import copy
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from fairseq.checkpoint_utils import prune_state_dict
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel, register_model
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.convolution_options import ConvolutionOptions
from ea_fairseq.attention.maps import kind_of
from ea_fairseq.attention.registry import Family
from ea_fairseq.attention.term_options import TermOptions
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.dispatch import check_backend
from ea_fairseq.models.nested_options import flatten
from ea_fairseq.models.state_dict import (
    initialize_mechanism,
    missing_mechanism_parameters,
    refuse_mismatch,
    remove_unused_projections,
)
from ea_fairseq.options import Options
from ea_fairseq.plain.flags import flag_of

DASHBOARDS = ("tensorboard_logdir", "wandb_project")
NOT_OF_LAYERS = ("embed_positions", "lm_head.weight", "output_projection.weight")  # embeddings that are no modules
Model = TypeVar("Model", bound=BaseFairseqModel)
LOG_PRIORITY = 10_000  # fairseq logs metrics in the order of their priorities; ours come last


class MechanismModel(BaseFairseqModel):
    """Flags, their checks, and loading of checkpoints; a mixin, to be listed before a fairseq model among the bases."""

    family: ClassVar[Family]
    hub: ClassVar[Any]  # the class that loads trained models in Python

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        mark_embeddings(self)

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str | Path,
        checkpoint_file: str | None = None,
        data_name_or_path: str | Path | None = None,
        **kwargs: Any,
    ) -> Any:
        """Loads a trained model: to translate and score, to classify and fill in masked tokens, or for predictions.

        Models of time series, images and graphs need no data and no options, only the first two arguments.

        Args:
            model_name_or_path: folder of the checkpoints.
            checkpoint_file: a checkpoint in this folder or, for an ensemble of translation models, several:
                ``"a.pt:b.pt"``. By default the first that exists of ``checkpoint_best.pt``, ``checkpoint_last.pt``,
                ``model.safetensors`` and ``model.pt``.
            data_name_or_path: folder of the dictionaries; for classifiers, of ``input0`` and ``label``. A path that
                starts with "." is relative to the folder of the checkpoints, as always in fairseq; other relative
                paths are relative to the current folder. By default the folder of the checkpoints if it has
                dictionaries, else the folder of the training data.
            tokenizer, bpe, ...: fairseq's options. By default they are those in ``preparation.json``, next to the
                dictionaries or checkpoints. ``tokenizer="moses"`` uses the languages that the model was trained on. If
                `prepare corpus` made the data, add ``moses_no_dash_splits=True``, and lower-case your text if the data
                was lower-cased. ``bpe="subword_nmt"`` needs ``bpe_codes``, and ``bpe="sentencepiece"`` needs
                ``sentencepiece_model``: files, relative to the current folder.
            target_subword: for translation models, file of the target language's subword model if it has its own.

        Returns:
            A ``TranslationHub``, ``EncoderHub``, ``EATimeSeries``, ``EAImage`` or ``EAGraph``.

        Raises:
            UserError: naming the folder, checkpoint, dictionary or subword model that does not exist.
        """
        data = () if data_name_or_path is None else (data_name_or_path,)
        return cls.hub.from_pretrained(model_name_or_path, checkpoint_file, *data, **kwargs)

    @classmethod
    def hub_models(cls) -> dict:
        """Returns an empty dictionary: no models are downloaded."""
        return {}

    @classmethod
    def option_classes(cls) -> tuple[type[Options], ...]:
        """Returns the option classes that this package adds: of score terms, of convolutions and of the mechanism."""
        return TermOptions, ConvolutionOptions, cls.family.attention.options

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Adds fairseq's flags and those of this package."""
        super().add_args(parser)
        for options in cls.option_classes():
            options.add_args(parser)

    @classmethod
    def check_args(cls, args: Any, *sides: str) -> None:
        """Checks the flags of this package, and the number of heads of ``sides``: ``encoder``, ``decoder``.

        Raises:
            UserError: naming the flag, if an option is out of range or not supported by the mechanism.
        """
        for side in sides:
            width, heads = getattr(args, f"{side}_embed_dim"), getattr(args, f"{side}_attention_heads")
            if heads < 1 or (width % heads and not getattr(args, "head_dim", 0)):
                raise UserError(
                    f"--{side}-attention-heads must divide --{side}-embed-dim, but {heads} is no divisor of {width}"
                )
        for options in cls.option_classes():
            options.from_namespace(args)
        for kind in ("encoder", "decoder"):
            name = f"{kind}_layers_to_keep"
            layers = getattr(args, name, None)
            # fairseq-train parses a list, but fairseq's pruning splits text.
            if layers is not None and not isinstance(layers, str):
                layers = ",".join(map(str, layers))
                setattr(args, name, layers)
            cls.check_layers_to_keep(kind, layers)
        check_backend()

    @classmethod
    def check_layers_to_keep(cls, kind: str, text: str | None) -> None:
        """Checks fairseq's ``--encoder-layers-to-keep`` or ``--decoder-layers-to-keep``.

        Raises:
            UserError: if it is not a list of layers, or if a layer would compute something else under its new index.
        """
        if not text:
            return
        try:
            layers = sorted(map(int, text.split(",")))
        except ValueError:
            raise UserError(f"--{kind}-layers-to-keep must be layer indices such as 0,2,4, not {text!r}") from None
        if not cls.family.attention.may_renumber(kind, layers):
            raise UserError(
                f"--{kind}-layers-to-keep {text} changes the indices of layers, but what a layer of {cls.family.name} "
                "computes depends on its index: keep the first layers"
            )

    @classmethod
    def refuse_decoder_flags(cls, args: Any) -> None:
        """Refuses flags that an encoder-only model does not support.

        Raises:
            UserError: naming the flag of a decoder or of encoder-decoder attentions, or of scores without content.
        """
        names = [opt.name for opt in fields(cls.family.attention.options)]
        names = [name for name in names if {"decoder", "cross"} & {*name.split("_")}]
        for name in (*names, "scale_logits", "start_with_padding"):
            if getattr(args, name, False):
                raise UserError(f"{flag_of(name)} is a flag of decoders, and this model has none: leave it out")
        terms = TermOptions.from_namespace(args)
        if terms.no_content_scores and terms.attention_type != "dot":
            raise UserError(
                f"--no-content-scores removes the scores of --attention-type {terms.attention_type}: leave out one of "
                "the two flags"
            )

    def load_state_dict(
        self, state_dict: dict[str, Tensor], strict: bool = True, model_cfg: Any = None, args: Any = None
    ) -> Any:
        """Loads parameters of the same model, or those of a plain Transformer with the mechanism's newly initialized.

        Raises:
            UserError: naming the first parameter that does not fit, before any is loaded.
        """
        self.upgrade_state_dict(state_dict)
        if not self.has_layers_of(state_dict):  # checkpoints of this training are already pruned
            state_dict = prune_state_dict(state_dict, model_cfg or args)
        state_dict = copy.copy(state_dict)
        new = missing_mechanism_parameters(self, state_dict)
        state_dict.update(new)
        unused = remove_unused_projections(self, state_dict) if new else 0
        if strict:
            refuse_mismatch(self, state_dict)
        if new:
            options = self.family.attention.options.from_namespace(self.args)
            initialize_mechanism(self, self.family.attention, options, new, unused)
        return super().load_state_dict(state_dict, strict)

    def has_layers_of(self, state_dict: dict[str, Tensor]) -> bool:
        """Whether encoder and decoder, if the model has them, have as many layers as in a state dict."""
        modules = dict(self.named_modules())
        for stack in ("encoder.layers", "decoder.layers"):
            prefix = f"{stack}."
            layers = {name.removeprefix(prefix).partition(".")[0] for name in state_dict if name.startswith(prefix)}
            if layers and stack in modules and len(layers) != len(modules[stack]):
                return False
        return True

    def set_num_updates(self, num_updates: int) -> None:
        """Logs metrics of the attentions; fairseq calls this before each update of a training."""
        super().set_num_updates(num_updates)
        log_metrics(self, self.args)


def mark_embeddings(model: nn.Module) -> None:
    """Marks matrices with a row for each token or position, so that ``--optimizer muon`` can leave them out."""
    for name, module in model.named_modules():
        for part, parameter in module.named_parameters(recurse=False):
            if isinstance(module, nn.Embedding) or f"{name}.{part}".endswith(NOT_OF_LAYERS):
                parameter.is_embedding = True


def log_metrics(model: nn.Module, args: Any) -> None:
    """Logs the metrics of each attention, such as the norms of kernels, if ``args`` name a dashboard.

    Under fairseq-hydra-train they do not: it names dashboards in ``common``, which models do not get.
    They are computed only when fairseq writes its metrics, from the model after the update that they are written for.
    """
    if not any(getattr(args, dashboard, None) for dashboard in DASHBOARDS):
        return
    for name, attention in model.named_modules():
        if isinstance(attention, Attention):
            for metric, value in attention.metrics(name, kind_of(name) or "").items():
                log(metric, value)


def log(name: str, value: Callable[[], float]) -> None:
    """Registers a metric, whose ``value`` fairseq calls when it writes its metrics."""
    metrics.log_derived(name, lambda _: value(), LOG_PRIORITY)


def architecture(defaults: Mapping[str, object], complete: Callable[[Any], None]) -> Callable[[Any], None]:
    """Returns an architecture's function, which sets missing options to its own defaults, then to fairseq's.

    Args:
        complete: fairseq's function for the options that are not in ``defaults``.
    """

    def set_defaults(args: Any) -> None:
        flatten(args)
        for option, value in defaults.items():
            setattr(args, option, getattr(args, option, value))
        complete(args)

    return set_defaults


def class_name(name: str) -> str:
    """``ea_roberta`` -> ``EARobertaModel``"""
    return "".join(part.upper() if len(part) < 3 else part.capitalize() for part in name.split("_")) + "Model"


def register(name: str, kind: type[Model], **attributes: Any) -> type[Model]:
    """Registers with fairseq, and returns, a class of models of a kind, and puts it into the kind's module."""
    model = type(class_name(name), (kind,), {"__module__": kind.__module__, **attributes})
    setattr(sys.modules[model.__module__], model.__name__, model)
    return register_model(name)(model)


def set_options(args: Any, classes: tuple[type[Options], ...], defaults: Mapping[str, object]) -> None:
    """Sets missing options to the defaults of an architecture, so that checkpoints have all of them."""
    for opt in (opt for options in classes for opt in fields(options)):
        setattr(args, opt.name, getattr(args, opt.name, defaults.get(opt.name, opt.default)))
