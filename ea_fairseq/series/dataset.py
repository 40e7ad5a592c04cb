"""Examples for training: a series and its target."""

import numpy as np
import torch
from torch import Tensor

from ea_fairseq.examples import Examples
from ea_fairseq.series.description import SeriesDescription


class SeriesDataset(Examples):
    """Series as models read them, each with the number of its class or the number to predict; sizes are steps.

    Args:
        series: (T, C) each, NaN where a value is missing.
        targets: the target of each series; None if nothing is predicted.
        shuffle: whether batches are drawn anew in each epoch.
    """

    def __init__(self, series: list[np.ndarray], targets: list | None, description: SeriesDescription, shuffle: bool):
        super().__init__(np.array(list(map(len, series))), shuffle)
        self.series, self.targets, self.description = series, targets, description

    def __getitem__(self, index: int) -> dict:
        """Returns ``id``, ``source`` (T, C) and, if there are targets, ``target``."""
        source = torch.from_numpy(self.description.prepare(self.series[index]))
        example = {"id": index, "source": source}
        return example if self.targets is None else {**example, "target": self.targets[index]}

    def collater(self, samples: list[dict]) -> dict:
        """Returns a batch: ``net_input`` has ``source`` (B, T, C), zeros as padding, and ``padding_mask`` (B, T)."""
        if not samples:
            return {}
        sources = [sample["source"] for sample in samples]
        steps = torch.tensor([*map(len, sources)])
        batch = {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "nsentences": len(samples),
            "ntokens": int(steps.sum()),
            "net_input": {"source": pad(sources), "padding_mask": torch.arange(int(steps.max())) >= steps.unsqueeze(1)},
        }
        if "target" in samples[0]:
            # Numbers are float64 because --fp16 turns all float32 into float16; the criterion turns them into float32.
            batch["target"] = torch.from_numpy(np.array([sample["target"] for sample in samples]))
        return batch


class MaskedSeriesDataset(SeriesDataset):
    """Series with masked values, drawn by seed, epoch and series, so that every process draws the same.

    Args:
        ratio: share of the values that are masked.
        length: mean number of steps that are masked in a row.
    """

    def __init__(
        self,
        series: list[np.ndarray],
        description: SeriesDescription,
        shuffle: bool,
        ratio: float,
        length: float,
        seed: int,
    ):
        super().__init__(series, None, description, shuffle)
        self.ratio, self.length, self.seed, self.epoch = ratio, length, seed, 1

    def set_epoch(self, epoch: int) -> None:
        """Called by fairseq before each epoch, from 1."""
        self.epoch = epoch

    def __getitem__(self, index: int) -> dict:
        """As above, with masked values missing in ``source``; ``target`` and ``masked`` (T, C) are what to predict."""
        series = self.series[index]
        random = np.random.default_rng([self.seed, self.epoch, index])
        masked = draw_segments(len(series), series.shape[1], self.ratio, self.length, random) & ~np.isnan(series)
        source, target = (
            torch.from_numpy(self.description.prepare(values))
            for values in (np.where(masked, np.float32(np.nan), series), series)
        )
        return {"id": index, "source": source, "target": target, "masked": torch.from_numpy(masked)}

    def collater(self, samples: list[dict]) -> dict:
        """As above, with ``target`` (B, T, C) and ``masked`` (B, T, C), false at padding."""
        targets = [{name: sample[name] for name in ("target", "masked")} for sample in samples]
        batch = super().collater([{"id": sample["id"], "source": sample["source"]} for sample in samples])
        return batch | {name: pad([one[name] for one in targets]) for name in ("target", "masked") if targets}


def pad(series: list[Tensor]) -> Tensor:
    """Pads series (T, C) to (B, T, C) with zeros at the end."""
    return torch.nn.utils.rnn.pad_sequence(series, batch_first=True)


def draw_segments(steps: int, channels: int, ratio: float, length: float, random: np.random.Generator) -> np.ndarray:
    """Draws which values (T, C) are masked: in each channel separately, segments of geometric lengths.

    Each is a Markov chain of two states from its stationary distribution, as in TST (Zerveas et al., KDD 2021): a
    segment ends after a step with probability 1 / length, and begins with such a probability that the share of masked
    steps is ``ratio``. ``ratio`` is at most length / (length + 1).
    """
    changes = np.array([ratio / (1 - ratio) / length, 1 / length])  # from not masked, from masked
    masked, draws = np.empty((steps, channels), dtype=bool), random.random((steps, channels))
    state = random.random(channels) < ratio
    for step, draw in enumerate(draws):
        masked[step] = state
        state = state ^ (draw < changes[state.astype(int)])
    return masked
