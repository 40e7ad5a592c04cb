"""Classifiers of sentences that are trained from scratch: Predictive Attention Transformer ("PA"), section 4.1.1.

The paper does not specify three details; here layers are post-norm, the activation is ReLU, and the classifier reads
the mean over tokens.
"""

from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import register_model_architecture
from fairseq.models.roberta import RobertaModel
from fairseq.models.roberta.model import base_architecture
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import FairseqDropout
from fairseq.utils import load_embedding, parse_embedding
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.registry import CLASSIFIERS, Family, makers, register_classifier
from ea_fairseq.blocks.token_convolution import ConvolvedTokens
from ea_fairseq.errors import UserError
from ea_fairseq.models.encoder_options import CLASS_TOKEN, ClassifierOptions
from ea_fairseq.models.mechanism_model import architecture, register
from ea_fairseq.models.roberta import MODELS, MechanismRoberta, MechanismRobertaEncoder
from ea_fairseq.models.sentence_encoder import SentenceEncoder
from ea_fairseq.options import Options
from ea_fairseq.plain.flags import flag_of

DEFAULTS = {  # PA, section B.1; three blocks as in table 1
    "encoder_layers": 3,
    "encoder_embed_dim": 256,
    "encoder_ffn_embed_dim": 1024,
    "encoder_attention_heads": 8,
    "embedding_size": 300,
    "dropout": 0.2,
    "attention_dropout": 0.0,
    "activation_fn": "relu",
    "layernorm_embedding": False,
    "no_token_positional_embeddings": True,
    "relative_positions": "shaw",
    "shaw_distance": 63,  # the longest sentence but one has 64 words
}
HEAD_OPTIONS: dict[str, object] = {  # options of the heads of RoBERTa, with their defaults
    "classification_head": CLASS_TOKEN,
    "pooler_activation_fn": "tanh",
    "pooler_dropout": 0.0,
    "spectral_norm_classification_head": False,
    "untie_weights_roberta": False,
}


class DenseEncoder(SentenceEncoder):
    """An encoder whose layers may read the outputs of all layers before them, as in DenseNet.

    Parameters are those of :class:`SentenceEncoder` and, with ``--dense-connections``, ``dense``: a linear layer from
    (i + 1) C to C before each layer i but the first.
    """

    def __init__(self, cfg: Any, dictionary: Dictionary, embed_tokens: nn.Embedding, attention: type[Attention]):
        super().__init__(cfg, dictionary, embed_tokens, attention)
        options, width = ClassifierOptions.from_namespace(cfg), cfg.encoder.embed_dim
        self.dropout_module = FairseqDropout(options.embedding_dropout, module_name="embeddings")
        if self.segment_embeddings is not None:
            nn.init.normal_(self.segment_embeddings.weight, std=embed_tokens.embedding_dim**-0.5)  # as those of words
        self.dense = None
        if options.dense_connections:
            self.dense = nn.ModuleList(nn.Linear((i + 1) * width, width) for i in range(1, self.num_layers))

    def layer_input(self, states: list[Tensor]) -> Tensor:
        """Combines the states so far, (S, B, C) each, to the next layer's input."""
        if self.dense is None or len(states) == 1:
            return super().layer_input(states)
        return self.dense[len(states) - 2](torch.cat(states, dim=-1))


class ClassifierEncoder(MechanismRobertaEncoder):
    """The embeddings and layers of a classifier, without the head of a language model."""

    def build_embedding(self, vocab_size: int, embedding_dim: int, padding_idx: int) -> nn.Embedding:
        """Builds token embeddings (tokens, N), random or from a file.

        Raises:
            UserError: if the file does not exist, or its vectors have another size.
        """
        embeddings = super().build_embedding(vocab_size, embedding_dim, padding_idx)
        options = ClassifierOptions.from_namespace(self._args)
        nn.init.normal_(embeddings.weight, std=embeddings.embedding_dim**-0.5)
        nn.init.zeros_(embeddings.weight[padding_idx])
        if options.encoder_embed_path:
            if not Path(options.encoder_embed_path).is_file():
                raise UserError(f"--encoder-embed-path: there is no file {options.encoder_embed_path}")
            try:
                require_header(Path(options.encoder_embed_path))
                vectors = parse_embedding(options.encoder_embed_path)
                load_embedding(vectors, self._dictionary, embeddings)
            except (RuntimeError, ValueError):
                raise UserError(
                    f"--encoder-embed-path {options.encoder_embed_path} must have a line of two counts, then one line "
                    f"per token with --embedding-size {embeddings.embedding_dim} numbers"
                ) from None
        embeddings.weight.requires_grad_(not options.freeze_embeddings)
        return embeddings

    def __init__(self, args: Any, dictionary: Dictionary, attention: type[Attention]):
        self._args, self._dictionary = args, dictionary  # read while fairseq builds the encoder
        super().__init__(args, dictionary, attention)

    def build_encoder(self, args: Any, dictionary: Dictionary, embed_tokens: nn.Embedding) -> DenseEncoder:
        """Builds the layers, which are initialized like those of fairseq's Transformer."""
        return DenseEncoder(TransformerConfig.from_namespace(args), dictionary, embed_tokens, self._attention)

    def build_lm_head(self, embed_dim: int, output_dim: int, activation_fn: str, weight: nn.Parameter | None) -> None:
        """Returns None: a classifier has no head of a language model."""


