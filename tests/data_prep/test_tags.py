"""Tags of source sentences, and back-translations, which have a tag of their own."""

import gzip
import json
import shutil
from itertools import cycle, islice
from pathlib import Path

import pytest
from fairseq.data import Dictionary
from fairseq.data.data_utils import load_indexed_dataset
from fairseq.tasks.translation import load_langpair_dataset

import ea_fairseq.plugin  # noqa: F401  mends fairseq
from corpora import LANGUAGES, LOWERCASED, SENTENCEPIECE, SIZES, WORDS, checksums, prepare, prepared, sentence
from corpora import write_corpus as write_untagged
from dataset_runs import assert_one_sentence
from ea_fairseq.data.manifest import BACK_TRANSLATIONS
from ea_fairseq.text.preparation import Preparation
from ea_fairseq.text.tags import untagged

TAGS = ["news", "", "web_2.0", "news", "a-b"]
BACK_TRANSLATED = 7  # pairs
DROPPED = 5  # number of a training pair that is too uneven to keep


def tags(split: str) -> list[str]:
    return list(islice(cycle(TAGS), SIZES[split]))


def write_corpus(folder: Path) -> Path:
    """A corpus with a pair to drop, and tags of train and valid, those of valid gzipped."""
    write_untagged(folder)
    lines = (folder / "train.de").read_text().split("\n")
    lines[DROPPED] = "Hund"
    (folder / "train.de").write_text("\n".join(lines))
    (folder / "train.tags").write_text("\r\n".join(tags("train")))
    (folder / "valid.tags.gz").write_bytes(gzip.compress("\n".join(tags("valid")).encode()))
    (folder / "test.tags~").write_text("what an editor leaves")
    return folder


def write_back_translations(prefix: Path) -> Path:
    """A plain and a gzipped file of sentences; the last one has a word that no other text has."""
    for language, write in (("de", lambda text: text), ("en", gzip.compress)):
        lines = [sentence(language, 50 + number) for number in range(BACK_TRANSLATED - 1)] + ["q q q q"]
        end = "" if language == "de" else ".gz"
        prefix.with_name(f"{prefix.name}.{language}{end}").write_bytes(write("\n".join(lines).encode()))
    return prefix


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> Path:
    """'corpus' with tags, 'plain', which is the same without them, and back-translations 'made'."""
    home = tmp_path_factory.mktemp("texts")
    write_corpus(home / "corpus")
    shutil.copytree(home / "corpus", home / "plain", ignore=shutil.ignore_patterns("*.tags*"))
    write_back_translations(home / "made")
    return home


@pytest.fixture(scope="module", params=[LOWERCASED, SENTENCEPIECE], ids=["joint BPE", "two models of sentencepiece"])
def data(request, texts: Path, tmp_path_factory) -> Path:
    """'tagged' and 'plain', prepared with the same options."""
    home = tmp_path_factory.mktemp("data")
    made = ["--back-translations", texts / "made"]
    prepared(*request.param, "--workers", "2", *made, texts / "corpus", home / "tagged")
    prepared(*request.param, texts / "plain", home / "plain")
    return home


def binarised(folder: Path, split: str, language: str) -> list[str]:
    """The lines of tokens of a split."""
    words = Dictionary.load(str(folder / f"data-bin/dict.{language}.txt"))
    lines = load_indexed_dataset(str(folder / f"data-bin/{split}.de-en.{language}"))
    return [words.string(lines[number]) for number in range(len(lines))]


def words_of(folder: Path, language: str) -> set[str]:
    """The words of a dictionary, without those that only fill it up to a round number."""
    symbols = Dictionary.load(str(folder / f"data-bin/dict.{language}.txt")).symbols
    return {symbol for symbol in symbols if not symbol.startswith("madeupword")}


def test_each_source_sentence_begins_with_its_tag_and_is_otherwise_as_without(data: Path):
    kept = tags("train")[:DROPPED] + tags("train")[DROPPED + 1 :]
    for split, expected in (("train", kept), ("valid", tags("valid")), ("test", [""] * SIZES["test"])):
        plain = binarised(data / "plain", split, "de")
        tokens = [f"<{tag}> " if tag else "" for tag in expected]
        found = binarised(data / "tagged", split, "de")
        assert found == [token + line for token, line in zip(tokens, plain, strict=True)]
        assert [untagged(line, ["news", "web_2.0", "a-b"]) for line in found] == plain
        assert binarised(data / "tagged", split, "en") == binarised(data / "plain", split, "en")


@pytest.mark.parametrize(("flag", "times"), [(-1, 1), (3, 3)], ids=["by default", "repeated"])
def test_back_translations_are_a_second_training_set_with_a_tag(data: Path, flag: int, times: int):
    sources = binarised(data / "tagged", BACK_TRANSLATIONS, "de")
    assert len(sources) == BACK_TRANSLATED
    assert all(line.startswith("<BT> ") and line.count("<BT>") == 1 for line in sources)
    folder = data / "tagged/data-bin"
    german, english = (Dictionary.load(str(folder / f"dict.{language}.txt")) for language in WORDS)
    both = load_langpair_dataset(
        str(folder),
        "train",
        *("de", german),
        *("en", english),
        combine=True,  # as fairseq-train does
        dataset_impl=None,
        upsample_primary=flag,
        left_pad_source=True,
        left_pad_target=False,
        max_source_positions=100,
        max_target_positions=100,
    )
    assert len(both) == len(both.src.sizes) == times * (SIZES["train"] - 1) + BACK_TRANSLATED


