"""The files of a trained model, found and read once: checkpoints, dictionaries and how its text was prepared."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from os.path import normpath, relpath
from pathlib import Path

from fairseq import utils
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig, OmegaConf

from ea_fairseq.checkpoint.config import entries
from ea_fairseq.checkpoint.file import building, read_checkpoint
from ea_fairseq.errors import UserError
from ea_fairseq.fairseq_patches.checkpoints import build_models
from ea_fairseq.plain.model_folder import find_checkpoints, usual_checkpoint
from ea_fairseq.plain.project import PROJECT
from ea_fairseq.text.preparation import ENCODERS, Preparation
from ea_fairseq.text.subwords import read_codes

DICTIONARIES = ("dict.*.txt", "dict.txt", "input0/dict.txt")  # of translation, of text, of sentences with labels
OF_ENCODERS = ("masked_lm", "sentence_prediction")
SUBWORD_FILES = ("bpe_codes", "sentencepiece_model", "sentencepiece_model_path", "wordpiece_vocab")
BESIDE = {  # files that fairseq takes from the folder of a checkpoint, and its options for them
    "code": "bpe_codes",
    "bpecodes": "bpe_codes",
    "sentencepiece.bpe.model": "sentencepiece_model",
    "merges.txt": "bpe_merges",
    "vocab.json": "bpe_vocab",
}


@dataclass(frozen=True)
class ModelFiles:
    """A trained model, or an ensemble, that is read but not built yet.

    Args:
        folder: the checkpoints' folder.
        names: the checkpoints' names, separated by colons.
        states: the checkpoints' states, as data.
        data: the folder of the dictionaries.
    """

    folder: Path
    names: str
    states: list[dict]
    data: Path

    @classmethod
    def read(
        cls, folder: str | Path, names: str | None = None, data_name_or_path: str | Path | None = None
    ) -> "ModelFiles":
        """Finds and reads the files.

        Args:
            names: by default the first of CHECKPOINTS that exists.
            data_name_or_path: relative to the checkpoints' folder if it starts with "."; by default that folder if it
                has dictionaries, otherwise the one that the model was trained on.

        Raises:
            UserError: naming the folder or the file that is missing or cannot be read.
        """
        folder = Path(folder)
        names = names or usual_checkpoint(folder)
        checkpoints = find_checkpoints(folder, names)
        states = list(map(read_checkpoint, checkpoints))
        if data_name_or_path is None:
            has_dictionaries = any(any(folder.glob(name)) for name in DICTIONARIES)
            data = folder if has_dictionaries else recorded_data(checkpoints[0], states[0])
        else:
            starts_with_dot = str(data_name_or_path).startswith(".")
            data = folder / data_name_or_path if starts_with_dot else Path(data_name_or_path)
        if not data.is_dir():
            raise UserError(
                f"there is no folder {data}: give that of the dictionaries with --data, in Python data_name_or_path."
            )
        return cls(folder, names, states, data)

    @property
    def path(self) -> Path:
        """The checkpoints, as messages name them."""
        return self.folder / self.names

    @cached_property
    def task(self) -> dict:
        """fairseq's options of the task that the model was trained for."""
        return task_options(self.states[0])

    @property
    def task_name(self) -> str:
        """The ``--task`` that the model was trained for, according to its checkpoint."""
        return self.task.get("_name") or self.task.get("task") or "translation"

    @property
    def is_encoder(self) -> bool:
        """Whether the model is only an encoder, according to its checkpoint."""
        return self.task_name in OF_ENCODERS

    @contextmanager
    def built(self, options: dict, without: tuple[str, ...] = ()) -> Iterator[tuple[list, DictConfig, FairseqTask]]:
        """Builds the models and yields them, their configuration and their task; errors in the block name the files.

        Args:
            options: fairseq's options that override the checkpoint's.
            without: groups of the checkpoint's options that something else replaces: ``tokenizer``, ``bpe``.

        Raises:
            UserError: if a dictionary or a subword model is missing, or something cannot be used.
        """
        beside = {option: str(self.folder / name) for name, option in BESIDE.items() if (self.folder / name).exists()}
        if "user_dir" in options:
            utils.import_user_module(Namespace(user_dir=options["user_dir"]))
        overrides = beside | options | {"data": str(self.data.absolute())}
        paths = [str(self.folder / name) for name in self.names.split(":")]
        models, cfg, task = build_models(paths, self.states, overrides, given=(*overrides, *without))
        for group in without:
            cfg[group] = None
        for name in SUBWORD_FILES:
            if cfg.bpe is not None and name in overrides and name in cfg.bpe:
                cfg.bpe[name] = str(overrides[name])
        self.require_own_subword_file(cfg.bpe, options)
        with building(str(self.path)):
            yield models, cfg, task

    def require_own_subword_file(self, bpe: DictConfig | None, given: dict) -> None:
        """Refuses a subword model that an untrusted checkpoint names outside of its own folder and the data's.

        Args:
            given: the user's own options, which may name any file.

        Raises:
            UserError: naming the file and the option that may name it.
        """
        for name in SUBWORD_FILES:
            if bpe is None or name in given or not bpe.get(name) or OmegaConf.is_missing(bpe, name):
                continue
            path = Path(bpe[name]).resolve()
            if not any(path.is_relative_to(folder.resolve()) for folder in (self.folder, self.data)):
                raise UserError(
                    f"{self.path} names the subword model {bpe[name]!r}, which is not next to it: give it as {name}."
                )