def require_header(vectors: Path) -> None:
    """Raises ValueError unless a file of vectors begins with a line of two counts, which fairseq skips unchecked."""
    with vectors.open(encoding="utf-8") as lines:
        rows, numbers = map(int, next(lines, "").split())
    if min(rows, numbers) < 1:
        raise ValueError


class SentenceClassifier(MechanismRoberta):
    """An encoder with a mechanism, the mean over tokens and a linear layer: for ``--task sentence_prediction``."""

    encoder_class = ClassifierEncoder

    def init_weights(self) -> None:
        """Does nothing: parameters are initialized as in fairseq's Transformer."""

    @classmethod
    def option_classes(cls) -> tuple[type[Options], ...]:
        """Returns the option classes that this package adds."""
        return *super().option_classes(), ClassifierOptions

    @classmethod
    def check_args(cls, args: Any, *sides: str) -> None:
        """Checks the flags of this package, and refuses those of RoBERTa's heads.

        Raises:
            UserError: naming the flag.
        """
        super().check_args(args, *sides)
        for name, default in HEAD_OPTIONS.items():
            if getattr(args, name, default) != default:
                raise UserError(f"{flag_of(name)} is for RoBERTa's heads, but --arch {args.arch} has none of them")
        if ClassifierOptions.from_namespace(args).dense_connections and getattr(args, "encoder_layerdrop", None):
            raise UserError("--dense-connections need all layers, which --encoder-layerdrop drops")

    def register_classification_head(
        self, name: str, num_classes: int, inner_dim: int | None = None, **kwargs: Any
    ) -> None:
        """Adds a linear layer from the mean over tokens to classes."""
        self.classification_heads[name] = nn.Linear(self.args.encoder_embed_dim, num_classes)

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
            Features (B, S, C), or a head's logits (B, classes), and a dictionary with the states of the layers.

        Raises:
            UserError: if probabilities of tokens are requested.
        """
        if not features_only and classification_head_name is None:
            raise UserError(f"--arch {self.args.arch} is for --task sentence_prediction: it does not predict tokens")
        # Encoder, (B, S, C).
        x, extra = self.encoder(src_tokens, features_only=True, return_all_hiddens=return_all_hiddens)
        # Mean over tokens, and linear layer to classes.
        if classification_head_name is not None:
            x = self.classification_heads[classification_head_name](self.mean_over_tokens(x, src_tokens))
        return x, extra

    def mean_over_tokens(self, features: Tensor, src_tokens: Tensor) -> Tensor:
        """Returns the mean (B, C) of features (B, S, C) over the tokens (B, S) that are not padding."""
        tokens = src_tokens.ne(self.encoder.dictionary.pad()).unsqueeze(-1)
        mean = features.masked_fill(~tokens, 0.0).sum(dim=1) / tokens.sum(dim=1).clamp(min=1)
        return mean.type_as(features)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Upgrades a state dict as other models of fairseq do; the model must have all heads of the checkpoint."""
        super(RobertaModel, self).upgrade_state_dict_named(state_dict, name)


def make_classifier(family: Family) -> None:
    """Registers the classifier ``NAME_classifier`` of an attention with fairseq."""
    arch = f"{family.name}_classifier"
    MODELS[arch] = register(arch, SentenceClassifier, family=family, __doc__=family.attention.__doc__)
    defaults = DEFAULTS | dict(family.defaults["classifier"])
    register_model_architecture(arch, arch)(architecture(defaults, base_architecture))


register_classifier("transformer")(Attention)
# A convolution that has the interface of an attention.
register_classifier("cnn", relative_positions="none")(ConvolvedTokens)  # type: ignore[arg-type]
makers["classifier"] = make_classifier
for known in CLASSIFIERS.values():
    make_classifier(known)
