"""Checkpoints are saved whole or not at all.

Faults of fairseq/checkpoint_utils.py and fairseq/file_io.py:

- ``torch_persistent_save`` appends a second and a third attempt to one that failed half-way, and ``PathManager.copy``
  overwrites the old file while it copies, so a full disk or a kill leaves half a checkpoint. Here a finished temporary
  file replaces the old one.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from ea_fairseq.errors import UserError

fairseq_save = checkpoint_utils.torch_persistent_save
fairseq_copy = PathManager.copy


def patch_saving() -> None:
    """Replaces two functions of fairseq by those below."""
    checkpoint_utils.torch_persistent_save = save_whole
    PathManager.copy = staticmethod(copy_whole)


def save_whole(state: dict, path: str, async_write: bool = False) -> None:
    """Saves a checkpoint in one attempt, to a temporary file that then replaces ``path``.

    Files that are not on a local disk, and asynchronous writes, are left to fairseq.

    Raises:
        UserError: naming the file, if it cannot be written; the old file is kept.
    """
    if async_write or not is_local(path):
        return fairseq_save(state, path, async_write)
    with replacing(path) as temporary, temporary.open("wb") as file:
        torch.save(state, file)


def copy_whole(source: str, target: str, overwrite: bool = False) -> bool:
    """Copies a file to a temporary one that then replaces ``target``; without ``overwrite``, as fairseq does.

    Returns:
        True, or whatever fairseq's ``copy`` returns.

    Raises:
        UserError: naming the target, if it cannot be written; the old file is kept.
    """
    if not (overwrite and is_local(source) and is_local(target)):
        return fairseq_copy(source, target, overwrite)
    with replacing(target) as temporary:
        shutil.copyfile(source, temporary)
    return True


def is_local(path: str) -> bool:
    """Whether a path is in the file system, so that iopath's PathManager need not resolve it."""
    return not PathManager.path_requires_pathmanager(path)


@contextmanager
def replacing(path: str) -> Iterator[Path]:
    """Yields the path of a temporary file, which replaces ``path`` at the end unless writing fails.

    Raises:
        UserError: naming ``path``, for any OSError; the temporary file is removed.
    """
    temporary = Path(f"{path}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(
            f"could not save {path}: {error.strerror or error}; the checkpoints saved before are unharmed, and "
            "training resumes from the last one."
        ) from error
