"""Loads trained models for commands, with the dictionaries that they learnt and on a GPU if there is one."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ea_fairseq.errors import UserError
from ea_fairseq.plain.files import require_path
from ea_fairseq.text.preparation import Preparation

if TYPE_CHECKING:
    from torch import nn

    from ea_fairseq.hub.encoder import EncoderHub
    from ea_fairseq.hub.files import ModelFiles
    from ea_fairseq.hub.translation import TranslationHub


Model = TypeVar("Model", bound="nn.Module")


def find_model(folder: Path, names: str | None = None, data: Path | None = None) -> "ModelFiles":
    """Finds and reads the files of a trained model, without building it.

    Args:
        folder: of the checkpoints.
        names: of the checkpoint or, as ``a.pt:b.pt``, of an ensemble; by default a usual one.
        data: folder of the dictionaries, the subword model and preparation.json; by default ``folder`` if it has
            dictionaries, else the folder that the model was trained on.

    Raises:
        UserError: naming what is missing, or is not what the model was trained on.
    """
    from ea_fairseq.experiments.runs.training_run import require_dictionaries
    from ea_fairseq.hub.files import ModelFiles

    files = ModelFiles.read(require_path(folder), names, data and require_path(data.absolute()))
    require_dictionaries(folder, require_path(files.data))
    return files


def find_trained(checkpoint: Path, data: Path | None = None) -> "ModelFiles":
    """The files of a checkpoint, or of a training's folder, as :func:`find_model` finds them."""
    folder, name = (checkpoint, None) if checkpoint.is_dir() else (checkpoint.parent, checkpoint.name)
    return find_model(folder, name, data)


def load_translation(files: "ModelFiles", cpu: bool = False, **options: Any) -> "TranslationHub":
    """Loads a model, or an ensemble, that translates raw text.

    Args:
        options: fairseq's, such as ``max_tokens``.

    Raises:
        UserError: naming what is missing, such as preparation.json.
    """
    from ea_fairseq.hub.translation import TranslationHub

    if not files.is_encoder:
        Preparation.read(files.data).require_languages()
    return on_device(TranslationHub.load(files, **options), cpu)


def load_encoder(files: "ModelFiles", cpu: bool = False) -> "EncoderHub":
    """Loads an encoder-only model or a classifier.

    Raises:
        UserError: naming what is missing.
    """
    from ea_fairseq.hub.encoder import EncoderHub

    return on_device(EncoderHub.load(files), cpu)


def on_device(model: Model, cpu: bool) -> Model:
    """Moves a model to a GPU if there is one, unless it is to stay on the CPU."""
    import torch

    return model if cpu or not torch.cuda.is_available() else model.cuda()


def require_same_task(models: "Sequence[TranslationHub]", paths: Sequence[Path]) -> None:
    """Raises UserError if two models to compare have different languages or vocabularies."""
    first, last = models[0], models[-1]
    ours, theirs = ("-".join(model.languages) for model in (first, last))
    if ours != theirs:
        raise UserError(f"{paths[-1]} translates {theirs}, not {ours}: compare models of one task.")
    if (first.src_dict, first.tgt_dict) != (last.src_dict, last.tgt_dict):
        raise UserError(f"{paths[-1]} has another vocabulary than {paths[0]}: compare models of the same data.")
