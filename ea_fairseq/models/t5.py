"""T5: Raffel et al., Exploring the Limits of Transfer Learning, JMLR 2020, and with evolving attention EA-T5.

T5 is the Transformer with other parts: RMS norms before each sub-layer, no biases, one table of relative positions for
all layers of a stack, scores that are not scaled, embeddings that are, and padding as the decoder's first token. T5 1.1
has gated feed-forward networks and a separate output projection. EA-T5 is in Wang et al., Evolving Attention, ICML 2021
("EA"), section 4.2, which does not say which of its attentions evolve.
"""

from typing import Any, cast

from fairseq.data import Dictionary
from fairseq.models import register_model_architecture
from fairseq.models.transformer import base_architecture
from fairseq.tasks import FairseqTask
from torch import nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.registry import FAMILIES, Family, makers
from ea_fairseq.models.decoder import MechanismDecoder
from ea_fairseq.models.layer import MechanismLayer
from ea_fairseq.models.mechanism_model import architecture, register
from ea_fairseq.models.t5_options import T5Options
from ea_fairseq.models.transformer import TERMS, MechanismTransformer
from ea_fairseq.options import Options

MODELS: dict[str, type["T5"]] = {}  # by the model's name
PARTS: dict[str, object] = {
    "encoder_normalize_before": True,
    "decoder_normalize_before": True,
    "norm": "rms",
    "no_biases": True,
    "no_token_positional_embeddings": True,
    "no_scale_embedding": True,
    "no_scale_attention": True,
    "start_with_padding": True,
    "share_all_embeddings": True,
    "activation_dropout": 0.1,
    "attention_dropout": 0.1,
    "dropout": 0.1,
    "final_dropout": True,
    "head_dim": 64,
}
POSITIONS: dict[str, object] = {"relative_positions": "t5", "t5_published": True}
VERSIONS: dict[str, dict[str, object]] = {
    "": {"scale_logits": True},
    "1_1_": {"ffn": "geglu", "untied_output": True},
}
SIZES: dict[str, tuple[int, int, int, int]] = {  # layers of each stack, width, heads, units of feed-forward networks
    "base": (12, 768, 12, 3072),
    "small": (6, 512, 8, 2048),
    "large": (24, 1024, 16, 4096),
    "tiny": (4, 256, 4, 1024),  # T5-Efficient-Tiny of Tay et al., Scale Efficiently, ICLR 2022
    "1_1_base": (12, 768, 12, 2048),
    "1_1_small": (8, 512, 6, 1024),
    "1_1_large": (24, 1024, 16, 2816),
}


class T5(MechanismTransformer):
    """T5, with a mechanism in the attentions that ``--ea-in`` names, by default the encoder's."""

    @classmethod
    def option_classes(cls) -> tuple[type[Options], ...]:
        """Returns the option classes that this package adds."""
        return *super().option_classes(), T5Options

    @classmethod
    def build_model(cls, args: Any, task: FairseqTask) -> "T5":
        """Checks the flags and builds the model, with T5's initial parameters.

        Raises:
            UserError: naming the flag, if an option is out of range or not supported by the mechanism.
        """
        model = super().build_model(args, task)
        initialize(model, T5Options.from_namespace(args), has_embeddings=bool(args.encoder_embed_path))
        return model

    @classmethod
    def build_decoder(cls, cfg: Any, tgt_dict: Dictionary, embed_tokens: nn.Embedding) -> MechanismDecoder:
        """Builds the decoder, which shares the encoder's embeddings; in T5 1.0 its output projection does, too."""
        if T5Options.from_namespace(cfg).untied_output:
            cfg.share_decoder_input_output_embed = False
        return super().build_decoder(cfg, tgt_dict, embed_tokens)

    @classmethod
    def attention_of(cls, cfg: Any, kind: str) -> type[Attention]:
        """Returns the class of the attentions of a kind: plain attention unless ``--ea-in`` names it."""
        return cls.family.attention if kind in T5Options.from_namespace(cfg).kinds else Attention


def initialize(model: T5, options: T5Options, has_embeddings: bool) -> None:
    """Initializes T5's own parameters as T5 does: scores are not scaled, so the queries' weights are small instead.

    Args:
        has_embeddings: whether the encoder's embeddings are read from a file.
    """
    width = model.encoder.embed_tokens.embedding_dim
    weights: list[tuple[nn.Module | None, float]] = [] if has_embeddings else [(model.encoder.embed_tokens, 1.0)]
    if options.untied_output:
        weights.append((model.decoder.output_projection, width**-0.5))
    for module in model.modules():
        if isinstance(module, Attention):
            heads = module.num_heads * module.head_dim
            weights += [(module.q_proj, (width * module.key_dim) ** -0.5), (module.out_proj, heads**-0.5)]
            weights += [(module.k_proj, width**-0.5), (module.v_proj, width**-0.5)]
        elif isinstance(module, MechanismLayer):
            weights += [(layer, cast(nn.Linear, layer).in_features ** -0.5) for layer in (module.fc1, module.fc2)]
    for layer, std in weights:
        if layer is not None:  # such as the queries of a synthesizer
            nn.init.normal_(cast(nn.Linear, layer).weight, std=std)


def options_of_size(name: str) -> dict[str, object]:
    """Returns the options of an architecture, given its name without ``t5_``, such as ``1_1_small``."""
    layers, width, heads, units = SIZES[name]
    version = VERSIONS["1_1_" if name.startswith("1_1_") else ""]
    found: dict[str, object] = {**PARTS, **version}
    for side in ("encoder", "decoder"):
        found |= {f"{side}_layers": layers, f"{side}_embed_dim": width, f"{side}_attention_heads": heads}
        found |= {f"{side}_ffn_embed_dim": units}
    return found | ({"gated_ffn_dim": units} if "ffn" in version else {})


def register_t5(family: Family | None) -> None:
    """Registers a family's T5s, such as ``ea_t5_small`` and ``ea_t5_1_1_small``; ``ea_t5`` is ``ea_t5_base``.

    A mechanism whose scores have terms of its own, such as synthesizers, has no table of positions.

    Args:
        family: None for plain attention.
    """
    if family is None:
        name, family = "t5", Family("t5", Attention, {})
    else:
        name = family.model("t5")
    own = {option: value for option, value in family.encoder_defaults.items() if option != "segments"}
    own = {**(POSITIONS if TERMS.isdisjoint(own) else {}), **own}
    MODELS[name] = register(name, T5, family=family, __doc__=family.attention.__doc__)
    for arch, size in {name: "base", **{f"{name}_{size}": size for size in SIZES}}.items():
        register_model_architecture(name, arch)(architecture({**options_of_size(size), **own}, base_architecture))


makers["t5"] = register_t5
for known in (None, *FAMILIES.values()):
    register_t5(known)