def recorded_data(checkpoint: Path, state: dict) -> Path:
    """Returns the folder of a model's training data if it is in a likely place; otherwise the user must name it."""
    data = str(task_options(state).get("data") or "").split(":")[0]
    save_dir = str(entries(entries(state.get("cfg")).get("checkpoint") or state.get("args")).get("save_dir") or "")
    places = [Path(data)]
    if data.startswith("/") and save_dir.startswith("/"):  # both may have been moved since
        way = relpath(data, save_dir)
        places = [*(Path(normpath(here / way)) for here in checkpoint.absolute().parents[:2]), *places]
    likely = (Path.cwd(), PROJECT, checkpoint.absolute().parents[1])
    found = [place for place in places if any(Path(normpath(place.absolute())).is_relative_to(near) for near in likely)]
    for place in found:
        if place.is_dir():
            return place
    flaw = "is not there" if Path(data) in found else "is neither next to it nor in this project or the current folder"
    raise UserError(
        f"{checkpoint.parent} has no dictionaries, and {data!r}, which the model was trained on, {flaw}: name the "
        "folder of its data with --data, in Python with data_name_or_path."
    )


def completed(options: dict, preparation: Preparation | None) -> tuple[dict, tuple[str, ...]]:
    """Returns the user's options, completed, and which of ``tokenizer`` and ``bpe`` the preparation provides."""
    if preparation is None:
        return options, ()
    gives_subwords = not {"bpe", *SUBWORD_FILES}.isdisjoint(options)
    if gives_subwords and preparation.subword != "none":
        options = {"bpe": ENCODERS[preparation.subword]} | options
    given = {"tokenizer": "tokenizer" in options, "bpe": gives_subwords}
    return options, tuple(part for part, is_given in given.items() if not is_given)


def task_options(state: dict) -> dict:
    """Returns fairseq's options of the task in a checkpoint's state."""
    return entries(entries(state.get("cfg")).get("task") or state.get("args"))


def require_subword_file(bpe: DictConfig | None) -> None:
    """Raises UserError unless the file of the subword model is named and exists; None needs no file."""
    for name in SUBWORD_FILES:
        if bpe is None or name not in OmegaConf.to_container(bpe):
            continue
        if OmegaConf.is_missing(bpe, name):
            raise UserError(f"bpe='{bpe._name}' needs {name}, the file of its subword model.")
        if not Path(bpe[name]).is_file():
            raise UserError(f"there is no file {bpe[name]}: give the subword model's file as {name}.")
        if name == "bpe_codes" and bpe._name == "subword_nmt":
            read_codes(Path(bpe[name]))  # raises UserError if they are invalid
