"""Preparations from small archives: the data is what the archives hold, however badly they come."""

import json
import os
import shutil
import tarfile
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple

import pytest

from dataset_runs import TABLE, Archives, Output, assert_one_sentence, path_of, prepare, prepared
from datasets import (
    BPE,
    DATA_SETS,
    IWSLT14,
    MULTI30K_FRENCH,
    WMT14_FRENCH,
    WMT14_GERMAN,
    WMT17_GERMAN,
    DataSet,
)
from ea_fairseq.data.tokenization import Tokenization
from ea_fairseq.plain.split_folder import SPLITS
from ea_fairseq.text.preparation import Preparation
from fairseq_steps import fairseq_iwslt14, read
from mirror import WEB_PAGE, Mirror, cut, failure, redirect
from needs import MOSES, needs_moses

CUT = ("iwslt14-de-en", "europarl-v7", "multi30k-train.de")
BUSY = ("commoncrawl", "multi30k-val.en")
MOVED = ("un", "nc-v9")
GONE = ("dev", "multi30k-train.en")  # from their first places
PAGE = "multi30k-test_2016_flickr.fr"
HALF = 1500  # bytes


def misbehave(mirror: Mirror) -> None:
    """Give some archives badly at first, and others from another place only."""
    for archive in CUT:
        mirror.plan(path_of(TABLE[archive][0]), cut(HALF))
    for archive in BUSY:
        mirror.plan(path_of(TABLE[archive][0]), failure(503))
    for archive in MOVED:
        path = path_of(TABLE[archive][0])
        mirror.files[f"/moved{path}"] = mirror.files.pop(path)
        mirror.plan(path, redirect(f"/moved{path}"))
    for archive in GONE:
        first, second, *_ = map(path_of, TABLE[archive])
        mirror.files[second] = mirror.files.pop(first)
    mirror.plan(path_of(TABLE[PAGE][0]), WEB_PAGE)


class Made(NamedTuple):
    """A data set that was made, in as many runs as it took, and what was there after the first that failed."""

    output: Output
    mirror: Mirror
    runs: list[CompletedProcess]
    left: set[str]


@pytest.fixture(scope="module")
def archives(tmp_path_factory) -> Archives:
    return Archives(tmp_path_factory.mktemp("small") / "the archives")


@pytest.fixture(scope="module")
def make(archives: Archives, tmp_path_factory) -> Callable[[DataSet], Made]:
    """A function that makes a data set from a mirror that misbehaves, once."""

    @cache
    def make(data_set: DataSet) -> Made:
        out = tmp_path_factory.mktemp(data_set.script) / "an output"
        left = set()
        with Mirror(archives.served()) as mirror:
            misbehave(mirror)
            options = ["--mirror", mirror.url, "--workers", "1", *archives.accepting(), *data_set.options, out]
            runs = [prepare(data_set.script, *options)]
            if runs[0].returncode:
                left = {str(path.relative_to(out)) for path in out.rglob("*")}
                runs.append(prepare(data_set.script, *options))
        return Made(Output(data_set, out), mirror, runs, left)

    return make


SLOW = (WMT17_GERMAN, WMT14_FRENCH, MULTI30K_FRENCH)


@pytest.fixture(
    scope="module",
    params=[pytest.param(each, marks=pytest.mark.slow) if each in SLOW else each for each in DATA_SETS],
    ids=lambda data_set: f"{data_set.script}-{data_set.target}{data_set.options[0]}",
)
def made(request, make) -> Made:
    return make(request.param)


@pytest.fixture(scope="module")
def output(made: Made) -> Output:
    return made.output


def test_sentences_are_those_of_the_archives_in_order(output: Output):
    data_set = output.data_set
    for split, language in product(SPLITS, data_set.languages):
        unlike = {"normalize": data_set.normalizes_test} if split == "test" else {}
        tokenize = Tokenization(**vars(data_set.tokenization) | unlike).tokenizer_for(language)
        assert output.words(split, language) == tokenize(data_set.sentences(split, language))


def test_dictionaries_are_joined_or_not(output: Output):
    source, target = ((output.data / f"dict.{language}.txt").read_bytes() for language in output.data_set.languages)
    joined = output.data_set.script.startswith("wmt14") or "--joined-dictionary" in output.data_set.options
    assert (source == target) == joined


