"""Time series of the UEA, UCR and regression archives, and the user's own; every line is checked."""

import re
from argparse import Namespace
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ea_fairseq.data import manifest
from ea_fairseq.data.archives import TABLE, read_table, verified
from ea_fairseq.data.data_set import DataSet
from ea_fairseq.data.manifest import sha256
from ea_fairseq.data.options import ARCHIVES, Option, folder, sources
from ea_fairseq.data.plan import Plan
from ea_fairseq.errors import UserError
from ea_fairseq.plain.containers import open_members

if TYPE_CHECKING:
    from ea_fairseq.series.ts_file import SeriesFile

SPLITS = ("train", "test")
COUNTS = TABLE.with_name("series.tsv")
UNPACKED = 5  # series are about this many times as large as their archives
SERIES = "read NAME_TRAIN.ts and NAME_TEST.ts (or .gz) in DIR or DIR/NAME, or both in NAME.zip there"


class TimeSeries(DataSet):
    """The data sets of time series, by their names."""

    def prepare(self, options: Namespace) -> None:
        """Prepares the data, or prints the plan; raises UserError for bad options or if a step fails."""
        name, path = options.given
        check_options(options, name)
        archives = sources(options)
        output = self.output_folder(path, name)
        plan, needs, inputs, size, checksums = Plan(), [], {}, 0, []
        for split in SPLITS:
            if options.series:
                inputs[split] = own_file(options.series, name, split)
                checksums.append(sha256(inputs[split]))
                size += UNPACKED * inputs[split].stat().st_size
            else:
                needs.append(archives.plan(plan, f"uea-{name}-{split}"))
                inputs[split] = output.path / needs[-1]
                size += archives.table[f"uea-{name}-{split}"][0].size or 0
        plan.add("data-bin", partial(take_series, name=name, inputs=inputs), (name, checksums), tuple(needs), size=size)
        replace(self, counts=known_counts(name)).carry_out(plan, output, options, strict=True)


def check_options(options: Namespace, name: str) -> None:
    """Raises UserError for an invalid name, and for options that cannot be combined."""
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name):
        raise UserError(f"NAME needs the name of a data set, such as JapaneseVowels, not '{name}'.")
    if options.series and (options.archives or options.mirror):
        raise UserError("--series is files of your own: leave --archives and --mirror out.")
    if not options.series and name not in downloaded():
        raise UserError(
            f"no download of {name} is known: get it from timeseriesclassification.com or tseregression.org, "
            "and give its folder with --series."
        )


def downloaded() -> list[str]:
    """The data sets whose files have a known address."""
    return sorted(re.findall(r"uea-(\S+)-train ", " ".join([*read_table(TABLE), ""])))


def known_counts(name: str) -> dict[str, int]:
    """Returns the published counts of a data set; empty if there are none."""
    header, *rows = [line.split("\t") for line in COUNTS.read_text(encoding="utf-8").splitlines()]
    return next((dict(zip(header[1:], map(int, row[1:]), strict=True)) for row in rows if row[0] == name), {})


def own_file(series: Path, name: str, split: str) -> Path:
    """Returns the file of ``--series`` with a split; raises UserError if there is none."""
    file = f"{name}_{split.upper()}.ts"
    for place in (series, series / name):
        for path in (place / file, place / f"{file}.gz", place / f"{name}.zip"):
            if path.is_file():
                return path.resolve()
    raise UserError(f"--series: {series} has no {file}, {file}.gz or {name}.zip: put the files of {name} there.")


def tidy(path: Path) -> None:
    """Removes comments, empty lines and trailing blanks, in which copies of a file differ."""
    lines = [line.rstrip() for line in path.read_bytes().split(b"\n")]
    path.write_bytes(b"".join(line + b"\n" for line in lines if line and not line.startswith((b"#", b"%"))))


def describe(files: dict[str, "SeriesFile"]) -> dict[str, int]:
    """Counts the series; raises UserError if train and test do not match."""
    train, test = (files[split] for split in SPLITS)
    if train.channels != test.channels:
        raise UserError(f"train has {train.channels} channels and test {test.channels}: they are not one data set.")
    if (train.labels is None) != (test.labels is None) or not {*(test.labels or ())} <= {*(train.labels or ())}:
        raise UserError("test has other classes than train: they are not one data set.")
    longest = max(train.longest, test.longest)
    return {"channels": train.channels, "longest": longest, "classes": len(train.labels or ())}


def take_series(output: Path, *, name: str, inputs: dict[str, Path]) -> None:
    """Writes, checks and describes a data set in a new folder.

    Args:
        inputs: for each split, the folder that ``Sources.get`` made, or the user's file, plain, gzipped or in a zip.

    Raises:
        UserError: naming the file that is damaged or lacks the series, or the line that is wrong.
    """
    from ea_fairseq.series.ts_file import read_ts

    output.mkdir()
    sources, files = [], {}
    for split, given in inputs.items():
        path = output / f"{split}.ts"
        archive, source = verified(given) if given.is_dir() else (given, {"file": given.name, "sha256": sha256(given)})
        with path.open("wb") as file:
            for member in open_members([archive], [f"{name}_{split.upper()}.ts"]):
                file.writelines(member.lines)
        try:
            files[split] = read_ts(path)
        except UserError as error:
            raise UserError(str(error).replace(str(path), str(given)).removesuffix(".") + ".") from None
        tidy(path)
        sources.append(source)
    found = {
        "settings": {"dataset": "prepare-uea", "name": name},
        "sources": sources,
        "splits": {split: {"pairs": len(file.series), "steps": []} for split, file in files.items()},
        "dictionary_sizes": {},
        "series": describe(files),
        "files": {f"{split}.ts": f"sha256:{sha256(output / f'{split}.ts')}" for split in SPLITS},
    }
    manifest.write(output / manifest.MANIFEST, found)


DATA_SET = TimeSeries(
    name="uea",
    summary="time series of the UEA, UCR and regression archives, or your own",
    description=f"""\
Checks every line of a data set of the UEA and UCR archives (timeseriesclassification.com) or of the regression archive
(tseregression.org), counts its series, and writes OUT_DIR/data-bin/train.ts and test.ts for the tasks
time_series_prediction and masked_time_series. If interrupted, run it again to resume.

It downloads {", ".join(downloaded()[:-1])} and {downloaded()[-1]}.
For other data sets, and your own, use --series.""",
    examples=("JapaneseVowels data/japanese-vowels", "--series ~/Downloads Heartbeat data/heartbeat"),
    asks=("NAME", "OUT_DIR"),
    shared=ARCHIVES | {"dry_run"},
    own=(Option("series", "DIR", None, SERIES, folder),),
)
