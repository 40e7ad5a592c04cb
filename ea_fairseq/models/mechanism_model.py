"""What all models of a mechanism share, whichever of fairseq's models they are built on."""

import copy
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

from fairseq.checkpoint_utils import prune_state_dict
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.convolution_options import ConvolutionOptions
from ea_fairseq.attention.maps import kind_of
from ea_fairseq.attention.registry import Family
from ea_fairseq.attention.term_options import TermOptions
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.dispatch import check_backend
from ea_fairseq.models.nested_options import flatten
from ea_fairseq.models.state_dict import missing_mechanism, refuse_mismatch, remove_unread, start_mechanism
from ea_fairseq.options import Options, flag

DASHBOARDS = ("tensorboard_logdir", "wandb_project")
LAST = 10_000  # priority: after all that fairseq logs


class MechanismModel(BaseFairseqModel):
    """Flags, their checks, and checkpoints; stands before a model of fairseq among the bases of a class."""

    family: ClassVar[Family]
    hub: ClassVar[Any]  # the class that a trained model is used by in Python

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str | Path,
        checkpoint_file: str | None = None,
        data_name_or_path: str | Path | None = None,
        **kwargs: Any,
    ) -> Any:
        """Loads a trained model for raw text: to translate and score with, or to classify and fill in words.

        Args:
            model_name_or_path: folder of the checkpoints.
            checkpoint_file: a checkpoint in it or, of translation models, several for an ensemble: ``"a.pt:b.pt"``; by
                default ``checkpoint_best.pt``, ``checkpoint_last.pt`` or ``model.pt``, the first that is there.
            data_name_or_path: folder of the dictionaries; of classifiers, that of ``input0`` and ``label``. A path that
                starts with "." is relative to the folder of the checkpoints, as always in fairseq, and any other
                relative path to the current folder. By default it is that of the checkpoints where it has dictionaries,
                else the one that the model was trained on.
            tokenizer, bpe, ...: fairseq's options, where they are not given as ``preparation.json`` beside the
                dictionaries or checkpoints says. ``tokenizer="moses"`` tokenizes by the languages that the model was
                trained for; where `prepare corpus` made the data, add ``moses_no_dash_splits=True`` and lower-case
                text that was lower-cased there. ``bpe="subword_nmt"`` needs ``bpe_codes``, ``bpe="sentencepiece"``
                needs ``sentencepiece_model``: files, relative to the current folder.
            target_subword: of translation models, file of the target language's subword model, where it has its own.

        Returns:
            A ``TranslationHub`` or an ``EncoderHub``.

        Raises:
            UserError: naming the folder, checkpoint, dictionary or subword model that is not there.
        """
        return cls.hub.from_pretrained(model_name_or_path, checkpoint_file, data_name_or_path, **kwargs)

    @classmethod
    def hub_models(cls) -> dict:
        """None: nothing is downloaded."""
        return {}

    @classmethod
    def option_classes(cls) -> tuple[type[Options], ...]:
        """Those of the flags that are not fairseq's: of terms, of convolutions and of the mechanism."""
        return TermOptions, ConvolutionOptions, cls.family.attention.options

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Adds fairseq's flags and our own."""
        super().add_args(parser)
        for options in cls.option_classes():
            options.add_args(parser)

    @classmethod
    def check_args(cls, args: Any, *sides: str) -> None:
        """Checks our flags, and the heads of ``sides``: ``encoder``, ``decoder``.

        Raises:
            UserError: naming the flag, when an option is out of range or does not go with the mechanism.
        """
        for side in sides:
            width, heads = getattr(args, f"{side}_embed_dim"), getattr(args, f"{side}_attention_heads")
            if heads < 1 or width % heads:
                raise UserError(
                    f"--{side}-attention-heads must divide --{side}-embed-dim, and {heads} is no divisor of {width}"
                )
        for options in cls.option_classes():
            options.from_namespace(args)
        for kind in ("encoder", "decoder"):
            name = f"{kind}_layers_to_keep"
            kept = getattr(args, name, None)
            if kept is not None and not isinstance(
                kept, str
            ):  # fairseq reads a list from the command line, and splits text
                kept = ",".join(map(str, kept))
                setattr(args, name, kept)
            cls.check_layers_to_keep(kind, kept)
        check_backend()

    @classmethod
    def check_layers_to_keep(cls, kind: str, kept: str | None) -> None:
        """
        Raises:
            UserError: where fairseq's ``--encoder-layers-to-keep`` names no layers, or layers that would be others.
        """
        if not kept:
            return
        try:
            layers = sorted(map(int, kept.split(",")))
        except ValueError:
            raise UserError(f"--{kind}-layers-to-keep must be numbers such as 0,2,4, not {kept!r}") from None
        if not cls.family.attention.may_renumber(kind, layers):
            raise UserError(
                f"--{kind}-layers-to-keep {kept} gives layers other numbers, and what a layer of {cls.family.name} "
                "computes depends on its number: keep the first layers"
            )

    @classmethod
    def refuse_decoder_flags(cls, args: Any) -> None:
        """
        Raises:
            UserError: naming the flag that is of a decoder's or of encoder-decoder attentions.
        """
        for opt in fields(cls.family.attention.options):
            if any(kind in opt.name.split("_") for kind in ("decoder", "cross")) and getattr(args, opt.name, False):
                raise UserError(
                    f"{flag(opt)} is not for encoders alone: it is of a decoder, which only {cls.family.name} has"
                )
        terms = TermOptions.from_namespace(args)
        if terms.no_content_scores and terms.attention_type != "dot":
            raise UserError(
                f"--no-content-scores leaves out what --attention-type {terms.attention_type} is: leave out one of them"
            )

    def load_state_dict(
        self, state_dict: dict[str, Tensor], strict: bool = True, model_cfg: Any = None, args: Any = None
    ) -> Any:
        """Loads parameters of such a model or, with those of the mechanism starting anew, of a plain Transformer.

        Raises:
            UserError: naming the first parameter that does not fit, before any is loaded.
        """
        self.upgrade_state_dict(state_dict)
        if not self.has_layers_of(state_dict):  # a training's own checkpoint is pruned already
            state_dict = prune_state_dict(state_dict, model_cfg or args)
        state_dict = copy.copy(state_dict)
        new = missing_mechanism(self, state_dict)
        state_dict.update(new)
        unread = remove_unread(self, state_dict) if new else 0
        if strict:
            refuse_mismatch(self, state_dict)
        if new:
            start_mechanism(
                self, self.family.attention, self.family.attention.options.from_namespace(self.args), unread
            )
        return super().load_state_dict(state_dict, strict)

    def has_layers_of(self, state_dict: dict[str, Tensor]) -> bool:
        """Whether each stack has as many layers as in a state dict."""
        for side in ("encoder", "decoder"):
            prefix = f"{side}.layers."
            there = {name.removeprefix(prefix).partition(".")[0] for name in state_dict if name.startswith(prefix)}
            if there and len(there) != len(getattr(self, side).layers):
                return False
        return True

    def set_num_updates(self, num_updates: int) -> None:
        """Called by fairseq before each update of a training."""
        super().set_num_updates(num_updates)
        log_metrics(self, self.args)


def log_metrics(model: nn.Module, args: Any) -> None:
    """Adds what each attention's mechanism has to show to the metrics being collected.

    Does nothing unless ``args`` name a dashboard. The values are taken when fairseq writes its metrics: other updates
    pay nothing for them, and they are those of the model after the update that they stand beside.
    """
    if not any(getattr(args, dashboard, None) for dashboard in DASHBOARDS):
        return
    for name, attention in model.named_modules():
        if isinstance(attention, Attention):
            for metric, value in attention.metrics(name, kind_of(name) or "").items():
                log(metric, value)


def log(name: str, value: Callable[[], float]) -> None:
    """Has fairseq call ``value`` when it writes a metric of that name."""
    metrics.log_derived(name, lambda _: value(), LAST)


def architecture(defaults: Mapping[str, object], complete: Callable[[Any], None]) -> Callable[[Any], None]:
    """What sets the options of an architecture that are not given: to its own defaults, then those of fairseq.

    Args:
        complete: fairseq's function that sets the others.
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


def class_of_name(models: Iterable[type], module: str, name: str) -> type:
    """The one of a module's models that has a class name, as pickle and imports look for it.

    Raises:
        AttributeError: where none has it.
    """
    for model in models:
        if model.__name__ == name:
            return model
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