def test_raw_text_is_prepared_alike_for_translation(output: Output):
    preparation = Preparation.read(output.data)
    for language in output.data_set.languages:
        sentences = output.data_set.sentences("train", language)
        assert list(map(preparation.preparer(language), sentences)) == output.subwords("train", language)


def test_manifest_names_the_archives(made: Made, archives: Archives):
    sources = {source["archive"]: source for source in made.output.manifest["sources"]}
    assert set(sources) == set(made.output.data_set.archives.split())
    for archive, source in sources.items():
        path = path_of(TABLE[archive][archive in GONE])
        assert source == {
            "archive": archive,
            "file": path.rpartition("/")[2],
            "address": made.mirror.url + path,
            "size": archives.file(archive).stat().st_size,
            "checksum": archives.checksum(archive),
            "accepted": True,
        }


def test_counts_add_up_from_step_to_step(output: Output):
    for split in SPLITS:
        kept = 0
        for step in output.manifest["splits"][split]["steps"]:
            if step["step"] == "extract":
                markup = step["dropped"]["markup"]
                assert step["read"] == {language: markup[language] + step["kept"] for language in markup}
                kept += step["kept"]
            else:
                assert step["read"] == kept == step["kept"] + sum(step["dropped"].values())
                kept = step["kept"]
        pairs = output.manifest["splits"][split]["pairs"]
        assert kept == pairs == len(output.data_set.sentences(split, output.data_set.source))


def test_mirror_misbehaved_and_only_a_web_page_stopped_a_run(made: Made):
    archives = made.output.data_set.archives.split()
    assert [run.returncode for run in made.runs] == ([1, 0] if PAGE in archives else [0])
    assert made.runs[-1].stderr.startswith("note: ") and made.runs[-1].stderr.count("\n") == 1
    for archive in archives:
        first = path_of(TABLE[archive][0])
        second = f"/moved{first}" if archive in MOVED else path_of(TABLE[archive][-1])
        expected = [None, HALF] if archive in CUT else [None, None] if archive in (*BUSY, PAGE) else [None]
        assert made.mirror.starts(first) == expected
        assert made.mirror.starts(second) == [None] or archive not in (*MOVED, *GONE)


def test_web_page_is_no_archive_and_the_next_run_goes_on(make):
    made = make(MULTI30K_FRENCH)
    page, gone = (made.mirror.url + path_of(place) for place in TABLE[PAGE])
    reasons = f"{page} (it answered with a web page); {gone} (it answered 404 Not Found)"
    assert_one_sentence(made.runs[0], f"no place gives the archive {PAGE}: {reasons}")
    assert "archives/multi30k-train.en/source.json" in made.left
    assert not [name for name in made.left if PAGE in name or "data-bin" in name or name.endswith((".tmp", ".part"))]
    done = [line.split()[1] for line in made.runs[0].stdout.splitlines() if line.endswith(": making it")]
    again = [line.split()[1] for line in made.runs[1].stdout.splitlines() if line.endswith(": making it")]
    assert set(done) & set(again) == {f"archives/{PAGE}:"}


def test_own_archives_are_not_asked_for_and_what_is_kept_in_between_does_not_matter(make, archives, tmp_path: Path):
    first, second = make(IWSLT14).output, Output(IWSLT14, tmp_path / "another output")
    saving = ["--compress", "--remove-intermediate", "--workers", "2"]
    with Mirror(archives.served()) as mirror:
        own = ["--archives", archives.folder, "--mirror", mirror.url, *archives.accepting()]
        prepared("iwslt14-deen", *own, *saving, *BPE, second.folder)
    assert not mirror.visits
    assert {path.name for path in second.folder.iterdir()} == {".stages", "archives", "bpe.codes", "data-bin", "logs"}
    for path in first.data.iterdir():
        if path.name != "manifest.json":
            assert path.read_bytes() == (second.data / path.name).read_bytes()
    source = first.manifest["sources"][0] | {"address": TABLE["iwslt14-de-en"][0].address}
    assert second.manifest == first.manifest | {"sources": [source]}


