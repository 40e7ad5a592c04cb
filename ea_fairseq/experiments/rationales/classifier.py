"""A classifier of whole documents, which classifies the mean of the vectors of overlapping windows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
import torch
from fairseq.models.roberta import RobertaClassificationHead
from torch import Tensor

from ea_fairseq.data.documents import Document
from ea_fairseq.errors import UserError
from ea_fairseq.hub.encoder import EncoderHub
from ea_fairseq.models.pooled_head import PooledHead

CACHED_WORDS = 100_000


@dataclass(frozen=True)
class Windows:
    """A text as the model reads it: overlapping windows of its subwords.

    Args:
        tokens: ids (S,), int64, of each window, special tokens and question included.
        spans: ``[start, end)`` in the text's pieces, of each window.
        lead: the number of tokens in a window before the first piece of the text.
        bounds: n + 1 numbers for n words: word i has the pieces from bounds[i] to bounds[i + 1].
    """

    tokens: list[Tensor]
    spans: list[tuple[int, int]]
    lead: int
    bounds: list[int]

    def word_scores(self, scores: Sequence[np.ndarray], word_score: str = "sum") -> np.ndarray:
        """The score of each word, (n,), from its pieces in the window whose middle is nearest to it.

        Args:
            scores: for each window, of its tokens, (S,).
            word_score: ``sum`` or ``max`` over the pieces of a word; a word without pieces has 0.
        """
        bounds, spans = np.array(self.bounds), np.array(self.spans)
        first, last = bounds[:-1, None], bounds[1:, None]
        # Distance of each word's middle to each window's middle, (n, W); windows with the whole word are preferred.
        distance = np.abs((first + last) - spans.sum(axis=1)) / 2
        inside = (spans[:, 0] <= first) & (last <= spans[:, 1])
        nearest = np.where(inside, distance, distance + bounds[-1]).argmin(axis=1)
        found = np.zeros(len(nearest))
        for word, window in enumerate(nearest):
            start, end = np.clip(bounds[word : word + 2], *self.spans[window]) - self.spans[window][0] + self.lead
            if start < end:
                found[word] = getattr(scores[window][start:end], word_score)()
        return found


class DocumentClassifier:
    """A trained classifier that reads documents of any length.

    A window has as many pieces of the text as the model has positions, less special tokens and the question, and the
    next one starts half a window later. The mean of the windows' vectors is classified. A window's vector is the last
    state of its class token, or what :class:`PooledHead` pools from its words.
    """

    def __init__(self, hub: EncoderHub):
        """
        Args:
            hub: a model with RoBERTa's or BERT's classification head, or the pooled one.

        Raises:
            UserError: if the model is a regression model, or has another head or none.
        """
        self.hub = hub
        self.head = hub.model.classification_heads[hub.head]
        if not isinstance(self.head, RobertaClassificationHead) or hub.task.cfg.regression_target:
            raise UserError(
                "the model must classify by its class token, as models of --arch ea_bert_mini and other encoders do."
            )
        self.classes = hub.class_names
        self.limit = min(hub.model.max_positions(), hub.task.cfg.get("max_positions") or hub.model.max_positions())
        self.pieces = lru_cache(CACHED_WORDS)(lambda text: hub.pieces(text).split())

    def windows(self, document: Document, kept: np.ndarray | None = None) -> Windows:
        """The windows of a document.

        Args:
            kept: (n,), bool, the words to keep; by default all.

        Raises:
            UserError: if the question leaves no room for the text.
        """
        words = document.words if kept is None else [document.words[word] for word in np.flatnonzero(kept)]
        by_word = list(map(self.pieces, words))
        pieces = [piece for found in by_word for piece in found]
        question = [" ".join(self.pieces(document.question))] if document.question else []
        empty = len(self.hub.joined([*question, ""]))
        room = self.limit - empty
        if room < 2:
            raise UserError(
                f"the question of document '{document.name}' has {empty} tokens, and the model reads at most "
                f"{self.limit}: remove the document."
            )
        stride = room // 2
        starts = range(0, max(len(pieces) - room, 0) + stride, stride)
        spans = [(start, min(start + room, len(pieces))) for start in starts]
        tokens = [self.hub.joined([*question, " ".join(pieces[start:end])]) for start, end in spans]
        return Windows(tokens, spans, empty - 1, [0, *accumulate(map(len, by_word))])

    def classified(self, vector: Tensor) -> Tensor:
        """The probabilities of the classes (..., classes), given vectors of documents (..., C)."""
        flat = vector.reshape(-1, vector.size(-1)).to(self.hub.device)
        scores = self.head.classify(flat) if isinstance(self.head, PooledHead) else self.head(flat.unsqueeze(1))
        return scores.softmax(dim=-1).reshape(*vector.shape[:-1], -1)

    def pooled_head(self) -> PooledHead:
        """The head, as a :class:`PooledHead`; raises UserError if it is another one."""
        if not isinstance(self.head, PooledHead):
            raise UserError(
                "--source pooling is for models that were trained with --classification-head pooled: leave it out for "
                "others."
            )
        return self.head

    @torch.no_grad()
    def pooling(self, windows: Sequence[Tensor]) -> list[np.ndarray]:
        """The pooled head's weights of the tokens of each window, (S,); raises UserError if the head is another one."""
        head, device, weights = self.pooled_head(), self.hub.device, []
        for tokens in (window.unsqueeze(0) for window in windows):
            features = self.hub.run(tokens, features_only=True)
            weights.append(head.pool(features.to(device), tokens.to(device))[1][0].cpu().numpy())
        return weights

    @torch.no_grad()
    def probabilities(self, document: Document, texts: Iterable[np.ndarray]) -> np.ndarray:
        """The probabilities of the classes, (N, classes), for N texts with some words of a document.

        Args:
            texts: for each text the words that it keeps, (n,), bool.
        """
        read = [self.windows(document, kept).tokens for kept in texts]
        vectors = self.hub.representations_of_tokens([window for windows in read for window in windows])
        means = [part.mean(dim=0) for part in vectors.split(list(map(len, read)))]
        return self.classified(torch.stack(means)).double().cpu().numpy()

    def gradients(self, windows: Sequence[Tensor], chosen: int) -> list[np.ndarray]:
        """The embedding of each token times the gradient of a class's probability with respect to it, (S,) per window.

        Args:
            windows: token ids (S,) of all windows of a document.
            chosen: the class.
        """
        # Gradient of the probability for the document's vector, (C,); a window's vector has it divided by their number.
        mean = self.hub.representations_of_tokens(windows).mean(dim=0).requires_grad_()
        (slope,) = torch.autograd.grad(self.classified(mean)[chosen], mean)
        embedded: list[Tensor] = []

        def watch(module: torch.nn.Module, inputs: tuple, output: Tensor) -> Tensor:
            embedded.append(output.detach().requires_grad_())
            return embedded[-1]

        found = []
        embed = self.hub.model.encoder.sentence_encoder.embed_tokens
        # cuDNN cannot compute the gradient of an LSTM in evaluation mode.
        with embed.register_forward_hook(watch), torch.backends.cudnn.flags(enabled=False):
            for tokens in (window.unsqueeze(0).to(self.hub.device) for window in windows):
                vector = self.hub.represented(self.hub.model(tokens, features_only=True)[0], tokens)[0]
                embedding = embedded.pop()
                (gradient,) = torch.autograd.grad(vector @ slope.to(vector) / len(windows), embedding)
                found.append((embedding * gradient).sum(dim=-1)[0].detach().cpu().numpy())
        return found
