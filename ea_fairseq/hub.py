"""Trained models in Python: translating and scoring raw text, and looking at its attention maps."""

import copy
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq import hub_utils, utils
from fairseq.data import FairseqDataset, LanguagePairDataset, encoders
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from ea_fairseq.analysis.maps import AttentionMaps, recording
from ea_fairseq.checkpoint.file import building
from ea_fairseq.user_error import UserError

SUBWORD_FILES = ("bpe_codes", "sentencepiece_model", "sentencepiece_model_path")


@dataclass(frozen=True)
class Score:
    """How likely a model, or an ensemble, finds a translation.

    Args:
        words: the T target words as the model has them, subwords and ``</s>`` included.
        log_probs: (T,) natural logarithms of their probabilities, each after the words before it.
    """

    words: list[str]
    log_probs: Tensor

    @property
    def total(self) -> float:
        return self.log_probs.sum().item()

    @property
    def mean(self) -> float:
        """Beam search's score of a hypothesis with a length penalty of 1."""
        return self.log_probs.mean().item()


class TranslationHub(hub_utils.GeneratorHubInterface):
    """fairseq's interface to a trained model, or an ensemble, for translation: text in, text, scores or maps out.

    Text goes through the tokenizer and the subword model that :meth:`load` was given. fairseq's own
    :meth:`translate` takes a sentence or a list of them, and the options of beam search, such as ``beam=5``.
    """

    def __init__(self, cfg: DictConfig, task, models, target_subword: str | None = None):
        require_subword_file(cfg.bpe)
        target_tokenizer, target_bpe = copy.deepcopy((cfg.tokenizer, cfg.bpe))
        if cfg.tokenizer is not None and "source_lang" in cfg.tokenizer:  # by default, fairseq's moses takes English
            languages = {"source_lang": task.cfg.source_lang, "target_lang": task.cfg.target_lang}
            cfg.tokenizer.update(languages)
            target_tokenizer.update(dict.fromkeys(languages, task.cfg.target_lang))
        if target_subword is not None:
            if target_bpe is None:
                raise UserError("target_subword needs bpe, the kind of the subword model.")
            target_bpe.update({name: str(target_subword) for name in SUBWORD_FILES if name in target_bpe})
            require_subword_file(target_bpe)
        super().__init__(cfg, task, models)
        self.target_tokenizer = encoders.build_tokenizer(target_tokenizer)
        self.target_bpe = encoders.build_bpe(target_bpe)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        checkpoint_file: str,
        data_name_or_path: str | Path,
        target_subword: str | Path | None = None,
        **options,
    ) -> "TranslationHub":
        """See :meth:`ea_fairseq.EATransformerModel.from_pretrained`."""
        folder, data = Path(folder), Path(data_name_or_path)
        if str(data_name_or_path).startswith("."):
            data = folder / data
        find_checkpoints(folder, checkpoint_file)
        if not data.is_dir():
            raise UserError(f"there is no folder {data}: name that of the dictionaries with data_name_or_path.")
        try:
            loaded = hub_utils.from_pretrained(str(folder), checkpoint_file, str(data.absolute()), **options)
        except FileNotFoundError as error:
            raise UserError(
                f"there is no dictionary {error.filename}: name the folder that has it with data_name_or_path."
            ) from None
        bpe = loaded["args"].bpe
        for name in SUBWORD_FILES:  # of which fairseq prefers those it finds in the folder to those that it is given
            if bpe is not None and name in options and name in bpe:
                bpe[name] = str(options[name])
        require_own_subword_file(folder / checkpoint_file, bpe, options, data)
        with building(str(folder / checkpoint_file)):
            return cls(loaded["args"], loaded["task"], loaded["models"], target_subword)

    def encode_target(self, sentence: str) -> Tensor:
        """Tokens (T,) of a raw sentence of the target language, as :meth:`encode` gives those of the source."""
        if self.target_tokenizer is not None:
            sentence = self.target_tokenizer.encode(sentence)
        if self.target_bpe is not None:
            sentence = self.target_bpe.encode(sentence)
        return self.tgt_dict.encode_line(sentence, add_if_not_exist=False).long()

    def score(self, source: str | list[str], target: str | list[str]) -> Score | list[Score]:
        """Scores a raw translation of a raw sentence, or each of a list of them.

        Raises:
            UserError: when sources and targets differ in number, or one is empty or longer than the model can read.
        """
        if isinstance(source, str) and isinstance(target, str):
            return self.score([source], [target])[0]
        if isinstance(source, str) or isinstance(target, str) or len(source) != len(target):
            raise UserError("score needs a target for each source: two sentences, or two lists of the same length.")
        return self.score_tokens(list(map(self.encode, source)), list(map(self.encode_target, target)))

    def score_tokens(self, sources: list[Tensor], targets: list[Tensor]) -> list[Score]:
        """Scores pairs of token sequences (S,) and (T,), as :meth:`encode` and beam search give them."""
        scorer = self.task.build_generator(self.models, Namespace(score_reference=True))
        scores = {}
        for batch in self._pair_batches(sources, targets):
            hypotheses = self.task.inference_step(scorer, self.models, batch)
            for index, (hypothesis,) in zip(batch["id"].tolist(), hypotheses, strict=True):
                words = [self.tgt_dict[token] for token in hypothesis["tokens"]]
                scores[index] = Score(words, hypothesis["positional_scores"].float().cpu())
        return [scores[index] for index in range(len(sources))]

    def attention(self, source: str, target: str, model: int = 0) -> dict[str, AttentionMaps]:
        """The maps of every attention while one model reads a raw pair, its target given, in one pass.

        Args:
            model: which of an ensemble.

        Returns:
            The maps on the CPU by the attention's name, such as ``encoder.layers.0.self_attn`` or
            ``decoder.layers.1.encoder_attn``. Those of a plain Transformer's attention have equal ``own``, ``input``
            and ``logits``.

        Raises:
            UserError: when there is no such model, it has no attention, or a sentence is empty or too long.
        """
        return self.attention_of_tokens(self.encode(source), self.encode_target(target), model)

    def attention_of_tokens(self, source: Tensor, target: Tensor, model: int = 0) -> dict[str, AttentionMaps]:
        """:meth:`attention` of token sequences (S,) and (T,), as :meth:`encode` and beam search give them."""
        ((batch, records),) = self.recorded_batches([source], [target], model)
        words = {
            "encoder": [self.src_dict[token] for token in batch["net_input"]["src_tokens"][0]],
            "decoder": [self.tgt_dict[token] for token in batch["net_input"]["prev_output_tokens"][0]],
        }
        return {
            name: AttentionMaps.from_record(
                record,
                queries=words[name.split(".")[0]],
                keys=words["decoder" if name.startswith("decoder") and name.endswith("self_attn") else "encoder"],
            )
            for name, record in records.items()
        }

    @torch.no_grad()
    def recorded_batches(
        self, sources: list[Tensor], targets: list[Tensor], model: int = 0
    ) -> Iterator[tuple[dict, dict[str, dict[str, Tensor | None]]]]:
        """Batches of pairs of token sequences, each with what :func:`recording` has of one model's pass over it.

        Raises:
            UserError: as :meth:`attention` does.
        """
        if not 0 <= model < len(self.models):
            raise UserError(f"there is no model {model}: give a number from 0 to {len(self.models) - 1}.")
        for batch in self._pair_batches(sources, targets):
            with recording(self.models[model]) as records:
                self.models[model](**batch["net_input"])
            if not records:
                raise UserError("this model has no attention of fairseq's or ours: there is no map to show.")
            yield batch, records

    def _build_batches(self, tokens: list[Tensor], skip_invalid_size_inputs: bool) -> Iterator[dict]:
        if skip_invalid_size_inputs:
            return super()._build_batches(tokens, skip_invalid_size_inputs)
        require_length("source", tokens, self.max_positions[0])
        return self._batches(self.task.build_dataset_for_inference(tokens, list(map(len, tokens))))

    def _pair_batches(self, sources: list[Tensor], targets: list[Tensor]) -> Iterator[dict]:
        for side, tokens, limit in zip(("source", "target"), (sources, targets), self.max_positions, strict=True):
            require_words(side, tokens)
            require_length(side, tokens, limit)
        dictionaries = {"src_dict": self.src_dict, "tgt_dict": self.tgt_dict}
        sizes = {"src_sizes": list(map(len, sources)), "tgt_sizes": list(map(len, targets))}
        return self._batches(LanguagePairDataset(src=sources, tgt=targets, **dictionaries, **sizes, shuffle=False))

    def _batches(self, dataset: FairseqDataset) -> Iterator[dict]:
        """Batches of the size the model was trained with, or of one sentence where that is longer."""
        options = self.cfg.get("dataset") or {}
        max_tokens = options.get("max_tokens")
        if max_tokens is not None:
            max_tokens = max([max_tokens, *map(dataset.num_tokens, range(len(dataset)))])
        batches = self.task.get_batch_iterator(
            dataset, max_tokens, options.get("batch_size"), disable_iterator_cache=True
        )
        for batch in batches.next_epoch_itr(shuffle=False):
            yield utils.apply_to_sample(lambda tensor: tensor.to(self.device), batch)


