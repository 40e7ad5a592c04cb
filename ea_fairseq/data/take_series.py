"""Put the files of a data set of time series into a folder, every line checked, and describe them in manifest.json."""

import argparse
from pathlib import Path

from ea_fairseq.data import manifest
from ea_fairseq.data.containers import open_members
from ea_fairseq.data.extract import verified
from ea_fairseq.data.manifest import sha256
from ea_fairseq.errors import UserError
from ea_fairseq.plain.commands import run

SPLITS = ("train", "test")


def write_series(input: Path, name: str, output: Path) -> dict[str, object]:
    """Write the series of an archive, of a folder of download.py or of a file, plain, packed by gzip or in a zip.

    Args:
        name: of the file in an archive, such as ``JapaneseVowels_TRAIN.ts``.

    Returns:
        The source, for manifest.json.

    Raises:
        UserError: naming the file that is damaged, or has no such file.
    """
    path, source = verified(input) if input.is_dir() else (input, {"file": input.name, "sha256": sha256(input)})
    with output.open("wb") as file:
        for member in open_members([path], [name]):
            file.writelines(member.lines)
    return source


def read_series(path: Path, input: Path):
    """The series of a file that came from ``input``; raises UserError naming the line of it that is wrong."""
    from ea_fairseq.series.ts_file import read_ts

    try:
        return read_ts(path)
    except UserError as error:
        raise UserError(str(error).replace(str(path), str(input)).removesuffix(".") + ".") from None


def tidy(path: Path) -> None:
    """Leave out comments, empty lines and blanks at the ends of lines, in which copies of a file differ."""
    lines = [line.rstrip() for line in path.read_bytes().split(b"\n")]
    path.write_bytes(b"".join(line + b"\n" for line in lines if line and not line.startswith((b"#", b"%"))))


def describe(files: dict[str, object]) -> dict[str, int]:
    """Counts of series; raises UserError where train and test do not go together."""
    train, test = (files[split] for split in SPLITS)
    if train.channels != test.channels:
        raise UserError(f"train has {train.channels} channels and test {test.channels}: they are no one data set.")
    if (train.labels is None) != (test.labels is None) or not {*(test.labels or ())} <= {*(train.labels or ())}:
        raise UserError("test has other classes than train: they are no one data set.")
    longest = max(train.longest, test.longest)
    return {"channels": train.channels, "longest": longest, "classes": len(train.labels or ())}


def main() -> None:
    """Write, check and describe."""
    parser = argparse.ArgumentParser(description=__doc__)
    for split in SPLITS:
        parser.add_argument(f"--{split}", type=Path, required=True, help="file, or folder that download.py made of one")
    parser.add_argument("name", help="of the data set")
    parser.add_argument("output", type=Path, help="folder to make")
    args = parser.parse_args()
    args.output.mkdir()
    sources, files = [], {}
    for split in SPLITS:
        input, path = getattr(args, split), args.output / f"{split}.ts"
        sources.append(write_series(input, f"{args.name}_{split.upper()}.ts", path))
        files[split] = read_series(path, input)
        tidy(path)
    found = {
        "settings": {"dataset": "prepare-uea", "name": args.name},
        "sources": sources,
        "splits": {split: {"pairs": len(file.series), "steps": []} for split, file in files.items()},
        "dictionary_sizes": {},
        "series": describe(files),
        "files": {f"{split}.ts": f"sha256:{sha256(args.output / f'{split}.ts')}" for split in SPLITS},
    }
    manifest.write(args.output / "manifest.json", found)


if __name__ == "__main__":
    run(main)
