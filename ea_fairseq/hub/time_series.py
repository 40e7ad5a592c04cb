"""Trained models of time series in Python: predictions and attention maps of arrays."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ea_fairseq.attention.maps import AttentionMaps
from ea_fairseq.attention.recording import recording
from ea_fairseq.errors import UserError
from ea_fairseq.hub.maps import AttentionByName
from ea_fairseq.hub.prediction import Prediction, sentence_of
from ea_fairseq.hub.single_model import SingleModel
from ea_fairseq.series.dataset import SeriesDataset
from ea_fairseq.tasks.prediction import HEAD
from ea_fairseq.tasks.time_series_prediction import TimeSeriesPredictionTask


class EATimeSeries(SingleModel):
    """A trained model, with the description of its training data from its checkpoint; it needs no data folder."""

    task_name, task_class, noun = "time_series_prediction", TimeSeriesPredictionTask, "series"

    @torch.no_grad()
    def predict(
        self, series: np.ndarray | list[np.ndarray], batch_size: int = 64
    ) -> Prediction | float | list[Prediction] | list[float]:
        """Predicts the class of a series, or a number if the model was trained with ``--regression-target``.

        Args:
            series: (T, C) values as in the files that the model was trained on, with NaN for missing values; or a list
                of such arrays.

        Raises:
            UserError: if a series is not (T, C), is too long, or has a value that is infinite or not a number.
        """
        found: list[Any] = []
        for batch in self.batches(series if isinstance(series, list) else [series], batch_size):
            found += map(self.prediction, self.outputs(batch).double().cpu())
        return found if isinstance(series, list) else found[0]

    @torch.no_grad()
    def representations(self, series: list[np.ndarray], batch_size: int = 64) -> Tensor:
        """Returns the output layer's input for each series: all steps after GELU, concatenated and padded with zeros.

        Arguments are those of :meth:`predict`.

        Returns:
            (N, longest d) on the CPU; ``longest`` is the number of steps that the model reads, d its width.

        Raises:
            UserError: if there are no series, or as :meth:`predict` does.
        """
        if not len(series):
            raise UserError("there are no series: give at least one")
        head, found = self.model.classification_heads[HEAD], []
        for batch in self.batches(series, batch_size):
            inputs = self.inputs(batch)
            steps, _ = self.model(**inputs, features_only=True)
            found.append(head.concatenated(steps, inputs["padding_mask"]).cpu())
        return torch.cat(found)

    @torch.no_grad()
    def attention(self, series: np.ndarray) -> AttentionByName:
        """Returns the attention maps of a series, an array as for :meth:`predict`.

        Returns:
            The maps, on the CPU, by the name of the attention, such as ``encoder.layers.0.self_attn``; queries and keys
            are the numbers of steps, from 1. Without a mechanism, ``own``, ``input`` and ``logits`` are equal. Their
            note is a sentence with the prediction.

        Raises:
            UserError: if the model has no attention, or as :meth:`predict` does.
        """
        read = self.read(series, 0)
        with recording(self.model) as records:
            (outputs,) = self.outputs([read])
        steps = [str(step) for step in range(1, len(read) + 1)]
        found = {name: AttentionMaps.from_record(record, steps, steps) for name, record in records.items()}
        note = sentence_of(self.prediction(outputs.double().cpu()))
        return AttentionByName(found, self.description.prepare(read), model=self.model.args.arch, note=note)

    def batches(self, series: list[np.ndarray], batch_size: int) -> Iterator[list[np.ndarray]]:
        """Reads all series, then returns an iterator over batches of them.

        Raises:
            UserError: as :meth:`predict` does.
        """
        if batch_size < 1:
            raise UserError(f"batch_size must be at least 1, not {batch_size}")
        read = [self.read(one, number) for number, one in enumerate(series)]
        return (read[first : first + batch_size] for first in range(0, len(read), batch_size))

    def outputs(self, read: list[np.ndarray]) -> Tensor:
        """Returns the model's outputs (B, outputs) for series from :meth:`read`."""
        return self.model(**self.inputs(read), classification_head_name=HEAD)[0]

    def inputs(self, read: list[np.ndarray]) -> dict[str, Tensor]:
        """Returns the model's inputs for series from :meth:`read`: ``source`` and ``padding_mask``."""
        dataset = SeriesDataset(read, None, self.description, shuffle=False)
        inputs = dataset.collater([dataset[index] for index in range(len(read))])["net_input"]
        device = next(self.model.parameters()).device
        return {name: tensor.to(device) for name, tensor in inputs.items()}

    def prediction(self, outputs: Tensor) -> Prediction | float:
        """Converts a model's outputs for one series into a prediction."""
        labels = self.description.labels
        return outputs.item() if labels is None else Prediction.of(outputs, labels)

    def read(self, series: np.ndarray, number: int) -> np.ndarray:
        """Checks a series and converts it as if read from a file; ``number`` is for messages."""
        try:
            values = np.asarray(series, dtype=np.float32)
        except (ValueError, TypeError):
            raise UserError(f"series {number} must be an array of numbers; several series go into a list") from None
        if values.ndim != 2 or not len(values) or values.shape[1] != self.description.channels:
            wanted = f"(T, {self.description.channels}), steps and channels"
            raise UserError(f"series {number} must be an array {wanted}, and it is {values.shape}")
        values = values[:: self.task.cfg.subsample]
        if len(values) > self.description.longest:
            raise UserError(
                f"series {number} has {len(values):,} steps, but the model reads at most {self.description.longest:,}"
            )
        if np.isinf(values).any():
            raise UserError(f"series {number} has an infinite value: use NaN for missing values")
        return values
