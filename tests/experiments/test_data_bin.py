"""What a folder of binarised data is called, holds and allows."""

import json
from pathlib import Path

import pytest

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.data_bin import DataBin

PREPARED = {"tokenizer": "moses", "normalize": True, "dash_splits": False, "lowercase": True, "subword": "bpe"}
PREPARED["models"] = ["bpe.codes"]


def write_data(folder: Path, source: str, target: str, subset: str = "test") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for language in (source, target):
        (folder / f"dict.{language}.txt").write_text(f"{language} 1\n")
        for kind in ("bin", "idx"):
            (folder / f"{subset}.{source}-{target}.{language}.{kind}").write_text(f"{language} {kind}")
    return folder


def prepare(folder: Path, source: str, target: str, sources: list | None = None, **settings) -> DataBin:
    write_data(folder, source, target)
    languages = {"source_lang": source, "target_lang": target}
    (folder / "preparation.json").write_text(json.dumps(languages | PREPARED))
    (folder / "manifest.json").write_text(json.dumps({"settings": settings, "sources": sources or []}))
    return DataBin(folder)


@pytest.mark.parametrize(
    ("languages", "manifest", "name"),
    [
        ("de-en", {"dataset": "prepare-iwslt14-deen"}, "iwslt14-deen"),
        ("de-en", {"dataset": "prepare-multi30k"}, "multi30k-deen"),
        ("xx-yy", {"dataset": "prepare-corpus"}, "my text"),
        ("en-de", {"dataset": "prepare-wmt14-ende"}, "wmt14-ende"),
        ("en-de", {"dataset": "prepare-wmt14-ende", "subsample": 1000, "seed": 1}, "wmt14-ende-1000-pairs"),
        ("en-de", {"dataset": "prepare-wmt14-ende", "sources": [{"archive": "nc-v12"}]}, "wmt17-ende"),
    ],
)
def test_a_data_set_has_the_name_that_papers_know_only_where_it_is_theirs(tmp_path, languages, manifest, name):
    assert prepare(tmp_path / "my text" / "data-bin", *languages.split("-"), **manifest).name == name


def test_data_of_plain_fairseq_is_taken_for_moses_tokens_with_bpe(tmp_path):
    data = DataBin(write_data(tmp_path / "my data" / "data-bin", "de", "en"))
    assert (data.languages, data.facts, data.name) == (("de", "en"), ("de", "en", "@@ "), "my data")
    assert data.assumed and data.preparation.tokenizer == "moses"
    assert data.dataset("test").manifest is None
    assert not prepare(tmp_path / "prepared", "de", "en").assumed


def test_checksums_tell_apart_what_was_translated_and_nothing_else(tmp_path):
    one, other = (prepare(tmp_path / name, "de", "en", dataset=name) for name in ("one", "other"))
    write_data(tmp_path / "one", "de", "en", "valid")
    assert one.dataset("test").checksum == other.dataset("test").checksum
    assert one.dataset("test").manifest != other.dataset("test").manifest
    assert one.dataset("test").checksum != one.dataset("valid").checksum
    for changed in ("dict.en.txt", "test.de-en.de.bin", "test.de-en.en.idx"):
        before = other.dataset("test").checksum
        (tmp_path / "other" / changed).write_text("changed")
        assert other.dataset("test").checksum != before


@pytest.mark.parametrize(
    ("dataset", "languages", "reason"),
    [
        ("prepare-wmt14-enfr", "en-fr", "wmt14-enfr: WMT'14 English-French is already split at hyphens"),
        ("prepare-iwslt14-deen", "de-en", "iwslt14-deen: the papers split compounds of WMT'14 English-German only"),
        ("prepare-wmt14-ende", "de-en", "wmt14-ende: the papers split"),
    ],
)
def test_compound_split_bleu_is_refused_with_the_reason(tmp_path, dataset, languages, reason):
    prepare(tmp_path / "allowed", "en", "de", dataset="prepare-wmt14-ende").require_compounds()
    with pytest.raises(UserError, match=f"--compound-split is not for {reason}"):
        prepare(tmp_path / "refused", *languages.split("-"), dataset=dataset).require_compounds()


def test_what_is_missing_or_wrong_is_named(tmp_path):
    data = prepare(tmp_path / "data", "de", "en")
    with pytest.raises(UserError, match=r"data has no valid.de-en.de.bin"):
        data.dataset("valid")
    with pytest.raises(UserError, match=r"there is no folder .*nowhere"):
        DataBin(tmp_path / "nowhere")
    with pytest.raises(UserError, match="has no binarised data"):
        DataBin(tmp_path)
    for text, flaw in (("[1]", "is not what"), ("{", "is not what"), ("{}", "is not what .*it has no .tokenizer.")):
        (tmp_path / "data" / "preparation.json").write_text(text)
        with pytest.raises(UserError, match=rf"preparation.json {flaw}"):
            DataBin(tmp_path / "data")
