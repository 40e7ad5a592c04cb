"""Trained translation models in Python: translation, scores and attention maps of raw text."""

import copy
from argparse import Namespace
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import compress
from pathlib import Path
from typing import Any

import torch
from fairseq import hub_utils, utils
from fairseq.data import FairseqDataset, LanguagePairDataset, encoders
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from torch import Tensor

from ea_fairseq.attention.maps import AttentionMaps
from ea_fairseq.attention.recording import recording
from ea_fairseq.errors import UserError
from ea_fairseq.hub.files import SUBWORD_FILES, ModelFiles, completed, require_subword_file
from ea_fairseq.hub.maps import AttentionByName
from ea_fairseq.plain.precisions import PRECISIONS
from ea_fairseq.text.preparation import LANGUAGES, Codec, Preparation

# Options of translate besides fairseq's generation options.
OPTIONS = (
    *("skip_invalid_size_inputs", "inference_step_args", "prefix_allowed_tokens_fn", "shortlist"),
    *PRECISIONS,
)


@dataclass(frozen=True)
class Score:
    """The log-probabilities that a model, or an ensemble, gives to a translation.

    Args:
        words: the T target tokens: subwords, and ``</s>`` at the end.
        log_probs: (T,) float32 on the CPU, the natural logarithm of each token's probability given those before it.
    """

    words: list[str]
    log_probs: Tensor

    @property
    def total(self) -> float:
        """The log-probability of the whole translation, in nats."""
        return self.log_probs.sum().item()

    @property
    def mean(self) -> float:
        """The mean log-probability of a token: beam search's score with a length penalty of 1."""
        return self.log_probs.mean().item()


