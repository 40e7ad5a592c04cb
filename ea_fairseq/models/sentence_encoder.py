"""The encoder of RoBERTa and BERT: embeddings of tokens, positions and segments, and layers with a mechanism."""

import logging
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.models.encoder import MechanismEncoder
from ea_fairseq.models.encoder_options import EncoderOptions
from ea_fairseq.models.layer_options import LayerOptions

logger = logging.getLogger(__name__)


class SentenceEncoder(MechanismEncoder):
    """fairseq's Transformer encoder, whose attentions have a mechanism.

    Parameters are fairseq's plus ``segment_embeddings`` (segments, N) if there are segments, and ``embedding_proj``
    (C, N) if the width N of embeddings differs from the width C of the layers.
    """

    def __init__(self, cfg: Any, dictionary: Dictionary, embed_tokens: nn.Embedding, attention: type[Attention]):
        """
        Args:
            cfg: fairseq's configuration of a Transformer, with :class:`EncoderOptions`.
            embed_tokens: (tokens, N).
            attention: the class of the attentions.
        """
        super().__init__(cfg, dictionary, embed_tokens, attention=attention)
        options, size, width = EncoderOptions.from_namespace(cfg), embed_tokens.embedding_dim, cfg.encoder.embed_dim
        self.end, self.last_segment = dictionary.eos(), options.segments - 1
        self.segment_embeddings = nn.Embedding(options.segments, size) if options.segments else None
        self.embedding_proj = nn.Linear(size, width) if size != width else None
        if self.layer_norm is not None and size != width:  # fairseq gives it the width of embeddings
            self.layer_norm = LayerOptions.from_namespace(cfg).norm_of(width, options.layer_norm_eps)

    def forward_embedding(self, src_tokens: Tensor, token_embedding: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """
        Args:
            src_tokens: (B, S).
            token_embedding: (B, S, N), looked up if None.

        Returns:
            The input of the first layer (B, S, C), and the embeddings of tokens and segments (B, S, N).
        """
        # Add segment embeddings, which fairseq's encoder then scales with those of tokens.
        if self.segment_embeddings is not None:
            token_embedding = self.embed_tokens(src_tokens) if token_embedding is None else token_embedding
            token_embedding = token_embedding + self.segment_embeddings(self.segments(src_tokens)) / self.embed_scale
        # Add positions, normalize and apply dropout; project to the width of the layers.
        x, embedding = super().forward_embedding(src_tokens, token_embedding)
        return x if self.embedding_proj is None else self.embedding_proj(x), embedding

    def segments(self, tokens: Tensor) -> Tensor:
        """Returns each token's segment (B, S): the number of ``</s>`` before it, or the last segment."""
        ends = tokens.eq(self.end).long()
        return (ends.cumsum(dim=1) - ends).clamp(max=self.last_segment)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> dict[str, Tensor]:
        """Adapts the embeddings of another model's checkpoint, without changing its outputs.

        Missing segment embeddings are set to zero, and positions that this model does not have are removed.
        """
        positions, own = f"{name}.embed_positions.weight", self.embed_positions
        if isinstance(own, nn.Embedding) and positions in state_dict and len(state_dict[positions]) > len(own.weight):
            logger.info(
                f"the checkpoint has {len(state_dict[positions])} positions: the first {len(own.weight)} are taken"
            )
            state_dict[positions] = state_dict[positions][: len(own.weight)]
        weight = f"{name}.segment_embeddings.weight"
        if self.segment_embeddings is not None and weight not in state_dict:
            logger.info("the checkpoint has no embeddings of segments: they start at zero, which changes nothing")
            state_dict[weight] = torch.zeros_like(self.segment_embeddings.weight)
        return super().upgrade_state_dict_named(state_dict, name)
