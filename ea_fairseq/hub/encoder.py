"""Trained encoders in Python: classes, features, masked words and attention maps of raw text."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.data import encoders
from fairseq.data.data_utils import collate_tokens
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from torch import Tensor, nn

from ea_fairseq.attention.maps import AttentionMaps
from ea_fairseq.attention.recording import recording
from ea_fairseq.errors import UserError
from ea_fairseq.hub.files import ModelFiles, completed, require_subword_file
from ea_fairseq.hub.maps import AttentionByName
from ea_fairseq.hub.prediction import Prediction
from ea_fairseq.models.pooled_head import PooledHead
from ea_fairseq.text.preparation import Preparation

MASK = "<mask>"
BATCH = 32  # sentences, unless the configuration has another number
Text = str | tuple[str, str]  # a raw sentence, or a pair


@dataclass(frozen=True)
class FilledMask:
    """A word that replaces ``<mask>``.

    Args:
        sentence: the raw sentence with the word.
        word: a word of the vocabulary, or a piece of one.
        probability: the model's probability of the word.
    """

    sentence: str
    word: str
    probability: float


class EncoderHub(nn.Module):
    """A trained encoder or classifier, for raw text.

    Methods apply the tokenizer and the subword model that :meth:`load` was given or found, and assemble a sentence or
    a pair as fairseq's task did in training.
    """

    def __init__(
        self,
        cfg: DictConfig,
        task: FairseqTask,
        model: BaseFairseqModel,
        preparation: Preparation | None = None,
        prepared: Collection[str] = (),
    ):
        """
        Args:
            cfg, task: the training's, as fairseq reads them from the checkpoint.
            preparation: the content of preparation.json.
            prepared: which of ``tokenizer`` and ``bpe`` are taken from it instead of from ``cfg``.

        Raises:
            UserError: if the file of a subword model is not named or is missing.
        """
        super().__init__()
        require_subword_file(cfg.bpe)
        self.cfg, self.task, self.model, self.preparation = cfg, task, model.eval(), preparation
        self.tokenizer, self.bpe = encoders.build_tokenizer(cfg.tokenizer), encoders.build_bpe(cfg.bpe)
        if preparation is not None and "tokenizer" in prepared:
            self.tokenizer = preparation.tokens()
        if preparation is not None and "bpe" in prepared:
            self.bpe = preparation.subwords()
        self.dictionary = task.source_dictionary

    @classmethod
    def from_pretrained(
        cls, folder: str | Path, names: str | None = None, data: str | Path | None = None, **options: Any
    ) -> "EncoderHub":
        """Loads a model; see ``from_pretrained`` of :class:`ea_fairseq.EARobertaModel`."""
        return cls.load(ModelFiles.read(folder, names, data), **options)

    @classmethod
    def load(cls, files: ModelFiles, **options: Any) -> "EncoderHub":
        """Builds a model from its files; options that are not passed come from ``preparation.json`` next to them.

        Raises:
            UserError: if a dictionary or subword model is missing or cannot be used, or the checkpoint is not an
                encoder's.
        """
        preparation = Preparation.find(files.data, files.folder, translates=False)
        options, prepared = completed(options, preparation)
        with files.built(options, without=prepared) as (models, cfg, task):
            reads_words = hasattr(models[0], "classification_heads") and task.source_dictionary is not None
            if len(models) > 1 or not reads_words:
                raise UserError(
                    "it must be one checkpoint of an encoder: translate with EATransformerModel, and take EATimeSeries "
                    "for time series"
                )
            return cls(cfg, task, models[0], preparation, prepared)

    @property
    def device(self) -> torch.device:
        """The device that the model is on."""
        return next(self.model.parameters()).device

    @property
    def subword(self) -> str:
        """The kind of subwords in preparation.json; ``none`` without that file."""
        return self.preparation.subword if self.preparation else "none"

    def pieces(self, text: str) -> str:
        """Tokenizes a raw text and splits it into subwords, separated by spaces."""
        for encoder in filter(None, (self.tokenizer, self.bpe)):
            text = encoder.encode(text)
        return text

    def encode(self, sentence: str, second: str | None = None) -> Tensor:
        """Returns the token ids (S,), int64, of a raw sentence or a pair, assembled as in training.

        Raises:
            UserError: if the text is too long and the model was not trained with ``--shorten-method truncate``.
        """
        return self.joined([self.pieces(text) for text in (sentence, second) if text is not None])

    def joined(self, parts: list[str]) -> Tensor:
        """Returns the token ids (S,) of one text, or of a pair, given as subwords."""
        task, limit = self.task.cfg, self.model.max_positions()
        is_pair_task = "init_token" in task
        first = task.init_token if is_pair_task else self.dictionary.bos()  # masked_lm begins a text with <s>
        between = task.separator_token if is_pair_task else None
        tokens = []
        for start, part in zip((first, between), parts, strict=False):
            tokens += [] if start is None else [torch.tensor([start])]
            tokens.append(self.dictionary.encode_line(part, add_if_not_exist=False).long())
        joined = torch.cat(tokens)
        if task.get("shorten_method") == "truncate":
            return joined[: min(limit, task.get("max_positions") or limit)]
        if len(joined) > limit:
            raise UserError(f"a text has {len(joined)} tokens and the model reads at most {limit}: shorten it.")
        return joined

    def predict(
        self, sentence: str | Iterable[Text], second: str | None = None
    ) -> Prediction | float | list[Prediction] | list[float]:
        """Predicts the class of a raw sentence or a pair, with probabilities, or a number if the model is a regression.

        Args:
            sentence: one sentence, with ``second`` for a pair; or several sentences or pairs.

        Raises:
            UserError: if the model has no classification head, a sentence is too long, or ``second`` is given with
                several sentences.
        """
        texts = texts_of(sentence, second)
        name, names = self.head, None if self.task.cfg.regression_target else self.labels
        found: list[Any] = []
        for tokens, _ in self.batches(self.encoded(texts)):
            scores = self.run(tokens, classification_head_name=name).float()
            if names is None:
                found += scores[:, 0].tolist()
                continue
            found += [Prediction.of(row, names) for row in scores]
        return found[0] if isinstance(sentence, str) else found

    @property
    def head(self) -> str:
        """The name of the classification head that was trained."""
        name = self.task.cfg.get("classification_head_name")
        if name not in self.model.classification_heads:
            raise UserError("this model classifies nothing: it was not trained for sentence_prediction.")
        return name

    @property
    def labels(self) -> list[str]:
        """The names of the classes, in the order of the head's outputs."""
        labels, classes = self.task.label_dictionary, self.task.cfg.num_classes
        names = [labels[labels.nspecial + number] for number in range(classes)]
        if len({*names, MASK}) <= classes:
            raise UserError(f"label/dict.txt does not name {classes} classes: give the folder of the model's own data.")
        return names

    @property
    def class_names(self) -> list[str]:
        """Like :attr:`labels`, with the names in preparation.json if the labels are numbers."""
        names = self.preparation.classes if self.preparation else None
        if not names or {*self.labels} != {*map(str, range(len(names)))}:
            return self.labels
        return [names[int(label)] for label in self.labels]

    def features(self, sentence: str | Iterable[Text], second: str | None = None) -> Tensor | list[Tensor]:
        """Returns the last layer's output for each token, (S, C) on the CPU; arguments are those of :meth:`predict`.

        Raises:
            UserError: if a sentence is too long, or ``second`` is given with several sentences.
        """
        found: list[Tensor] = []
        for tokens, lengths in self.batches(self.encoded(texts_of(sentence, second))):
            rows = self.run(tokens, features_only=True).float()
            found += [row[:length] for row, length in zip(rows, lengths, strict=True)]
        return found[0] if isinstance(sentence, str) else found

    def representations(self, sentence: str | Iterable[Text], second: str | None = None) -> Tensor:
        """Returns the classification head's input for each sentence or pair; arguments are those of :meth:`predict`.

        Returns:
            (N, C) on the CPU: the last layer's output for the class token or, depending on the head, its mean over
            tokens or what the pooled head pools.

        Raises:
            UserError: as :meth:`predict` does.
        """
        return self.representations_of_tokens(self.encoded(texts_of(sentence, second)))

    @torch.no_grad()
    def representations_of_tokens(self, sentences: Sequence[Tensor]) -> Tensor:
        """Like :meth:`representations`, for token ids (S,)."""
        order = sorted(range(len(sentences)), key=lambda number: len(sentences[number]))  # for little padding
        batches = self.batches([sentences[number] for number in order])
        found = [self.represented(self.run(tokens, features_only=True), tokens) for tokens, _ in batches]
        return torch.cat(found)[torch.tensor(order).argsort()]

    def represented(self, features: Tensor, tokens: Tensor) -> Tensor:
        """Returns the classification head's input (B, C) from the encoder's outputs (B, S, C) for token ids (B, S)."""
        head = self.model.classification_heads[self.head]
        if isinstance(head, PooledHead):
            return head.pool(features.to(self.device), tokens.to(self.device))[0].to(features.device)
        return self.model.mean_over_tokens(features, tokens) if isinstance(head, nn.Linear) else features[:, 0]

    def fill_mask(self, sentence: str, topk: int = 5) -> list[FilledMask]:
        """Returns the most probable words for ``<mask>`` in a raw sentence, the best first.

        Raises:
            UserError: unless there is exactly one ``<mask>``, the model has a language model head, and ``topk``
                is at least 1.
        """
        if topk < 1:
            raise UserError(f"topk must be at least 1, not {topk}.")
        if self.model.encoder.lm_head is None or MASK not in self.dictionary:
            raise UserError("this model does not predict words: fill_mask is for language models.")
        if sentence.count(MASK) != 1:
            raise UserError(f"fill_mask needs a sentence with one {MASK}.")
        before, after = sentence.split(MASK)
        tokens = self.joined([" ".join(filter(None, (self.pieces(before.rstrip()), MASK, self.pieces(after))))])
        places = tokens.eq(self.dictionary.index(MASK)).nonzero()
        if not len(places):
            raise UserError(f"{MASK} is beyond the {len(tokens)} tokens that the model reads: shorten the sentence.")
        probabilities = self.run(tokens.unsqueeze(0))[0, int(places)].float().softmax(dim=-1)
        best = probabilities.topk(min(topk, len(self.dictionary)))
        found = []
        for probability, index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            symbol = self.dictionary[index]
            word = self.bpe.decode(symbol).strip() if self.bpe else symbol
            found.append(FilledMask(sentence.replace(MASK, word), word, probability))
        return found

    def attention(self, sentence: str, second: str | None = None) -> AttentionByName:
        """Returns the attention maps of a raw sentence or a pair.

        Returns:
            The maps, on the CPU, by the name of the attention, such as ``encoder.sentence_encoder.layers.0.self_attn``.
            In a plain encoder, ``own``, ``input`` and ``logits`` are equal.

        Raises:
            UserError: if the model has no attention, or a sentence is too long.
        """
        found = self.attention_of_tokens(self.encode(sentence, second))
        found.texts = tuple(text for text in (sentence, second) if text is not None)
        return found

    def attention_of_tokens(self, tokens: Tensor) -> AttentionByName:
        """Like :meth:`attention`, for token ids (S,)."""
        ((_, records),) = self.recorded_batches([tokens])
        words = [self.dictionary[token] for token in tokens]
        found = {name: AttentionMaps.from_record(record, words, words) for name, record in records.items()}
        return AttentionByName(found, texts=(self.dictionary.string(tokens),), model=self.cfg.model.arch)

    def recorded_batches(self, sentences: list[Tensor]) -> Iterator[tuple[dict, dict[str, dict[str, Tensor | None]]]]:
        """Yields batches like fairseq's of token ids (S,), each with the maps that :func:`recording` records.

        Raises:
            UserError: if the model has no attention.
        """
        for tokens, lengths in self.batches(sentences):
            with recording(self.model) as records:
                self.run(tokens, features_only=True)
            yield {"id": torch.arange(len(lengths)), "net_input": {"src_tokens": tokens}}, records

    def subset(self, name: str) -> list[Tensor]:
        """Returns the unmasked tokens (S,) of each example in a subset of the binarised data.

        Raises:
            UserError: if there is no such subset.
        """
        try:
            self.task.load_dataset(name)
        except (AssertionError, FileNotFoundError):  # sentence_prediction asserts
            raise UserError(
                f"there is no {name} in {self.task.cfg.data}: name another subset, or give the folder of the data with "
                "--data."
            ) from None
        dataset, pad = self.task.dataset(name), self.dictionary.pad()
        examples = (dataset[number] for number in range(len(dataset)))
        if hasattr(self.task, "label_dictionary"):
            return [example["net_input.src_tokens"] for example in examples]
        return [unmasked(example["net_input.src_tokens"], example["target"], pad) for example in examples]

    def encoded(self, texts: Iterable[Text]) -> list[Tensor]:
        """Returns the token ids (S,) of each raw sentence or pair."""
        return [self.encode(*((text,) if isinstance(text, str) else text)) for text in texts]

    def batches(self, sentences: list[Tensor]) -> Iterator[tuple[Tensor, list[int]]]:
        """Splits sentences (S,) into batches; yields token ids (B, S), padded on the right, and their lengths."""
        size = (self.cfg.get("dataset") or {}).get("batch_size") or BATCH
        for start in range(0, len(sentences), size):
            batch = sentences[start : start + size]
            yield collate_tokens(batch, self.dictionary.pad()), list(map(len, batch))

    @torch.no_grad()
    def run(self, tokens: Tensor, **options: Any) -> Tensor:
        """Returns the model's output for token ids (B, S), on the CPU, always computed in evaluation mode."""
        with utils.model_eval(self.model):
            return self.model(tokens.to(self.device), **options)[0].cpu()


def unmasked(tokens: Tensor, target: Tensor, pad: int) -> Tensor:
    """Returns tokens (S,) with masked ones restored from ``target``, which is padding elsewhere."""
    return tokens.where(target.eq(pad), target)


def texts_of(sentence: str | Iterable[Text], second: str | None) -> Iterable[Text]:
    """Returns an iterable even for one text or pair; raises UserError if ``second`` is given with several sentences."""
    if isinstance(sentence, str):
        return [sentence if second is None else (sentence, second)]
    if second is not None:
        raise UserError("a second sentence needs one first one: give several pairs as tuples, [(first, second), ...]")
    return sentence
