"""Statistics of a model's attention maps over many sentence pairs; only sums are kept in memory."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity
from tqdm import tqdm

from ea_fairseq.attention.maps import by_layer
from ea_fairseq.experiments.maps.word_alignment import AttentionAlignment
from ea_fairseq.hub.translation import TranslationHub

DEFINITIONS = {
    "entropy": "of a query's probabilities over the keys it sees, in bits; mean over all queries",
    "similarity": "cosine between the probabilities of a query in a layer and in the next; mean over all queries",
    "alignment error": "error rate (Och and Ney, 2003) when each target word is linked to the source word that gets "
    "most attention where the target word is predicted; over the pieces of a word, attention is summed if it is a "
    "source word, and averaged if it is a target word",
}


@dataclass(frozen=True)
class Curve:
    """A measure of an attention's maps by layer; the similarity has one value less than there are layers.

    Args:
        heads: (L, K), for each head's maps.
        mean: (L,), for the mean of the heads' maps. Heads have no order, so only this compares across layers.
    """

    heads: Tensor
    mean: Tensor


Statistics = dict[str, dict[str, Curve]]  # by measure and attention


@dataclass
class QueryMean:
    """The mean over all queries that are not padding."""

    total: Tensor = field(default_factory=lambda: torch.tensor(0.0))
    queries: int = 0

    def add(self, values: Tensor, real: Tensor) -> None:
        """Adds values (L, B, K, T) of the queries for which ``real`` (B, T) is true."""
        self.total = self.total + values.masked_fill(~real[:, None, :], 0.0).sum((1, 3))
        self.queries += int(real.sum())

    def rate(self) -> Tensor:
        """(L, K)"""
        return self.total / self.queries


def entropy(probabilities: Tensor) -> Tensor:
    """(..., S) -> (...), in bits."""
    return torch.special.entr(probabilities).sum(-1) / math.log(2)


def similarity(probabilities: Tensor) -> Tensor:
    """Cosine between adjacent layers: (L, ..., S) -> (L - 1, ...)."""
    return cosine_similarity(probabilities[:-1], probabilities[1:], dim=-1)


def map_statistics(
    model: TranslationHub, sources: list[Tensor], targets: list[Tensor], alignment: AttentionAlignment | None = None
) -> Statistics:
    """Computes the statistics of a model's attention while it reads pairs of token sequences.

    Raises:
        UserError: naming a sentence that is empty or too long, or the line of the alignment that does not fit its pair.
    """
    batches = model.recorded_batches(sources, targets)
    return statistics_of(batches, len(sources), model.tgt_dict.pad(), alignment)


def statistics_of(
    batches: Iterable[tuple[dict, dict]], total: int, pad: int, alignment: AttentionAlignment | None = None
) -> Statistics:
    """Computes the statistics of recorded forward passes of ``total`` sentences or pairs.

    Args:
        batches: fairseq's batches, each with the records of its attentions, by name.
        pad: the padding's token id.
    """
    means: dict[tuple[str, str], QueryMean] = defaultdict(QueryMean)
    with tqdm(total=total, unit=" sentences", desc="attention_maps", leave=False) as progress:
        for batch, records in batches:
            for attention, layers in by_layer(records).items():
                maps = torch.stack([layer["probabilities"].double().cpu() for layer in layers])
                maps = torch.cat([maps, maps.mean(2, keepdim=True)], dim=2)  # (L, B, K + 1, T, S), the mean last
                queries = batch["net_input"]["src_tokens" if attention == "encoder" else "prev_output_tokens"]
                real = queries.cpu() != pad
                means["entropy", attention].add(entropy(maps), real)
                means["similarity", attention].add(similarity(maps), real)
                if attention == "cross" and alignment is not None:
                    alignment.add(batch, maps)
            progress.update(len(batch["id"]))
    rates = {key: mean.rate() for key, mean in means.items()}
    if alignment is not None:
        rates["alignment error", "cross"] = alignment.errors.rate()
    statistics: Statistics = defaultdict(dict)
    for (measure, attention), values in rates.items():
        statistics[measure][attention] = Curve(values[:, :-1], values[:, -1])
    return dict(statistics)
