"""The files of a trained model: checkpoints, the folder of its dictionaries, subword models."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairseq import hub_utils
from omegaconf import DictConfig, OmegaConf

from ea_fairseq.checkpoint.file import building
from ea_fairseq.errors import FileError, UserError

SUBWORD_FILES = ("bpe_codes", "sentencepiece_model", "sentencepiece_model_path", "wordpiece_vocab")


@contextmanager
def loaded(folder: Path, names: str, data_name_or_path: str | Path, options: dict[str, object]) -> Iterator[dict]:
    """Loads a model, or an ensemble, and yields what ``fairseq.hub_utils.from_pretrained`` returns, to be built on.

    Args:
        names: of the checkpoints, with colons between them.
        data_name_or_path: folder of the dictionaries; relative to the checkpoints' where it starts with ".".
        options: fairseq's, in place of those in the checkpoint.

    Raises:
        UserError: where a folder, checkpoint, dictionary or subword model is not there or cannot be used.
    """
    data = data_folder(folder, data_name_or_path)
    find_checkpoints(folder, names)
    if not data.is_dir():
        raise UserError(f"there is no folder {data}: name that of the dictionaries with data_name_or_path.")
    found = hub_utils.from_pretrained(str(folder), names, str(data.absolute()), **options)
    bpe = found["args"].bpe
    for name in SUBWORD_FILES:  # of which fairseq prefers those it finds in the folder to those that it is given
        if bpe is not None and name in options and name in bpe:
            bpe[name] = str(options[name])
    require_own_subword_file(folder / names, bpe, options, data)
    with building(str(folder / names)):
        yield found


def data_folder(folder: Path, data_name_or_path: str | Path) -> Path:
    """The folder of the dictionaries, relative to the checkpoints' where it starts with "."."""
    data = Path(data_name_or_path)
    return folder / data if str(data_name_or_path).startswith(".") else data


def find_checkpoints(folder: Path, names: str) -> list[Path]:
    """The paths of the checkpoints of an ensemble, whose names are separated by colons: ``"a.pt:b.pt"``.

    Raises:
        UserError: naming the folder or the file that is not there.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: give the folder of a trained model.")
    checkpoints = [folder / name for name in names.split(":")]
    for checkpoint in checkpoints:
        if not checkpoint.is_file():
            raise UserError(f"there is no checkpoint {checkpoint}: name one that is there.")
    return checkpoints


def require_subword_file(bpe: DictConfig | None):
    """Raises UserError unless the file of the subword model is named and there; None needs no file."""
    for name in SUBWORD_FILES:
        if bpe is None or name not in OmegaConf.to_container(bpe):
            continue
        if OmegaConf.is_missing(bpe, name):
            raise UserError(f"bpe='{bpe._name}' needs {name}, the file of its subword model.")
        if not Path(bpe[name]).is_file():
            raise UserError(f"there is no file {bpe[name]}: name that of the subword model with {name}.")
        if name == "bpe_codes" and bpe._name == "subword_nmt":
            require_version(Path(bpe[name]))


def require_version(codes: Path):
    """Refuses codes without the line of their version: subword-nmt would segment otherwise than they were learned.

    Raises:
        UserError: naming the file.
    """
    with codes.open("rb") as file:
        if not file.readline(99).startswith(b"#version:"):
            raise FileError(f"line 1 of {codes} is not '#version: 0.2' or 0.1, as of subword-nmt's codes: put it back.")


def require_own_subword_file(checkpoint: Path, bpe: DictConfig | None, options: dict, data: Path):
    """Refuses a subword model that a checkpoint names outside of its own folder and the data's: it is untrusted input.

    Args:
        options: the user's own, which may name any file.

    Raises:
        UserError: naming the file and the option to give it with.
    """
    for name in SUBWORD_FILES:
        if bpe is None or name in options or not bpe.get(name) or OmegaConf.is_missing(bpe, name):
            continue
        path = Path(bpe[name]).resolve()
        if not any(path.is_relative_to(folder.resolve()) for folder in (checkpoint.parent, data)):
            raise UserError(f"{checkpoint} names the subword model {bpe[name]!r}, not beside it: give it as {name}.")
