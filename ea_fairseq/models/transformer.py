"""Transformers whose attentions have a mechanism: a fairseq model and its architectures for each that registers."""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from fairseq.checkpoint_utils import prune_state_dict
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerModel, base_architecture

from ea_fairseq.analysis.metrics import log_metrics
from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.convolution_options import ConvolutionOptions
from ea_fairseq.attention.registry import FAMILIES, Family
from ea_fairseq.attention.term_options import TermOptions
from ea_fairseq.hub import TranslationHub
from ea_fairseq.kernels.availability import check_backend
from ea_fairseq.models.stack import MechanismDecoder, MechanismEncoder
from ea_fairseq.models.transformer_lite import lite_sizes
from ea_fairseq.state_dict import missing_mechanism, refuse_mismatch, remove_unread, start_mechanism
from ea_fairseq.user_error import UserError, flags_refused

MODELS: dict[str, type["MechanismTransformer"]] = {}  # by the mechanism's name
UNSUPPORTED = {
    "cross_self_attention": "evolving attention keeps separate maps for target and source words",
    "base_layers": "BASE layers do not pass attention logits on",
    "encoder_xformers_att_config": "xFormers computes attention without showing its logits",
    "decoder_xformers_att_config": "xFormers computes attention without showing its logits",
}


class MechanismTransformer(TransformerModel):
    """fairseq's Transformer with one attention mechanism in all its attentions.

    Takes fairseq's ``transformer`` flags and those of the mechanism. Parameters have fairseq's names; what the
    mechanism adds is named after them.
    """

    family: ClassVar[Family]

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str | Path,
        checkpoint_file: str = "model.pt",
        data_name_or_path: str | Path = ".",
        **kwargs,
    ) -> TranslationHub:
        """Loads a trained model, or an ensemble, to translate and score raw text with.

        Args:
            model_name_or_path: folder of the checkpoints.
            checkpoint_file: a checkpoint in it, or several for an ensemble: ``"a.pt:b.pt"``.
            data_name_or_path: folder of the dictionaries. A path that starts with "." is relative to the folder of
                the checkpoints, as always in fairseq, and any other relative path to the current folder.
            tokenizer, bpe, ...: fairseq's options. ``tokenizer="moses"`` tokenizes by the languages that the model
                was trained for; where `prepare-corpus.sh` made the data, add ``moses_no_dash_splits=True`` and
                lower-case text that was lower-cased there. ``bpe="subword_nmt"`` needs ``bpe_codes``,
                ``bpe="sentencepiece"`` needs ``sentencepiece_model``: files, relative to the current folder.
            target_subword: file of the target language's subword model, where it has its own.

        Raises:
            UserError: naming the folder, checkpoint, dictionary or subword model that is not there.
        """
        return TranslationHub.load(model_name_or_path, checkpoint_file, data_name_or_path, **kwargs)

    @classmethod
    def hub_models(cls):
        """None: nothing is downloaded."""
        return {}

    @classmethod
    def add_args(cls, parser):
        """fairseq's flags of a Transformer, those of terms and convolutions and those of the mechanism."""
        super().add_args(parser)
        TermOptions.add_args(parser)
        ConvolutionOptions.add_args(parser)
        cls.family.attention.options.add_args(parser)

    @classmethod
    def build_model(cls, args, task):
        """
        Raises:
            UserError: naming the flag, when an option is out of range or does not go with the mechanism.
        """
        for name, reason in UNSUPPORTED.items():
            if getattr(args, name, None):
                raise UserError(f"{cls.family.name} does not support --{name.replace('_', '-')}: {reason}")
        for side in ("encoder", "decoder"):
            width, heads = getattr(args, f"{side}_embed_dim"), getattr(args, f"{side}_attention_heads")
            if heads < 1 or width % heads:
                raise UserError(
                    f"--{side}-attention-heads must divide --{side}-embed-dim, and {heads} is no divisor of {width}"
                )
        cls.family.attention.options.from_namespace(args)
        TermOptions.from_namespace(args)
        ConvolutionOptions.from_namespace(args)
        check_backend()
        with flags_refused():
            return super().build_model(args, task)

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None):
        """Loads parameters of such a model or, with those of the mechanism starting anew, of a plain Transformer.

        Raises:
            UserError: naming the first parameter that does not fit, before any is loaded.
        """
        self.upgrade_state_dict(state_dict)
        state_dict = copy.copy(prune_state_dict(state_dict, model_cfg or args))
        new = missing_mechanism(self, state_dict)
        state_dict.update(new)
        unread = remove_unread(self, state_dict) if new else 0
        if strict:
            refuse_mismatch(self, state_dict)
        if new:
            start_mechanism(self, self.family.attention.options.from_namespace(self.args), unread)
        return super().load_state_dict(state_dict, strict)

    def set_num_updates(self, num_updates: int):
        """Called by fairseq before each update of a training."""
        super().set_num_updates(num_updates)
        log_metrics(self, self.args)

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens):
        """The encoder, its attentions with the mechanism."""
        return MechanismEncoder(cfg, src_dict, embed_tokens, attention=cls.family.attention)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens):
        """The decoder, its attentions with the mechanism."""
        return MechanismDecoder(
            cfg,
            tgt_dict,
            embed_tokens,
            no_encoder_attn=cfg.no_cross_attention,
            attention=cls.family.attention,
        )


def register_mechanism(name: str, **defaults: Mapping[str, object]) -> Callable[[type[Attention]], type[Attention]]:
    """Registers an attention, and with fairseq a Transformer of it: model ``name``, ``name_base`` and ``name_lite``.

    Args:
        defaults: of the mechanism's options, by size: ``base`` and ``lite``.
    """

    def register(attention: type[Attention]) -> type[Attention]:
        family = FAMILIES[name] = Family(name, attention, defaults)
        model = type(class_name(name), (MechanismTransformer,), {"family": family, "__doc__": attention.__doc__})
        MODELS[name] = register_model(name)(model)
        for arch, size in family.archs.items():
            register_model_architecture(name, arch)(architecture(defaults.get(size, {}), size))
        return attention

    return register


def __getattr__(name: str) -> type[MechanismTransformer]:
    """A model's class by its name, for pickle and for those who import it from here."""
    for model in MODELS.values():
        if model.__name__ == name:
            return model
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def class_name(name: str) -> str:
    """``ea_transformer`` -> ``EATransformerModel``"""
    return "".join(part.upper() if len(part) < 3 else part.capitalize() for part in name.split("_")) + "Model"


def architecture(defaults: Mapping[str, object], size: str) -> Callable:
    """What sets the options of an architecture that are not given."""

    def set_defaults(args) -> None:
        for option, value in defaults.items():
            setattr(args, option, getattr(args, option, value))
        if size == "lite":
            lite_sizes(args)
        base_architecture(args)

    return set_defaults