def test_the_plan_counts_only_the_archives_that_are_to_be_downloaded(archives: Archives, tmp_path: Path):
    own, lacking = archives.file("multi30k-train.en"), TABLE["multi30k-train.de"][0]
    (tmp_path / "own").mkdir()
    shutil.copy(own, tmp_path / "own")
    os.truncate(tmp_path / "own" / own.name, TABLE["multi30k-train.en"][0].size)
    plan = prepare("multi30k", "--archives", tmp_path / "own", "--dry-run", tmp_path / "out").stdout.splitlines()
    shown = {name: rest.split(maxsplit=1) for name, rest in (line.split(maxsplit=1) for line in plan[1:-1])}
    assert shown["archives/multi30k-train.en"] == ["linked", f"from {tmp_path / 'own' / own.name}"]
    size, source = shown["archives/multi30k-train.de"]
    assert (size.upper(), source) == ("637.1KB", f"from {lacking.address}")


@pytest.mark.parametrize(
    ("options", "models", "folder", "pairs"),
    [
        (["--subword", "sentencepiece", "--vocab-size", "90"], ["sentencepiece.model"], "subword/train", 144),
        (["--subword", "none", "--subsample", "60", "--seed", "3"], [], "split/train", 60),
    ],
    ids=["sentencepiece", "none of a sample"],
)
def test_other_subwords(make, archives, tmp_path: Path, options: list[str], models: list[str], folder: str, pairs: int):
    output = Output(IWSLT14, shutil.copytree(make(IWSLT14).output.folder, tmp_path / "a copy"))
    prepared("iwslt14-deen", *archives.accepting(), *options, output.folder)
    assert json.loads((output.data / "preparation.json").read_text())["models"] == models
    assert output.manifest["splits"]["train"]["steps"][2]["read"] == pairs
    preparation = Preparation.read(output.data)
    made, possible = [], []
    for language in IWSLT14.languages:
        made.append(read(output.folder / folder / f"text.{language}"))
        sentences = IWSLT14.sentences("train", language) + IWSLT14.sentences("valid", language)
        possible.append(map(preparation.preparer(language), sentences))
    assert set(zip(*made, strict=True)) <= set(zip(*possible, strict=True))


def test_changed_archives_are_refused(make, archives: Archives, tmp_path: Path):
    before = make(WMT14_GERMAN).output
    out = shutil.copytree(before.folder, tmp_path / "a copy")
    with Mirror(archives.served()) as mirror:
        options = ["--mirror", mirror.url, *archives.accepting(but="test-full"), *BPE]
        changed = prepare("wmt14-ende", *options, out)
        small = prepare("iwslt14-deen", "--mirror", mirror.url, tmp_path / "new")
    trust = f"run again with --accept test-full={archives.checksum('test-full')} if you trust it"
    assert_one_sentence(changed, f"expected {TABLE['test-full'][0].checksum}, found md5:", trust)
    size = archives.file("iwslt14-de-en").stat().st_size
    assert_one_sentence(small, f"its file has {size} bytes, not {TABLE['iwslt14-de-en'][0].size}")
    assert not list(tmp_path.rglob("*.tmp")) and not list(tmp_path.rglob("*.part"))
    assert not (tmp_path / "new/archives/iwslt14-de-en").exists()
    assert Output(WMT14_GERMAN, out).manifest == before.manifest


@needs_moses
@pytest.mark.parametrize("tokenizer", ["sacremoses", "moses"])
def test_iwslt14_is_fairseqs(make, archives: Archives, tmp_path: Path, tokenizer: str):
    output = make(IWSLT14).output
    if tokenizer == "moses":
        output = Output(IWSLT14, tmp_path / "an output")
        own = ["--archives", archives.folder, *archives.accepting()]
        prepared("iwslt14-deen", *own, "--moses", MOSES, *BPE, output.folder)
    with tarfile.open(archives.file("iwslt14-de-en")) as archive:
        archive.extractall(tmp_path / "orig", filter="data")
    theirs = tmp_path / "fairseq"
    fairseq_iwslt14(tmp_path / "orig/de-en", Path(MOSES), theirs, int(BPE[1]))
    assert read(output.data / "bpe.codes") == read(theirs / "code")
    for split, language in product(SPLITS, IWSLT14.languages):
        assert output.words(split, language) == read(theirs / f"tmp/{split}.{language}")
        assert output.subwords(split, language) == read(theirs / f"{split}.{language}")
