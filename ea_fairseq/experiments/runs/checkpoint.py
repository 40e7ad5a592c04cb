"""Checkpoints of fairseq: read without running what they hold, and written whole or not at all."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ea_fairseq.checkpoint.config import entries, require_known
from ea_fairseq.checkpoint.file import read_checkpoint, refusing
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.binarised import Binarised, GraphData, ImageData, SentenceData, SeriesData, TextData
from ea_fairseq.plain.files import replacing

SIDES = ("source", "target")
OF_ENCODERS = (SentenceData.task, TextData.task, SeriesData.task, GraphData.task, ImageData.task)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint; its tensors stay in the file until they are used."""

    path: Path
    state: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Checkpoint":
        """Reads a checkpoint.

        Raises:
            UserError: naming the file, if it is not a complete checkpoint of a training or holds more than data.
        """
        if not path.is_file():
            raise UserError(f"there is no checkpoint {path}: give one that exists.")
        try:
            state = read_checkpoint(path)
            with refusing(path):
                require_known(state)
        except UserError as error:
            raise UserError(f"{str(error).removesuffix('.')}: give another checkpoint.") from None
        parts = {"model", "optimizer_history", "extra_state"} <= state.keys()
        if not parts or "num_updates" not in state["optimizer_history"][-1]:
            raise UserError(f"{path} is not a checkpoint of a training: give one that is.")
        return cls(path, state)

    @property
    def updates(self) -> int:
        """How many updates the model was trained for."""
        return self.state["optimizer_history"][-1]["num_updates"]

    @property
    def epochs(self) -> int:
        """How many epochs were finished."""
        return (self.state["extra_state"].get("train_iterator") or {}).get("epoch", 1) - 1

    @property
    def seconds(self) -> float:
        """Wall-clock time of the training so far, with earlier starts."""
        return float(self.state["extra_state"].get("previous_training_time") or 0.0)

    @property
    def validation(self) -> float | None:
        """The last validation's score, by which fairseq chooses checkpoint_best.pt, or None if there was none."""
        score = self.state["extra_state"].get("val_loss")
        return None if score is None else float(score)

    @property
    def averaged(self) -> list[str]:
        """The names of the checkpoints that this one is the average of."""
        return self.state.get("averaged", [self.path.name])

    def options(self, group: str) -> dict[str, Any]:
        """fairseq's options of a group, such as ``task``."""
        return entries(self.state["cfg"].get(group) if self.state.get("cfg") else self.state.get("args"))

    @property
    def task(self) -> str:
        """fairseq's ``--task`` that the model was trained for."""
        options = self.options("task")
        return options.get("_name") or options.get("task") or "translation"

    def require_data(self, data: Binarised) -> None:
        """Raises UserError if the model was trained for another task, other languages or another vocabulary."""
        if self.task != data.task and not {self.task, data.task}.isdisjoint(OF_ENCODERS):
            raise UserError(
                f"{self.path} is a model for --task {self.task}, and {data.folder} has data for --task {data.task}: "
                "give the data that it was trained on."
            )
        task = self.options("task")
        ours = [str(task.get(f"{side}_lang") or known) for side, known in zip(SIDES, data.languages, strict=True)]
        theirs = list(map(str, data.languages))
        if ours != theirs:
            raise UserError(
                f"{self.path} translates {'-'.join(ours)}, and {data.folder} is {'-'.join(theirs)}: give the data that "
                "it was trained on."
            )
        for parameter, name, size in data.vocabularies():
            embedding = self.state["model"].get(parameter)
            if embedding is not None and len(embedding) != size:
                raise UserError(
                    f"{self.path} has a vocabulary of {len(embedding)} types, and that of {data.folder} has "
                    f"{size} ({name}): give the data that it was trained on."
                )

    def write(self) -> None:
        """Writes the checkpoint, whole or not at all."""
        with replacing(self.path) as unfinished, unfinished.open("wb") as file:
            torch.save(self.state, file)

    def __str__(self) -> str:
        score = "" if self.validation is None else f", validation {self.validation}"
        return f"{self.path.name}: {self.updates:,} updates{score}"
