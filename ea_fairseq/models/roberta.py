"""Encoder-only models: fairseq's RoBERTa, and BERT in the same layout, with a mechanism in their attentions."""

from typing import Any

from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderModel, register_model_architecture
from fairseq.models.roberta import RobertaEncoder, RobertaLMHead, RobertaModel
from fairseq.models.roberta.model import base_architecture
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from fairseq.tasks import FairseqTask
from fairseq.tasks.masked_lm import MaskedLMTask
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.registry import LAYOUTS, Family
from ea_fairseq.errors import UserError
from ea_fairseq.models.encoder_options import POOLED, EncoderOptions
from ea_fairseq.models.layer_options import LayerOptions
from ea_fairseq.models.mechanism_model import MechanismModel, architecture, mark_embeddings, register
from ea_fairseq.models.pooled_head import PooledHead
from ea_fairseq.models.sentence_encoder import SentenceEncoder
from ea_fairseq.options import Options

MODELS: dict[str, type["MechanismRoberta"]] = {}  # by the model's name
SIZES = {  # layers, width, feed-forward width, heads
    "tiny": (4, 128, 512, 4),
    "mini": (6, 384, 1536, 12),
    "small": (12, 256, 1024, 4),
    "base": (12, 768, 3072, 12),
    "large": (24, 1024, 4096, 16),
}
SIZE_OPTIONS = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads")
POOLER = "pooler.dense"  # name of BERT's pooler in a checkpoint without heads
LAYOUT_DEFAULTS = {"roberta": {}, "bert": {"segments": 2, "layer_norm_eps": 1e-12}}


class MechanismRobertaEncoder(RobertaEncoder):
    """fairseq's RoBERTa encoder and its language model's head, with a mechanism in the attentions."""

    def __init__(self, args: Any, dictionary: Dictionary, attention: type[Attention]):
        """Args: attention: the class of the attentions."""
        # fairseq's constructor calls the methods below, which read these.
        self._attention, self._size = attention, EncoderOptions.from_namespace(args).embedding_size
        self._size = self._size or args.encoder_embed_dim
        super().__init__(args, dictionary)
        for norm in (module for module in self.modules() if hasattr(module, "normalized_shape")):
            norm.eps = EncoderOptions.from_namespace(args).layer_norm_eps

    def build_embedding(self, vocab_size: int, embedding_dim: int, padding_idx: int) -> nn.Embedding:
        """Builds token embeddings (tokens, N)."""
        return super().build_embedding(vocab_size, self._size, padding_idx)

    def build_encoder(self, args: Any, dictionary: Dictionary, embed_tokens: nn.Embedding) -> SentenceEncoder:
        """Builds the layers and the embeddings of positions and segments."""
        cfg = TransformerConfig.from_namespace(args)
        return SentenceEncoder(cfg, dictionary, embed_tokens, self._attention).apply(init_weights)

    def build_lm_head(
        self, embed_dim: int, output_dim: int, activation_fn: str, weight: nn.Parameter | None
    ) -> nn.Module | None:
        """Builds the language model's head, (B, S, C) -> (B, S, tokens), with a dense layer as wide as embeddings."""
        head = RobertaLMHead(self._size, output_dim, activation_fn, weight)
        if self._size != embed_dim:
            head.dense = nn.Linear(embed_dim, self._size)
        return head

    def max_positions(self) -> int:
        """Returns the maximum sentence length: ``--max-positions``, or the lower limit of a score term."""
        return min(super().max_positions(), self.sentence_encoder.max_positions())


