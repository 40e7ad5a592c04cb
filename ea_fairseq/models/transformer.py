"""The model ``ea_transformer`` and its architectures."""

import copy
from pathlib import Path

from fairseq.checkpoint_utils import prune_state_dict
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerModel, base_architecture

from ea_fairseq.analysis.metrics import log_evolution
from ea_fairseq.hub import TranslationHub
from ea_fairseq.kernels.dispatch import check_backend
from ea_fairseq.mechanisms.evolution import EvolutionOptions
from ea_fairseq.models.stack import EATransformerDecoder, EATransformerEncoder
from ea_fairseq.models.transformer_lite import lite_sizes
from ea_fairseq.state_dict import missing_evolution, refuse_mismatch, start_evolution
from ea_fairseq.user_error import UserError, flags_refused

UNSUPPORTED = {
    "cross_self_attention": "evolving attention keeps separate maps for target and source words",
    "base_layers": "BASE layers do not pass attention logits on",
    "encoder_xformers_att_config": "xFormers computes attention without showing its logits",
    "decoder_xformers_att_config": "xFormers computes attention without showing its logits",
}


@register_model("ea_transformer")
class EATransformerModel(TransformerModel):
    """Transformer with evolving attention (Wang et al., ICML 2021).

    Takes fairseq's ``transformer`` flags and those of :class:`~ea_fairseq.mechanisms.evolution.EvolutionOptions`.
    Parameters have fairseq's names; each evolving attention adds ``conv.weight`` and ``conv.bias``.
    """

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
        return {}

    @classmethod
    def add_args(cls, parser):
        super().add_args(parser)
        EvolutionOptions.add_args(parser)

    @classmethod
    def build_model(cls, args, task):
        """
        Raises:
            UserError: naming the flag, when an option is out of range or does not go with evolving attention.
        """
        for name, reason in UNSUPPORTED.items():
            if getattr(args, name, None):
                raise UserError(f"ea_transformer does not support --{name.replace('_', '-')}: {reason}")
        for side in ("encoder", "decoder"):
            width, heads = getattr(args, f"{side}_embed_dim"), getattr(args, f"{side}_attention_heads")
            if heads < 1 or width % heads:
                raise UserError(
                    f"--{side}-attention-heads must divide --{side}-embed-dim, and {heads} is no divisor of {width}"
                )
        EvolutionOptions.from_namespace(args)
        check_backend()
        with flags_refused():
            return super().build_model(args, task)

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None):
        """Loads the parameters of an EA-Transformer or, with convolutions that start anew, of a plain Transformer.

        Raises:
            UserError: naming the first parameter that does not fit, before any is loaded.
        """
        self.upgrade_state_dict(state_dict)
        state_dict = copy.copy(prune_state_dict(state_dict, model_cfg or args))
        new = missing_evolution(self, state_dict)
        state_dict.update(new)
        if strict:
            refuse_mismatch(self, state_dict)
        if new:
            start_evolution(self, identity=EvolutionOptions.from_namespace(self.args).ea_init != "random")
        return super().load_state_dict(state_dict, strict)

    def set_num_updates(self, num_updates: int):
        """Called by fairseq before each update of a training."""
        super().set_num_updates(num_updates)
        log_evolution(self, self.args)

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens):
        return EATransformerEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens):
        return EATransformerDecoder(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)


def evolution_defaults(args, alpha: float, beta: float):
    args.ea_alpha = getattr(args, "ea_alpha", alpha)
    args.ea_beta = getattr(args, "ea_beta", beta)


@register_model_architecture("ea_transformer", "ea_transformer")
@register_model_architecture("ea_transformer", "ea_transformer_base")
def ea_transformer_base(args):
    evolution_defaults(args, alpha=0.5, beta=0.1)
    base_architecture(args)


@register_model_architecture("ea_transformer", "ea_transformer_lite")
def ea_transformer_lite(args):
    evolution_defaults(args, alpha=0.1, beta=0.1)
    lite_sizes(args)
    base_architecture(args)