def test_subwords_and_dictionaries_are_those_of_the_corpus(data: Path):
    """Only the source dictionary has tags, if the languages do not share one; made-up text has unknown words."""
    tokens = {f"<{tag}>" for tag in ["BT", *TAGS] if tag}
    joined = (data / "tagged/bpe.codes").is_file()
    for language in WORDS:
        with_tags, without = (words_of(data / name, language) for name in ("tagged", "plain"))
        assert with_tags == without | (tokens if joined or language == "de" else set())
        assert "<unk>" in binarised(data / "tagged", BACK_TRANSLATIONS, language)[-1]
    for model in [*(data / "plain").glob("*.codes"), *(data / "plain").glob("*.model")]:
        assert (data / "tagged" / model.name).read_bytes() == model.read_bytes()


def test_preparation_names_the_tags(data: Path):
    assert Preparation.read(data / "tagged/data-bin").tags == ["BT", "a-b", "news", "web_2.0"]
    assert Preparation.read(data / "plain/data-bin").tags == []
    manifest = json.loads((data / "tagged/data-bin/manifest.json").read_text())
    assert manifest["splits"][BACK_TRANSLATIONS]["pairs"] == BACK_TRANSLATED
    assert {"train.tags", "valid.tags.gz", "made.de", "made.en.gz"} <= {each["file"] for each in manifest["sources"]}


def test_back_translations_that_are_added_later_repeat_no_step_of_the_corpus(texts: Path, tmp_path: Path):
    out = tmp_path / "out"
    prepared(*LOWERCASED, texts / "plain", out)
    before = checksums(out)
    write_back_translations(tmp_path / "more")
    made = ["--back-translations", texts / "made", "--back-translations", tmp_path / "more"]
    result = prepare(*LOWERCASED, *made, texts / "plain", out)
    steps = [line.split()[1] for line in result.stdout.splitlines() if line.endswith(": making it")]
    assert steps == [
        *("back-translations/1:", "back-translations/2:", "tokenized/train1:", "cleaned/train1:"),
        *("subword/train1:", "tagged/train1:", "data-bin:"),
    ]
    assert len(binarised(out, BACK_TRANSLATIONS, "de")) == 2 * BACK_TRANSLATED
    same = {name for name, checksum in checksums(out).items() if before.get(name) == checksum}
    assert {"bpe.codes", "subword/train/text.de", "data-bin/train.de-en.en.bin"} <= same
    prepared(*LOWERCASED, texts / "plain", out)
    assert checksums(out)["data-bin/dict.de.txt"] == before["data-bin/dict.de.txt"]
    assert not list((out / "data-bin").glob("train1*"))


def test_a_sample_is_of_the_corpus_alone_and_keeps_its_tags(texts: Path, tmp_path: Path):
    made = ["--back-translations", texts / "made"]
    prepared(*LOWERCASED, *made, "--subsample", "10", "--compress", texts / "corpus", tmp_path / "out")
    assert len(binarised(tmp_path / "out", BACK_TRANSLATIONS, "de")) == BACK_TRANSLATED
    words = [sentence("de", number).lower().replace(".", " .") for number in range(SIZES["train"])]
    expected = {f"<{tag}> {line}" if tag else line for tag, line in zip(tags("train"), words, strict=True)}
    lines = [line.replace("@@ ", "") for line in binarised(tmp_path / "out", "train", "de")]
    assert 9 <= len(lines) <= 10 and expected.issuperset(lines)


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("train.tags", "news\n", ["train.de has 40 lines", "train.tags has 1"]),
        ("train.tags", "news\nnews web\n" + 38 * "\n", ["line 2 of", "train.tags is no tag"]),
        ("train.tags", "news\nunk\n" + 38 * "\n", ["line 2 of", "train.tags is no tag"]),
        ("valid.tags", 6 * "sports\n", ["valid.tags has the tag sports", "train.tags"]),
    ],
)
def test_tags_that_cannot_be_are_refused_before_anything_is_written(
    tmp_path: Path, name: str, text: str, parts: list[str]
):
    corpus = write_untagged(tmp_path / "corpus")
    (corpus / name).write_text(text)
    assert_one_sentence(prepare(*LANGUAGES, corpus, tmp_path / "out"), *parts)
    assert not (tmp_path / "out").exists()


def test_back_translations_that_do_not_match_are_refused(texts: Path, tmp_path: Path):
    def refused(*parts: str) -> None:
        options = [*LANGUAGES, "--back-translations", tmp_path / "made"]
        assert_one_sentence(prepare(*options, texts / "plain", tmp_path / "out"), *parts)
        assert not (tmp_path / "out").exists()

    refused("has neither made.de nor made.de.gz")
    (tmp_path / "made.de").write_text("eins\nzwei\n")
    refused("has neither made.en nor made.en.gz")
    (tmp_path / "made.en").write_text("one\n")
    refused(f"{tmp_path}/made.de has 2 lines", f"{tmp_path}/made.en has 1")
