"""The task ``span_corruption``: T5's pre-training, on the text that ``masked_lm`` reads."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary
from fairseq.data.data_utils import load_indexed_dataset
from fairseq.data.iterators import EpochBatchIterating
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import FairseqTask, register_task
from fairseq.utils import split_paths
from omegaconf import II, MISSING

from ea_fairseq.errors import UserError
from ea_fairseq.plain.sentinels import SENTINELS
from ea_fairseq.tasks.spans import SpanCorruptionDataset, add_sentinels, count_noise

logger = logging.getLogger(__name__)
T5_BLOCK = 568  # tokens, of which T5 makes a source of 512 and a target of 114


@dataclass
class SpanCorruptionConfig(FairseqDataclass):
    """Flags of the task; the defaults are T5's."""

    data: str = field(default=MISSING, metadata={"help": "folders of text, separated by colons, one per epoch in turn"})
    tokens_per_sample: int = field(
        default=T5_BLOCK, metadata={"help": "tokens of a block of text, before spans are replaced"}
    )
    noise_density: float = field(default=0.15, metadata={"help": "share of the tokens that are replaced"})
    mean_span_length: float = field(default=3.0, metadata={"help": "mean number of tokens of a replaced span"})
    seed: int = II("common.seed")


@register_task("span_corruption", dataclass=SpanCorruptionConfig)
class SpanCorruptionTask(FairseqTask):
    """Predicts the spans of a text that are replaced by sentinels, for encoder-decoder models."""

    def __init__(self, cfg: SpanCorruptionConfig, dictionary: Dictionary):
        """
        Raises:
            UserError: naming the flag that is out of range.
        """
        super().__init__(cfg)
        self.dictionary = dictionary
        add_sentinels(dictionary)
        if not 0 < cfg.noise_density < 1:
            raise UserError(f"--noise-density must be a number between 0 and 1, not {cfg.noise_density}")
        if cfg.mean_span_length < 1:
            raise UserError(f"--mean-span-length must be 1 or more, not {cfg.mean_span_length}")
        if cfg.tokens_per_sample < 2:
            raise UserError(f"--tokens-per-sample must be 2 or more, not {cfg.tokens_per_sample}")
        _, spans = count_noise(cfg.tokens_per_sample, cfg.noise_density, cfg.mean_span_length)
        if spans > len(SENTINELS):
            raise UserError(
                f"--tokens-per-sample {cfg.tokens_per_sample} has {spans} spans of noise, more than the "
                f"{len(SENTINELS)} sentinels: give a smaller one, or longer spans with --mean-span-length"
            )

    @classmethod
    def setup_task(cls, cfg: SpanCorruptionConfig, **kwargs: Any) -> "SpanCorruptionTask":
        """Reads the dictionary in the first folder."""
        dictionary = cls.load_dictionary(str(Path(split_paths(cfg.data)[0], "dict.txt")))
        logger.info(f"dictionary: {len(dictionary):,} types")
        return cls(cfg, dictionary)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Loads ``train``, ``valid`` or another split.

        Raises:
            FileNotFoundError: if the folder has no such split.
        """
        paths = split_paths(self.cfg.data)
        path = Path(paths[(epoch - 1) % len(paths)], split)
        sentences = load_indexed_dataset(str(path), self.dictionary, combine=combine)
        if sentences is None:
            raise FileNotFoundError(f"Dataset not found: {split} ({path})")
        how = self.cfg.tokens_per_sample, self.cfg.noise_density, self.cfg.mean_span_length, self.cfg.seed
        self.datasets[split] = SpanCorruptionDataset(sentences, self.dictionary, *how)
        logger.info(f"{split}: {len(self.datasets[split]):,} blocks of {path}")

    def get_batch_iterator(self, *args: Any, **kwargs: Any) -> EpochBatchIterating:
        """Returns fairseq's iterator, with new processes in each epoch: the first epoch's would repeat its noise."""
        batches = super().get_batch_iterator(*args, **kwargs)
        batches.reuse_dataloader = False
        return batches

    def max_positions(self) -> tuple[int, int]:
        """Returns the maximum lengths of source and target in the data; the model's may be lower."""
        longest = self.cfg.tokens_per_sample + 1
        return longest, longest

    @property
    def source_dictionary(self) -> Dictionary:
        """The shared dictionary."""
        return self.dictionary

    @property
    def target_dictionary(self) -> Dictionary:
        """The shared dictionary."""
        return self.dictionary
