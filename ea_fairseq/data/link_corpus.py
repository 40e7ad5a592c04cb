"""Make a text folder of the two files of a split that check_corpus.py has checked, by links to them."""

import argparse
from collections import Counter
from pathlib import Path

from ea_fairseq.data.history import History
from ea_fairseq.plain.commands import run


def main() -> None:
    """Link."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--languages", nargs=2, required=True, metavar="LANGUAGE", help="source and target")
    parser.add_argument("corpus", type=Path, help="folder of the files")
    parser.add_argument("split")
    parser.add_argument("lines", type=int, help="lines of each file")
    parser.add_argument("files", nargs=4, help="name and checksum of both files")
    parser.add_argument("output", type=Path, help="text folder to make")
    args = parser.parse_args()
    args.output.mkdir()
    names, checksums = args.files[::2], args.files[1::2]
    for language, name in zip(args.languages, names, strict=True):
        suffix = ".gz" if name.endswith(".gz") else ""
        (args.output / f"text.{language}{suffix}").symlink_to((args.corpus / name).absolute())
    sources = [{"file": name, "sha256": checksum} for name, checksum in zip(names, checksums, strict=True)]
    history = History(sources).then("read", args.lines, Counter(), args.lines)
    history.write(args.output / "history.json")


if __name__ == "__main__":
    run(main)
