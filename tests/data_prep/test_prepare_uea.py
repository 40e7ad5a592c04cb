"""Time series: the folder that our tasks read has the series of the files, whatever they came in."""

import gzip
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dataset_runs import REPOSITORY, TABLE, assert_one_sentence, prepare, prepared
from ea_fairseq.data.sets.uea import take_series
from ea_fairseq.errors import UserError
from needs import ENCODER_TASKS, needs_file
from time_series import ts_text, write_folder

NAME = "Toys"
SIZES = {"train": 4, "test": 3}
TABLE_OF_COUNTS = REPOSITORY / "ea_fairseq/data/series.tsv"


@pytest.fixture
def texts(tmp_path) -> dict[str, str]:
    """The files of a data set by their names in an archive."""
    folder = write_folder(tmp_path / "drawn", SIZES)
    return {
        f"{NAME}_{split.upper()}.ts": gzip.decompress((folder / f"{split}.ts.gz").read_bytes()).decode()
        for split in SIZES
    }


def plain(folder: Path, texts: dict[str, str]) -> list[Path]:
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in texts]


def packed(folder: Path, texts: dict[str, str]) -> list[Path]:
    for name, text in texts.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    return [folder / f"{name}.gz" for name in texts]


def of_windows(folder: Path, texts: dict[str, str]) -> list[Path]:
    """With line ends of Windows, and a comment in no encoding."""
    for name, text in texts.items():
        (folder / name).write_bytes(b"# pp 1\x9631\r\n\r\n" + text.replace("\n", "\r\n").encode())
    return [folder / name for name in texts]


def zipped(folder: Path, texts: dict[str, str]) -> list[Path]:
    with zipfile.ZipFile(folder / f"{NAME}.zip", "w") as archive:
        archive.writestr("README.txt", "no series")
        for name, text in texts.items():
            archive.writestr(name, text)
    return [folder / f"{NAME}.zip"] * 2


def take(train: Path, test: Path, output: Path) -> Path:
    take_series(output, name=NAME, inputs={"train": train, "test": test})
    return output


@pytest.mark.parametrize("form", [plain, packed, of_windows, zipped], ids=lambda form: form.__name__)
def test_the_same_bytes_come_of_every_form(tmp_path, texts, form):
    (tmp_path / "given").mkdir()
    data = take(*form(tmp_path / "given", texts), tmp_path / "out")
    for split, text in zip(SIZES, texts.values(), strict=True):
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        assert (data / f"{split}.ts").read_text().splitlines() == lines
    manifest = json.loads((data / "manifest.json").read_text())
    assert {split: found["pairs"] for split, found in manifest["splits"].items()} == SIZES
    assert manifest["series"]["channels"] == 3 and manifest["series"]["classes"] == 2


def test_a_wrong_line_and_sets_that_are_not_one_are_refused(tmp_path, texts):
    train, test = plain(tmp_path, texts)
    test.write_text(test.read_text() + "1.0:2.0:neither\n")
    with pytest.raises(UserError, match=rf"{test}, line 9: it has 2 dimensions"):
        take(train, test, tmp_path / "a wrong line")
    test.write_text(ts_text([np.zeros((5, 1))], [0], ("low", "high")))
    with pytest.raises(UserError, match="train has 3 channels and test 1"):
        take(train, test, tmp_path / "other channels")
    test.write_text(train.read_text().replace("@classLabel true low high", "@classLabel true low high higher"))
    with pytest.raises(UserError, match="test has other classes than train"):
        take(train, test, tmp_path / "other classes")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["JapaneseVowels"], "give NAME and OUT_DIR, not 1 words"),
        (["../x", "out"], "NAME needs the name of a data set"),
        (["Heartbeat", "out"], "no download of Heartbeat is known: get it"),
        (["--series", "nowhere", "Heartbeat", "out"], "--series: there is no folder nowhere"),
        (
            ["--series", REPOSITORY, "--mirror", "http://localhost:9", "Toys", "out"],
            "leave --archives and --mirror out",
        ),
        (["--series", REPOSITORY, "Toys", "out"], "has no Toys_TRAIN.ts, Toys_TRAIN.ts.gz or Toys.zip"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(tmp_path, arguments, reason):
    folders = [tmp_path / argument if argument == "out" else argument for argument in arguments]
    assert_one_sentence(prepare("uea", *folders), reason)
    assert not (tmp_path / "out").exists()


def test_every_download_has_both_files_and_known_counts():
    names = {name.removeprefix("uea-").rpartition("-")[0] for name in TABLE if name.startswith("uea-")}
    counted = {line.split("\t")[0] for line in TABLE_OF_COUNTS.read_text().splitlines()[1:]}
    assert names and names <= counted
    assert all(f"uea-{name}-{split}" in TABLE for name in names for split in SIZES)


def test_a_published_name_must_have_the_published_counts(tmp_path, texts):
    plain(tmp_path, {name.replace(NAME, "Handwriting"): text for name, text in texts.items()})
    result = prepare("uea", "--series", tmp_path, "Handwriting", tmp_path / "out")
    assert_one_sentence(result, "train 4 instead of 150, test 3 instead of 850, longest 9 instead of 152")


@needs_file("timeseries/Covid3Month/Covid3Month_TRAIN.ts.gz")
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["JapaneseVowels", "Handwriting", "UWaveGestureLibrary", "SelfRegulationSCP1", "Covid3Month"]
)
def test_the_archives_sets_have_the_published_counts(tmp_path, name):
    prepared("uea", "--series", ENCODER_TASKS / "timeseries", name, tmp_path / "out")
