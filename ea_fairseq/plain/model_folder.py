"""The checkpoints in a folder of trained models."""

from pathlib import Path

from ea_fairseq.errors import UserError

CARD = ("README.md", "SHA256SUMS")  # of a released model
CHECKPOINTS = ("checkpoint_best.pt", "checkpoint_last.pt", "model.safetensors", "model.pt")


def find_checkpoints(folder: Path, names: str) -> list[Path]:
    """The paths of the checkpoints of an ensemble, whose names are separated by colons: ``"a.pt:b.pt"``.

    Raises:
        UserError: naming the folder or the file that is missing.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: give the folder of a trained model.")
    checkpoints = [folder / name for name in names.split(":")]
    for checkpoint in checkpoints:
        if not checkpoint.is_file():
            raise UserError(f"there is no checkpoint {checkpoint}: name one that is there.")
    return checkpoints


def usual_checkpoint(folder: Path) -> str:
    """Returns the name of the checkpoint to use of a folder: the first of CHECKPOINTS that exists.

    Raises:
        UserError: if the folder is the card of a model whose weights are not published.
    """
    found = next((name for name in CHECKPOINTS if (folder / name).is_file()), None)
    if found is None and all((folder / name).is_file() for name in CARD):
        raise UserError(
            f"{folder} is the card of a model whose weights are not published: train it by the recipe that its "
            "README.md names, with ea-fairseq train."
        )
    return found or CHECKPOINTS[0]
