"""Span corruption: Raffel et al., Exploring the Limits of Transfer Learning, JMLR 2020 ("T5"), section 3.1.4.

Spans of a text are replaced by sentinels, and the target is these spans, each after its sentinel:
``Thank you <extra_id_0> me to your party <extra_id_1> week`` and ``<extra_id_0> for inviting <extra_id_1> last``.
"""

from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.data.data_utils import numpy_seed
from fairseq.data.language_pair_dataset import collate
from torch import Tensor

from ea_fairseq.plain.sentinels import SENTINELS


def add_sentinels(dictionary: Dictionary) -> list[int]:
    """Adds T5's sentinels to a dictionary that lacks them, the last one first as in T5's; returns their ids by number.

    A dictionary that has all of them, such as that of ``ea-fairseq import-t5``, stays as it is.
    """
    for name in reversed(SENTINELS):
        if name not in dictionary:
            dictionary.add_symbol(name)
    return [dictionary.index(name) for name in SENTINELS]


def count_noise(length: int, density: float, mean_length: float) -> tuple[int, int]:
    """Returns the number of noise tokens in a text of ``length`` tokens, and the number of spans that they form.

    At least one token is noise and one is not, but a text of one token has no noise.
    """
    if length < 2:
        return 0, 0
    noise = min(max(round(length * density), 1), length - 1)
    return noise, min(max(round(noise / mean_length), 1), length - noise)


def draw_noise(length: int, density: float, mean_length: float, random: np.random.Generator) -> np.ndarray:
    """Draws which tokens of a text are noise, (length,): spans without and with noise alternate, the last is noise."""
    noise, spans = count_noise(length, density, mean_length)
    if not spans:
        return np.zeros(length, dtype=bool)
    lengths = np.stack([cut(total, spans, random) for total in (length - noise, noise)], axis=1)
    return np.repeat(np.tile([False, True], spans), lengths.ravel())


def cut(total: int, parts: int, random: np.random.Generator) -> np.ndarray:
    """Draws the lengths of ``parts`` non-empty parts of ``total`` tokens; all ways to cut them are equally likely."""
    ends = np.sort(random.choice(total - 1, parts - 1, replace=False)) + 1
    return np.diff(ends, prepend=0, append=total)


def replace_spans(tokens: Tensor, masked: np.ndarray, sentinels: Tensor) -> Tensor:
    """Replaces each span of masked tokens by one sentinel, the first span by the first of ``sentinels``."""
    first = masked & ~np.concatenate([[False], masked[:-1]])
    first_of_spans, kept = torch.from_numpy(first), torch.from_numpy(first | ~masked)
    tokens = tokens.clone()
    tokens[first_of_spans] = sentinels[: int(first.sum())]
    return tokens[kept]


class Blocks:
    """A text, its sentences joined without ``</s>``, in blocks of ``tokens`` tokens; the last may be shorter.

    fairseq's ``TokenBlockDataset`` loses its place at an empty sentence.
    """

    def __init__(self, sentences: FairseqDataset, tokens: int):
        self.sentences, self.tokens = sentences, tokens
        self.ends = np.cumsum(sentences.sizes - 1, dtype=np.int64)  # ends of the sentences, in tokens of the text
        total = int(self.ends[-1]) if len(self.ends) else 0
        self.starts = np.arange(0, total, tokens)
        self.sizes = np.minimum(tokens, total - self.starts)

    def __getitem__(self, index: int) -> Tensor:
        """Returns the tokens of a block."""
        start, stop = self.starts[index], self.starts[index] + self.sizes[index]
        first, last = np.searchsorted(self.ends, start, side="right"), np.searchsorted(self.ends, stop)
        text = torch.cat([self.sentences[place][:-1] for place in range(first, last + 1)])
        return text[len(text) - self.ends[last] + start :][: self.sizes[index]]


class SpanCorruptionDataset(FairseqDataset):
    """Blocks of text with spans as noise, drawn by seed, epoch and block, so that every process draws the same."""

    def __init__(
        self,
        sentences: FairseqDataset,
        dictionary: Dictionary,
        tokens: int,
        density: float,
        mean_length: float,
        seed: int,
    ):
        """
        Args:
            sentences: token ids, each with ``</s>`` at its end.
            tokens: number of tokens of a block before it is corrupted; the last block may be shorter.
            density: share of the tokens that are noise.
            mean_length: mean length of the spans of noise, in tokens.
        """
        self.sentinels = torch.tensor(add_sentinels(dictionary))
        self.pad, self.eos = dictionary.pad(), dictionary.eos()
        self.blocks = Blocks(sentences, tokens)
        self.density, self.mean_length, self.seed, self.epoch = density, mean_length, seed, 1

    def __len__(self) -> int:
        return len(self.blocks.sizes)

    def set_epoch(self, epoch: int) -> None:
        """Called by fairseq before each epoch of a training, from 1."""
        self.epoch = epoch

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Returns ``source`` and ``target``, token ids that end with ``</s>``."""
        tokens = self.blocks[index].long()
        random = np.random.default_rng([self.seed, self.epoch, index])
        noise = draw_noise(len(tokens), self.density, self.mean_length, random)
        end = tokens.new_tensor([self.eos])
        source, target = (torch.cat([replace_spans(tokens, part, self.sentinels), end]) for part in (noise, ~noise))
        return {"id": index, "source": source, "target": target}

    def collater(self, samples: list[dict[str, Any]], pad_to_length: dict[str, int] | None = None) -> dict[str, Any]:
        """Returns a batch as for sentence pairs, padded on the right."""
        return collate(samples, self.pad, self.eos, left_pad_source=False, pad_to_length=pad_to_length)

    @property
    def sizes(self) -> np.ndarray:
        """Numbers of tokens of the blocks, before they are corrupted."""
        return self.blocks.sizes

    def size(self, index: int) -> tuple[int, int]:
        """Returns the numbers of tokens of source and target."""
        length = int(self.sizes[index])
        noise, spans = count_noise(length, self.density, self.mean_length)
        return length - noise + spans + 1, noise + max(spans, 1) + 1

    def num_tokens(self, index: int) -> int:
        """Returns the number of tokens of the longer of source and target, which counts for ``--max-tokens``."""
        return max(self.size(index))

    def ordered_indices(self) -> np.ndarray:
        """Returns the order in which blocks go into batches, drawn so that neighbours in the text are separated."""
        with numpy_seed(self.seed):
            return np.random.permutation(len(self))