class MechanismRoberta(MechanismModel, RobertaModel):
    """fairseq's RoBERTa with one attention mechanism in its attentions.

    It takes fairseq's ``roberta`` flags, those of :class:`EncoderOptions` and those of the mechanism. Parameters have
    fairseq's names, and those of the mechanism are added to fairseq's attention modules.
    """

    encoder_class = MechanismRobertaEncoder

    def __init__(self, args: Any, encoder: MechanismRobertaEncoder):
        FairseqEncoderModel.__init__(self, encoder)  # RobertaModel's initializes projections that may not exist
        self.args = args
        self.init_weights()
        self.classification_heads = nn.ModuleDict()
        mark_embeddings(self)

    def init_weights(self) -> None:
        """Initializes parameters as BERT does."""
        self.apply(init_weights)

    def register_classification_head(
        self, name: str, num_classes: int, inner_dim: int | None = None, **kwargs: Any
    ) -> None:
        """Adds the head that ``--classification-head`` names."""
        args = self.args
        if EncoderOptions.from_namespace(args).classification_head != POOLED:
            super().register_classification_head(name, num_classes, inner_dim, **kwargs)
            return
        self.classification_heads[name] = PooledHead(
            args.encoder_embed_dim,
            self.encoder.dictionary,
            num_classes=num_classes,
            activation_fn=args.pooler_activation_fn,
            pooler_dropout=args.pooler_dropout,
            q_noise=args.quant_noise_pq,
            qn_block_size=args.quant_noise_pq_block_size,
            do_spectral_norm=args.spectral_norm_classification_head,
        )

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        classification_head_name: str | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, dict]:
        """
        Args:
            src_tokens: (B, S).

        Returns:
            Scores of tokens (B, S, tokens), features (B, S, C), or a head's scores (B, classes), and a dictionary with
            the states of the layers.
        """
        features_only = features_only or classification_head_name is not None
        x, extra = super().forward(src_tokens, features_only, return_all_hiddens, **kwargs)
        if classification_head_name is not None:
            x = self.classification_heads[classification_head_name](x, tokens=src_tokens)
        return x, extra

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Copies a checkpoint's BERT pooler to the dense layer of each classification head of the same size."""
        names = {part: f"{POOLER}.{part}" for part in ("weight", "bias")}
        pooler = {part: state_dict.pop(name) for part, name in names.items() if name in state_dict}
        super().upgrade_state_dict_named(state_dict, name)
        for head, modules in self.classification_heads.items():
            own = modules.get_submodule("dense").state_dict()
            if pooler.keys() == names.keys() and all(pooler[part].shape == own[part].shape for part in names):
                dense = f"classification_heads.{head}.dense"
                state_dict.update({f"{dense}.{part}": tensor for part, tensor in pooler.items()})

    @classmethod
    def option_classes(cls) -> tuple[type[Options], ...]:
        """Returns the option classes that this package adds."""
        return *super().option_classes(), LayerOptions, EncoderOptions

    @classmethod
    def build_model(cls, args: Any, task: FairseqTask) -> "MechanismRoberta":
        """Checks the flags and builds the model.

        Raises:
            UserError: naming the flag, if an option is out of range or not supported by the mechanism.
        """
        base_architecture(args)
        if not hasattr(args, "max_positions"):
            args.max_positions = getattr(args, "tokens_per_sample", None) or task.max_positions()
        cls.check_args(args, "encoder")
        options = EncoderOptions.from_namespace(args)
        if options.offload_activations:  # as in fairseq's Transformer
            args.checkpoint_activations = True
        model = cls(args, cls.encoder_class(args, task.source_dictionary, cls.family.attention))
        attentions = [layer.self_attn for layer in model.encoder.sentence_encoder.layers]
        projected = all(isinstance(attention, Attention) and has_projections(attention) for attention in attentions)
        if getattr(args, "mha_reg_scale_factor", 0) and not projected:
            raise UserError("--mha-reg-scale-factor is for queries and keys, which these attentions do not have")
        if options.freeze_encoder:
            if isinstance(task, MaskedLMTask):
                raise UserError("--freeze-encoder leaves nothing to train: it is for --task sentence_prediction")
            model.encoder.requires_grad_(False)
        return model

    @classmethod
    def check_args(cls, args: Any, *sides: str) -> None:
        """Checks the flags of this package, and refuses flags of decoders and of pruned heads.

        Raises:
            UserError: naming the flag.
        """
        cls.refuse_decoder_flags(args)
        if getattr(args, "mha_heads_to_keep", -1) != -1:
            raise UserError("--mha-heads-to-keep is not supported: the mechanism needs all heads")
        super().check_args(args, *sides)


def init_weights(module: nn.Module) -> None:
    """Initializes a module as BERT does, except for an attention without projections of queries or keys."""
    if has_projections(module):
        init_bert_params(module)


def has_projections(module: nn.Module) -> bool:
    """Whether a module is not an attention, or one with queries, keys and values."""
    return not isinstance(module, Attention) or module.projected == "qkv"


def register_encoders(family: Family) -> None:
    """Registers a family's encoders with fairseq, such as ``ea_roberta`` and ``ea_bert``, and their architectures."""
    for layout in LAYOUTS:
        name = family.encoder(layout)
        MODELS[name] = register(name, MechanismRoberta, family=family, __doc__=family.attention.__doc__)
        for arch, size in family.encoder_archs(layout).items():
            sizes = dict(zip(SIZE_OPTIONS, SIZES[size], strict=True))
            defaults = sizes | LAYOUT_DEFAULTS[layout] | dict(family.encoder_defaults)
            register_model_architecture(name, arch)(architecture(defaults, base_architecture))
