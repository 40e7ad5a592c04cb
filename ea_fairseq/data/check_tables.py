"""Find the tables train|valid|test.tsv of a folder and print, of each, its split, sentences an example, bytes and name.

The name is followed by the checksum of the file. A folder need not have a test.tsv.
"""

import argparse
from pathlib import Path

from ea_fairseq.data.check_corpus import SPLITS, find_file
from ea_fairseq.data.examples import plain_form
from ea_fairseq.data.manifest import sha256
from ea_fairseq.errors import UserError
from ea_fairseq.plain.commands import run


def find_tables(folder: Path) -> dict[str, Path]:
    """The table of each split; raises UserError where train or valid is missing, or one is there twice."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: give the folder of train.tsv and valid.tsv.")
    names = {split: f"{split}.tsv" for split in SPLITS}
    if not any((folder / f"{names['test']}{suffix}").is_file() for suffix in ("", ".gz")):
        del names["test"]
    return {split: find_file(folder, name) for split, name in names.items()}


def main() -> None:
    """Check and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the tables")
    args = parser.parse_args()
    tables = find_tables(args.folder)
    sentences = {split: len(plain_form(path).sentences) for split, path in tables.items()}
    for split, path in tables.items():
        if sentences[split] != sentences["train"]:
            raise UserError(f"{path} and {tables['train']} do not have as many sentences an example.")
        print(split, sentences[split], path.stat().st_size, path.name, sha256(path))


if __name__ == "__main__":
    run(main)
