"""Classifiers of sentences that are trained from scratch: Predictive Attention Transformer ("PA"), section 4.1.1.

Where PA is silent: layer norms after sub-layers, ReLU, the mean over words as what is classified.
"""

from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import register_model, register_model_architecture
from fairseq.models.roberta import RobertaModel
from fairseq.models.roberta.model import base_architecture
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import FairseqDropout
from fairseq.utils import load_embedding, parse_embedding
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.registry import CLASSIFIERS, Family, makers, register_classifier
from ea_fairseq.blocks.convolved_tokens import ConvolvedTokens
from ea_fairseq.errors import UserError
from ea_fairseq.models.classifier_options import ClassifierOptions
from ea_fairseq.models.mechanism_model import architecture, class_name
from ea_fairseq.models.roberta import MODELS, MechanismRoberta, MechanismRobertaEncoder
from ea_fairseq.models.sentence_encoder import SentenceEncoder
from ea_fairseq.options import Options, name_of_flag

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
HEAD_OPTIONS: dict[str, object] = {  # of the heads of fairseq's RoBERTa, with its defaults
    "pooler_activation_fn": "tanh",
    "pooler_dropout": 0.0,
    "spectral_norm_classification_head": False,
    "untie_weights_roberta": False,
}


class DenseEncoder(SentenceEncoder):
    """An encoder whose layers may read all that was before them, as in DenseNet.

    Parameters are those of :class:`SentenceEncoder` and, with ``--dense-connections``, ``dense``: linear layers from
    (i + 1) C to C before layer i, from the second on.
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
        """What the next layer reads of what went into the layers so far and came out, (S, B, C) each."""
        if self.dense is None or len(states) == 1:
            return states[-1]
        return self.dense[len(states) - 2](torch.cat(states, dim=-1))


class ClassifierEncoder(MechanismRobertaEncoder):
    """The layers of a classifier and what comes before them; there is no language model's head."""

    def build_embedding(self, vocab_size: int, embedding_dim: int, padding_idx: int) -> nn.Embedding:
        """Embeddings of words (tokens, N), at random or from a file.

        Raises:
            UserError: where the file is not there, or its vectors have another size.
        """
        embeddings = super().build_embedding(vocab_size, embedding_dim, padding_idx)
        options = ClassifierOptions.from_namespace(self._args)
        nn.init.normal_(embeddings.weight, std=embeddings.embedding_dim**-0.5)
        nn.init.zeros_(embeddings.weight[padding_idx])
        if options.encoder_embed_path:
            if not Path(options.encoder_embed_path).is_file():
                raise UserError(f"--encoder-embed-path {options.encoder_embed_path} is not there")
            try:
                require_header(Path(options.encoder_embed_path))
                vectors = parse_embedding(options.encoder_embed_path)
                load_embedding(vectors, self._dictionary, embeddings)
            except (RuntimeError, ValueError):
                raise UserError(
                    f"--encoder-embed-path {options.encoder_embed_path} must have a line of two counts, then a word "
                    f"and --embedding-size {embeddings.embedding_dim} numbers a line"
                ) from None
        embeddings.weight.requires_grad_(not options.freeze_embeddings)
        return embeddings

    def __init__(self, args: Any, dictionary: Dictionary, attention: type[Attention]):
        self._args, self._dictionary = args, dictionary  # read while fairseq builds the encoder
        super().__init__(args, dictionary, attention)

    def build_encoder(self, args: Any, dictionary: Dictionary, embed_tokens: nn.Embedding) -> DenseEncoder:
        """The layers, which start as those of fairseq's Transformer."""
        return DenseEncoder(TransformerConfig.from_namespace(args), dictionary, embed_tokens, self._attention)

    def build_lm_head(self, embed_dim: int, output_dim: int, activation_fn: str, weight: nn.Parameter | None) -> None:
        """None."""


def require_header(vectors: Path) -> None:
    """Raises ValueError unless a file of vectors begins with a line of two counts, which fairseq skips unread."""
    with vectors.open(encoding="utf-8") as lines:
        rows, numbers = map(int, next(lines, "").split())
    if min(rows, numbers) < 1:
        raise ValueError


class SentenceClassifier(MechanismRoberta):
    """An encoder with a mechanism, the mean over words and a linear layer: for ``--task sentence_prediction``."""

    encoder_class = ClassifierEncoder

    def init_weights(self) -> None:
        """Nothing: parameters start as in fairseq's Transformer."""

    @classmethod
    def option_classes(cls) -> tuple[type[Options], ...]:
        """Those of the flags that are not fairseq's."""
        return *super().option_classes(), ClassifierOptions

    @classmethod
    def check_args(cls, args: Any, *sides: str) -> None:
        """
        Raises:
            UserError: naming the flag, also where flags contradict each other.
        """
        super().check_args(args, *sides)
        for name, default in HEAD_OPTIONS.items():
            if getattr(args, name, default) != default:
                raise UserError(f"{name_of_flag(name)} is for RoBERTa's heads, and --arch {args.arch} has none of them")
        if ClassifierOptions.from_namespace(args).dense_connections and getattr(args, "encoder_layerdrop", None):
            raise UserError("--dense-connections need all layers, which --encoder-layerdrop drops")

    def register_classification_head(
        self, name: str, num_classes: int, inner_dim: int | None = None, **kwargs: Any
    ) -> None:
        """Adds a linear layer from the mean of words to classes."""
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
            Features (B, S, C), or of a head (B, classes), and a dictionary with the states of layers.

        Raises:
            UserError: where probabilities of words are asked for.
        """
        if not features_only and classification_head_name is None:
            raise UserError(f"--arch {self.args.arch} is for --task sentence_prediction: it has no words as its output")
        x, extra = self.encoder(src_tokens, features_only=True, return_all_hiddens=return_all_hiddens)
        if classification_head_name is not None:
            words = src_tokens.ne(self.encoder.dictionary.pad()).unsqueeze(-1)
            mean = x.masked_fill(~words, 0.0).sum(dim=1) / words.sum(dim=1).clamp(min=1)
            x = self.classification_heads[classification_head_name](mean.type_as(x))
        return x, extra

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """As for any model of fairseq; heads that a checkpoint has must be there."""
        super(RobertaModel, self).upgrade_state_dict_named(state_dict, name)


def make_classifier(family: Family) -> None:
    """Registers the classifier ``NAME_classifier`` of an attention with fairseq."""
    arch, about = f"{family.name}_classifier", {"family": family, "__doc__": family.attention.__doc__}
    MODELS[arch] = register_model(arch)(type(class_name(arch), (SentenceClassifier,), about))
    defaults = DEFAULTS | dict(family.defaults["classifier"])
    register_model_architecture(arch, arch)(architecture(defaults, base_architecture))


register_classifier("transformer")(Attention)
# It stands in an attention's place.
register_classifier("cnn", relative_positions="none")(ConvolvedTokens)  # type: ignore[arg-type]
makers["classifier"] = make_classifier
for known in CLASSIFIERS.values():
    make_classifier(known)
