"""Tables of one's own: train|valid|test.tsv of a folder, plain or gzipped; there need not be one for testing."""

from pathlib import Path

from ea_fairseq.data.check_corpus import SPLITS, find_file
from ea_fairseq.data.examples import plain_form
from ea_fairseq.errors import UserError


def find_tables(folder: Path) -> dict[str, Path]:
    """The table of each split; raises UserError where train or valid is missing, or one is there twice."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: give the folder of train.tsv and valid.tsv.")
    names = {split: f"{split}.tsv" for split in SPLITS}
    if not any((folder / f"{names['test']}{suffix}").is_file() for suffix in ("", ".gz")):
        del names["test"]
    return {split: find_file(folder, name) for split, name in names.items()}


def check_tables(folder: Path) -> tuple[dict[str, Path], int]:
    """The table of each split, and the number of sentences an example.

    Raises:
        UserError: where a table is missing, or differs from the others in its number of sentences.
    """
    tables = find_tables(folder)
    sentences = {split: len(plain_form(path).sentences) for split, path in tables.items()}
    for split, path in tables.items():
        if sentences[split] != sentences["train"]:
            raise UserError(f"{path} and {tables['train']} do not have as many sentences an example.")
    return tables, sentences["train"]
