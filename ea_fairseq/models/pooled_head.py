"""The classification head of ERASER's baseline (DeYoung et al., ACL 2020): an LSTM over words, pooled by attention."""

from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models.roberta import RobertaClassificationHead
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

HIDDEN = 128  # width of the LSTM in each direction, and of the layer before the classes
INSIDE = "##"  # prefix of each piece of a word but the first, in WordPiece


class PooledHead(RobertaClassificationHead):
    """Classifies a text by its words, each of which is read at its first piece.

    A bidirectional LSTM reads the encoder's outputs. The mean of its states h_t, weighted by an additive attention with
    a learned query u, softmax(v . tanh(W u + M h_t)), goes through two linear layers.

    A piece is inside a word if it begins with ``##``; without WordPiece, every token counts as a word. A text without
    words is read at its first token.
    """

    begins: Tensor

    def __init__(self, width: int, dictionary: Dictionary, **options: Any):
        """
        Args:
            width: C, of the encoder's outputs.
            options: of fairseq's head, except its widths.
        """
        super().__init__(input_dim=2 * HIDDEN, inner_dim=HIDDEN, **options)
        special = {dictionary.bos(), dictionary.pad(), dictionary.eos()}
        begins = [
            number not in special and not symbol.startswith(INSIDE) for number, symbol in enumerate(dictionary.symbols)
        ]
        self.register_buffer("begins", torch.tensor(begins), persistent=False)
        self.lstm = nn.LSTM(width, HIDDEN, batch_first=True, bidirectional=True)
        self.query = nn.Parameter(torch.randn(2 * HIDDEN))
        self.query_proj = nn.Linear(2 * HIDDEN, 2 * HIDDEN, bias=False)
        self.key_proj = nn.Linear(2 * HIDDEN, 2 * HIDDEN, bias=False)
        self.score_proj = nn.Linear(2 * HIDDEN, 1, bias=False)

    def forward(self, features: Tensor, tokens: Tensor) -> Tensor:
        """
        Args:
            features: the encoder's outputs, (B, S, C).
            tokens: (B, S).

        Returns:
            (B, classes).
        """
        return self.classify(self.pool(features, tokens)[0])

    def pool(self, features: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """
        Args:
            features, tokens: as for :meth:`forward`.

        Returns:
            The weighted mean of the LSTM's states, (B, 2 HIDDEN), and the weights, (B, S), which are 0 for all tokens
            but the first pieces of words.
        """
        words = self.begins[tokens]
        words[:, 0] |= ~words.any(dim=1)
        lengths = words.sum(dim=1)
        # LSTM over the words of each text, (B, W, 2 HIDDEN). oneDNN computes one text at a time seven times as fast as
        # PyTorch computes packed ones.
        texts = features[words].split(lengths.tolist())
        states = self.dropout(pad_sequence([self.lstm(text)[0] for text in texts], batch_first=True))
        # Additive attention, (B, W).
        scores = self.score_proj(torch.tanh(self.query_proj(self.query) + self.key_proj(states))).squeeze(-1)
        inside = torch.arange(states.size(1), device=tokens.device) < lengths.unsqueeze(1)
        weights = scores.masked_fill(~inside, -torch.inf).softmax(dim=-1)
        # Weighted mean; the weights are put back at the positions of the words.
        pooled = (weights.unsqueeze(1) @ states).squeeze(1)
        return pooled, weights.new_zeros(tokens.shape).masked_scatter(words, weights[inside])

    def classify(self, pooled: Tensor) -> Tensor:
        """Returns scores of the classes (B, classes) from weighted means of states (B, 2 HIDDEN)."""
        return self.out_proj(self.dropout(self.activation_fn(self.dense(pooled))))