def find_checkpoints(folder: Path, names: str) -> list[Path]:
    """The files of an ensemble ``"a.pt:b.pt"``; raises UserError naming the one that is not there."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: give the folder of a trained model.")
    checkpoints = [folder / name for name in names.split(":")]
    for checkpoint in checkpoints:
        if not checkpoint.is_file():
            raise UserError(f"there is no checkpoint {checkpoint}: name one that is there.")
    return checkpoints


def require_subword_file(bpe: DictConfig | None):
    """Raises UserError unless the file that a subword encoder reads is named and there."""
    for name in SUBWORD_FILES:
        if bpe is None or name not in OmegaConf.to_container(bpe):
            continue
        if OmegaConf.is_missing(bpe, name):
            raise UserError(f"bpe='{bpe._name}' needs {name}, the file of its subword model.")
        if not Path(bpe[name]).is_file():
            raise UserError(f"there is no file {bpe[name]}: name that of the subword model with {name}.")


def require_own_subword_file(checkpoint: Path, bpe: DictConfig | None, options: dict, data: Path):
    """Raises UserError where a checkpoint names a subword model that lies neither beside it nor with the data."""
    for name in SUBWORD_FILES:
        if bpe is None or name in options or not bpe.get(name) or OmegaConf.is_missing(bpe, name):
            continue
        path = Path(bpe[name]).resolve()
        if not any(path.is_relative_to(folder.resolve()) for folder in (checkpoint.parent, data)):
            raise UserError(f"{checkpoint} names the subword model {bpe[name]!r}, not beside it: give it as {name}.")


def require_words(side: str, sentences: list[Tensor]):
    """Raises UserError where a sentence has no word but </s>."""
    for number, tokens in enumerate(sentences, 1):
        if len(tokens) < 2:
            raise UserError(f"{side} sentence {number} is empty: give it at least one word.")


def require_length(side: str, sentences: list[Tensor], limit: int):
    """Raises UserError where a sentence has more tokens than a model has positions."""
    for number, tokens in enumerate(sentences, 1):
        if len(tokens) > limit:
            raise UserError(
                f"{side} sentence {number} has {len(tokens)} tokens and the model reads at most {limit}: split it."
            )
