"""Transformers with an attention mechanism: a fairseq model and its architectures for each registered mechanism."""

from collections.abc import Mapping
from typing import Any

from fairseq.data import Dictionary
from fairseq.models import register_model_architecture
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.tasks import FairseqTask
from torch import nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.registry import ENDINGS, FAMILIES, MODERN, PLAIN, Family, makers
from ea_fairseq.attention.registry import register_mechanism as register_mechanism  # its former module
from ea_fairseq.errors import UserError, flags_refused
from ea_fairseq.models.aa_resnet import register_aa_resnet
from ea_fairseq.models.conv_image import register_conv_image
from ea_fairseq.models.conv_transformer_image import register_conv_transformer_image
from ea_fairseq.models.dc_transformer import register_time_series
from ea_fairseq.models.decoder import MechanismDecoder
from ea_fairseq.models.encoder import MechanismEncoder
from ea_fairseq.models.graph import register_graph
from ea_fairseq.models.layer_options import LayerOptions
from ea_fairseq.models.mechanism_model import MechanismModel, architecture, register
from ea_fairseq.models.roberta import register_encoders
from ea_fairseq.models.vit import register_vit
from ea_fairseq.options import Options
from ea_fairseq.plain.flags import flag_of

MODELS: dict[str, type["MechanismTransformer"]] = {}  # by the mechanism's name
LITE = {"embed_dim": 160, "ffn_embed_dim": 160, "attention_heads": 4}  # Transformer-Lite in EA, table 5
LITE_SIZE: dict[str, object] = {
    f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in LITE.items()
}
MODERN_LAYERS: dict[str, object] = {  # what language models of 2026 have in common
    "encoder_normalize_before": True,
    "decoder_normalize_before": True,
    "norm": "rms",
    "ffn": "swiglu",
    "no_biases": True,
    "qk_norm": True,
    "no_token_positional_embeddings": True,
}
TERMS = {"relative_positions", "lightweight_conv", "synthesizer"}  # by which a mechanism may have scores of its own
SIZES: dict[str, dict[str, object]] = {  # options of the papers' sizes; 6 + 6 layers are fairseq's default
    "base": {},
    "lite": LITE_SIZE,
    "modern_base": MODERN_LAYERS,
    "modern_lite": {**LITE_SIZE, **MODERN_LAYERS, "gated_ffn_dim": 112},  # 0.5% more parameters than Lite
}
UNSUPPORTED = {
    "cross_self_attention": "self-attention and encoder-decoder attention have separate maps",
    "base_layers": "BASE layers do not pass attention logits on",
    "encoder_xformers_att_config": "xFormers does not return attention logits",
    "decoder_xformers_att_config": "xFormers does not return attention logits",
}


class MechanismTransformer(MechanismModel, TransformerModel):
    """fairseq's Transformer with one attention mechanism in all its attentions.

    It takes fairseq's ``transformer`` flags and those of the mechanism. Parameters have fairseq's names, and those of
    the mechanism are added to fairseq's attention modules.
    """

    @classmethod
    def option_classes(cls) -> tuple[type[Options], ...]:
        """Returns the option classes that this package adds."""
        return *super().option_classes(), LayerOptions

    @classmethod
    def build_model(cls, args: Any, task: FairseqTask) -> "MechanismTransformer":
        """Checks the flags and builds the model.

        Raises:
            UserError: naming the flag, if an option is out of range or not supported by the mechanism.
        """
        for name, reason in UNSUPPORTED.items():
            if getattr(args, name, None):
                raise UserError(f"{cls.family.name} does not support {flag_of(name)}: {reason}")
        cls.check_args(args, "encoder", "decoder")
        with flags_refused():
            model = super().build_model(args, task)
        if LayerOptions.from_namespace(args).start_with_padding:  # padding is then a token like others, and learned
            for stack in (model.encoder, model.decoder):
                stack.embed_tokens.padding_idx = None
        return model

    @classmethod
    def build_encoder(cls, cfg: Any, src_dict: Dictionary, embed_tokens: nn.Embedding) -> MechanismEncoder:
        """Builds the encoder."""
        return MechanismEncoder(cfg, src_dict, embed_tokens, attention=cls.attention_of(cfg, "encoder"))

    @classmethod
    def build_decoder(cls, cfg: Any, tgt_dict: Dictionary, embed_tokens: nn.Embedding) -> MechanismDecoder:
        """Builds the decoder."""
        return MechanismDecoder(
            cfg,
            tgt_dict,
            embed_tokens,
            no_encoder_attn=cfg.no_cross_attention,
            attention=cls.attention_of(cfg, "decoder"),
            cross=cls.attention_of(cfg, "cross"),
        )

    @classmethod
    def attention_of(cls, cfg: Any, kind: str) -> type[Attention]:
        """Returns the class of the attentions of a kind: ``encoder``, ``decoder`` or ``cross``."""
        return cls.family.attention


def register_transformer(family: Family, archs: Mapping[str, str]) -> None:
    """Registers a family's Transformer with fairseq, and its architectures; ``archs`` has their sizes by name."""
    name = family.name
    MODELS[name] = register(name, MechanismTransformer, family=family, __doc__=family.attention.__doc__)
    for arch, size in archs.items():
        own = family.defaults.get(size.removeprefix("modern_"), {})
        rotates = size.startswith("modern_") and TERMS.isdisjoint(own)
        defaults = {**SIZES[size], **({"relative_positions": "rope"} if rotates else {}), **own}
        register_model_architecture(name, arch)(architecture(defaults, base_architecture))


def make_models(family: Family) -> None:
    """Registers a mechanism's models with fairseq: Transformer, encoders, models of time series, graphs and images."""
    register_transformer(family, family.archs)
    register_encoders(family)
    register_time_series(family)
    register_graph(family)
    for register_images in (register_vit, register_aa_resnet, register_conv_image, register_conv_transformer_image):
        register_images(family)


makers["mechanism"] = make_models
for known in FAMILIES.values():
    make_models(known)
# The baselines: fairseq's own Transformer at the papers' smallest size, and a modern one.
register_model_architecture("transformer", PLAIN["lite"])(architecture(SIZES["lite"], base_architecture))
register_transformer(
    Family(MODERN, Attention, {}), {MODERN + ending: f"modern_{size}" for ending, size in ENDINGS.items()}
)