class TranslationHub(hub_utils.GeneratorHubInterface):
    """fairseq's hub interface to a trained translation model or ensemble, with scores and attention maps.

    Methods take raw text and apply the tokenizer and the subword model that :meth:`load` was given or found.
    """

    def __init__(
        self,
        cfg: DictConfig,
        task: FairseqTask,
        models: list[BaseFairseqModel],
        target_subword: str | Path | None = None,
        preparation: Preparation | None = None,
        prepared: Collection[str] = (),
    ):
        """
        Args:
            cfg, task, models: as fairseq loads them.
            target_subword: file of the target's own subword model.
            preparation: the content of preparation.json.
            prepared: which of ``tokenizer`` and ``bpe`` are taken from it instead of from ``cfg``.

        Raises:
            UserError: if the file of a subword model is not named, missing, or not a subword model.
        """
        require_subword_file(cfg.bpe)
        target_tokenizer, target_bpe = copy.deepcopy((cfg.tokenizer, cfg.bpe))
        if cfg.tokenizer is not None and "source_lang" in cfg.tokenizer:  # by default, fairseq's moses assumes English
            languages = {"source_lang": task.cfg.source_lang, "target_lang": task.cfg.target_lang}
            cfg.tokenizer.update(languages)
            target_tokenizer.update(dict.fromkeys(languages, task.cfg.target_lang))
        if target_subword is not None and "bpe" not in prepared:
            if target_bpe is None:
                raise UserError("target_subword needs bpe, the kind of the subword model.")
            target_bpe.update({name: str(target_subword) for name in SUBWORD_FILES if name in target_bpe})
            require_subword_file(target_bpe)
        super().__init__(cfg, task, models)
        self.preparation = preparation
        self.target_tokenizer = encoders.build_tokenizer(target_tokenizer)
        self.target_bpe = encoders.build_bpe(target_bpe)
        source, target = self.languages
        if preparation is not None and "tokenizer" in prepared:
            tokenizers = preparation.tokens(source), preparation.tokens(target)
            self.target_tokenizer = tokenizers[1]
            self.tokenizer = Codec(tokenizers[0].encode, tokenizers[1].decode)  # it decodes translations
        if preparation is not None and "bpe" in prepared:
            self.bpe = self.target_bpe = preparation.subwords(source)
            own = Path(target_subword) if target_subword else preparation.own_model_for(target)
            if own is not None:
                self.target_bpe = preparation.subwords(target, own)

    @property
    def languages(self) -> tuple[str, str]:
        """The source and the target language."""
        return self.task.cfg.source_lang, self.task.cfg.target_lang

    @property
    def subword(self) -> str:
        """The kind of subwords in preparation.json; ``none`` without that file."""
        return self.preparation.subword if self.preparation else "none"

    def translate(
        self,
        sentences: str | Iterable[str],
        beam: int = 5,
        verbose: bool = False,
        tag: str | None = None,
        **options: Any,
    ) -> str | list[str]:
        """Translates a raw sentence or several; an empty sentence stays empty.

        Args:
            tag: the sentences' tag, if the model was trained with tags.
            options: options of beam search, such as ``lenpen=0.6``; with ``skip_invalid_size_inputs=True``, sentences
                that are too long for the model get an empty translation.

        Raises:
            UserError: naming an option that does not exist or would have no effect.
        """
        if isinstance(sentences, str):
            return self.translate([sentences], beam, verbose, tag, **options)[0]
        sentences = list(sentences)
        self.require_options(options, verbose)
        skips = options.get("skip_invalid_size_inputs", False)
        tokens = [self.encode(sentence, tag) for sentence in sentences]
        is_read = [
            bool(sentence.strip()) and not (skips and len(encoded) > self.max_positions[0])
            for sentence, encoded in zip(sentences, tokens, strict=True)
        ]
        read = list(compress(tokens, is_read))
        hypotheses = iter(self.generate(read, beam, verbose, **options) if read else [])
        return [self.decode(next(hypotheses)[0]["tokens"]) if is_one else "" for is_one in is_read]

    def require_options(self, options: dict, verbose: bool) -> None:
        """
        Raises:
            UserError: naming an option that :meth:`translate` would ignore.
        """
        known = {*self.cfg.generation, *OPTIONS} - {"beam"}
        for name in options:
            if name not in known:
                similar = get_close_matches(name, known, 1)
                raise UserError(f"translate has no option {name}{f': did you mean {similar[0]}?' if similar else ''}")
        if options.get("nbest", 1) != 1:
            raise UserError("nbest: translate returns only the best translation, model.generate the whole beam")
        if options.get("print_alignment") and not verbose:
            raise UserError("print_alignment: alignments are only printed with verbose=True")

    @classmethod
    def from_pretrained(
        cls, folder: str | Path, names: str | None = None, data: str | Path | None = None, **options: Any
    ) -> "TranslationHub":
        """Loads a model or an ensemble; see ``from_pretrained`` of :class:`ea_fairseq.EATransformerModel`."""
        return cls.load(ModelFiles.read(folder, names, data), **options)

    @classmethod
    def load(cls, files: ModelFiles, target_subword: str | Path | None = None, **options: Any) -> "TranslationHub":
        """Builds models from their files; options that are not passed come from ``preparation.json`` next to them.

        The languages are the checkpoint's. If fairseq inferred them from the names of the data files, they are not in
        the checkpoint, and come from ``preparation.json``.

        Raises:
            UserError: if a dictionary or a subword model is missing or cannot be used.
        """
        preparation = Preparation.find(files.data, files.folder, translates=True)
        options, prepared = completed(options, preparation)
        if preparation is not None:
            for name in LANGUAGES:
                options[name] = options.get(name) or files.task.get(name) or getattr(preparation, name)
        with files.built(options, without=prepared) as (models, cfg, task):
            if any(hasattr(model, "classification_heads") for model in models):
                raise UserError("it is an encoder: load it with EARobertaModel")
            return cls(cfg, task, models, target_subword, preparation, prepared)

    def encode(self, sentence: str, tag: str | None = None) -> Tensor:
        """Returns the token ids (T,), int64, of a raw source sentence, with its tag first unless the sentence is empty.

        Raises:
            UserError: if the model does not know the tag.
        """
        tokens = super().encode(sentence)
        if tag is None:
            return tokens
        first = tokens.new_tensor([self.tag_id(tag)])
        return torch.cat([first, tokens]) if len(tokens) > 1 else tokens

    def tag_id(self, tag: str) -> int:
        """The token id of a tag; raises UserError if the model does not know the tag."""
        if self.preparation is None:
            raise UserError("tag: the model has no preparation.json, which names its tags: copy it from its data.")
        token = self.preparation.tag_token(tag)
        if token not in self.src_dict:
            raise UserError(f"the model's source dictionary has no {token}: copy preparation.json from its data.")
        return self.src_dict.index(token)

    def encode_target(self, sentence: str) -> Tensor:
        """Token ids (T,), int64, of a raw target sentence; :meth:`encode` is for source sentences."""
        if self.target_tokenizer is not None:
            sentence = self.target_tokenizer.encode(sentence)
        if self.target_bpe is not None:
            sentence = self.target_bpe.encode(sentence)
        return self.tgt_dict.encode_line(sentence, add_if_not_exist=False).long()

    def score(self, source: str | list[str], target: str | list[str], tag: str | None = None) -> Score | list[Score]:
        """Scores given translations: a raw source and target sentence, or two lists of them.

        Args:
            tag: the sources' tag, if the model was trained with tags.

        Raises:
            UserError: if sources and targets differ in number, or a sentence is empty or longer than the model can
                read.
        """
        if isinstance(source, str) and isinstance(target, str):
            return self.score_tokens([self.encode(source, tag)], [self.encode_target(target)])[0]
        if isinstance(source, str) or isinstance(target, str) or len(source) != len(target):
            raise UserError("score needs a target for each source: two sentences, or two lists of the same length.")
        sources = [self.encode(sentence, tag) for sentence in source]
        return self.score_tokens(sources, list(map(self.encode_target, target)))

    def score_tokens(self, sources: list[Tensor], targets: list[Tensor]) -> list[Score]:
        """Like :meth:`score`, for token ids: a list of sources (S,) and one of targets (T,), each with ``</s>``."""
        scorer = self.task.build_generator(self.models, Namespace(score_reference=True))
        scores = {}
        for batch in self._pair_batches(sources, targets):
            hypotheses = self.task.inference_step(scorer, self.models, batch)
            for index, (hypothesis,) in zip(batch["id"].tolist(), hypotheses, strict=True):
                words = [self.tgt_dict[token] for token in hypothesis["tokens"]]
                scores[index] = Score(words, hypothesis["positional_scores"].float().cpu())
        return [scores[index] for index in range(len(sources))]

    def attention(self, source: str, target: str, model: int = 0, tag: str | None = None) -> AttentionByName:
        """Returns the attention maps of a raw sentence pair, from one teacher-forced pass.

        Args:
            model: index into the ensemble.
            tag: the source's tag, if the model was trained with tags.

        Returns:
            The maps, on the CPU, by the name of the attention, such as ``encoder.layers.0.self_attn`` or
            ``decoder.layers.1.encoder_attn``. In a plain Transformer, ``own``, ``input`` and ``logits`` are equal.

        Raises:
            UserError: if there is no such model, it has no attention, or a sentence is empty or too long.
        """
        found = self.attention_of_tokens(self.encode(source, tag), self.encode_target(target), model)
        found.texts = source, target
        return found

    def attention_of_tokens(self, source: Tensor, target: Tensor, model: int = 0) -> AttentionByName:
        """Like :meth:`attention`, for token ids: source (S,) and target (T,), each with ``</s>``."""
        ((batch, records),) = self.recorded_batches([source], [target], model)
        words = {
            "encoder": [self.src_dict[token] for token in batch["net_input"]["src_tokens"][0]],
            "decoder": [self.tgt_dict[token] for token in batch["net_input"]["prev_output_tokens"][0]],
        }
        found = {
            name: AttentionMaps.from_record(
                record,
                queries=words[name.split(".")[0]],
                keys=words["decoder" if name.startswith("decoder") and name.endswith("self_attn") else "encoder"],
            )
            for name, record in records.items()
        }
        texts = self.src_dict.string(source), self.tgt_dict.string(target)
        return AttentionByName(found, texts=texts, model=self.cfg.model.arch)

    def pairs(self, subset: str) -> tuple[list[Tensor], list[Tensor]]:
        """Returns the source tokens (S,) and the target tokens (T,) of a subset of the binarised data.

        Raises:
            UserError: if there is no such subset.
        """
        try:
            self.task.load_dataset(subset)
        except FileNotFoundError:
            raise UserError(
                f"there is no {subset} in {self.task.cfg.data}: name another subset, or give the folder of the "
                "binarised data with --data."
            ) from None
        dataset = self.task.dataset(subset)
        sources, targets = ([side[number] for number in range(len(side))] for side in (dataset.src, dataset.tgt))
        return sources, targets

    @torch.no_grad()
    def recorded_batches(
        self, sources: list[Tensor], targets: list[Tensor], model: int = 0
    ) -> Iterator[tuple[dict, dict[str, dict[str, Tensor | None]]]]:
        """Yields batches of sentence pairs, each with the maps that :func:`recording` records in one model's pass.

        Args:
            sources, targets: token ids, (S,) and (T,) each.
            model: index into the ensemble.

        Raises:
            UserError: as :meth:`attention` does.
        """
        if not 0 <= model < len(self.models):
            raise UserError(f"there is no model {model}: give a number from 0 to {len(self.models) - 1}.")
        for batch in self._pair_batches(sources, targets):
            with recording(self.models[model]) as records:
                self.models[model](**batch["net_input"])
            yield batch, records

    def _build_batches(self, tokens: list[Tensor], skip_invalid_size_inputs: bool) -> Iterator[dict]:
        """Returns fairseq's batches of source sentences; raises UserError if one is too long and not to be skipped."""
        if skip_invalid_size_inputs:
            return super()._build_batches(tokens, skip_invalid_size_inputs)
        require_readable("source", tokens, self.max_positions[0])
        return self._batches(self.task.build_dataset_for_inference(tokens, list(map(len, tokens))))

    def _pair_batches(self, sources: list[Tensor], targets: list[Tensor]) -> Iterator[dict]:
        """Returns batches of sentence pairs; raises UserError if a sentence is empty or too long."""
        for side, tokens, limit in zip(("source", "target"), (sources, targets), self.max_positions, strict=True):
            require_readable(side, tokens, limit, least=2)
        dictionaries = {"src_dict": self.src_dict, "tgt_dict": self.tgt_dict}
        sizes = {"src_sizes": list(map(len, sources)), "tgt_sizes": list(map(len, targets))}
        return self._batches(LanguagePairDataset(src=sources, tgt=targets, **dictionaries, **sizes, shuffle=False))

    def _batches(self, dataset: FairseqDataset) -> Iterator[dict]:
        """Yields batches on the model's device, of the configured size; ``id`` is the index in the data set."""
        options = self.cfg.get("dataset") or {}
        max_tokens = options.get("max_tokens")
        if max_tokens is not None:
            max_tokens = max([max_tokens, *map(dataset.num_tokens, range(len(dataset)))])
        batches = self.task.get_batch_iterator(
            dataset, max_tokens, options.get("batch_size"), disable_iterator_cache=True
        )
        for batch in batches.next_epoch_itr(shuffle=False):
            yield utils.apply_to_sample(lambda tensor: tensor.to(self.device), batch)


def require_readable(side: str, sentences: list[Tensor], limit: int, least: int = 1) -> None:
    """Raises UserError if a sentence (T,) is empty or has more tokens than the model has positions.

    Args:
        limit: the model's number of positions.
        least: minimum number of tokens of a sentence, including ``</s>``.
    """
    for number, tokens in enumerate(sentences, 1):
        if len(tokens) < least:
            raise UserError(f"{side} sentence {number} is empty: give it at least one word.")
        if len(tokens) > limit:
            raise UserError(
                f"{side} sentence {number} has {len(tokens)} tokens and the model reads at most {limit}: split it."
            )
