"""preparation.json beside a model from others: sound, or refused in a sentence."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq.errors import UserError, printable
from ea_fairseq.experiments.runs.data_bin import DataBin
from ea_fairseq.plain.commands import run
from ea_fairseq.text.preparation import Preparation
from opened_files import opened_files
from preparations import SECRET, WHOLE, assert_one_sentence, read, write_model

OUTSIDE = [
    "../secret",
    "../../../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "",
    "a/b",
    "http://localhost/x",
    "\0",
]
HOSTILE = [
    *OUTSIDE,
    "\x1b[2J",
    "\ud800",
    "x" * 300,
    "bpe.codes",
    "secret link",
    "moses",
    "none",
    "bpe",
    "sentencepiece",
]


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return write_model(tmp_path_factory.mktemp("a home"))


def assert_sound(preparation: Preparation, folder: Path) -> None:
    """What is read is what data-prep writes, works, and leads to no file elsewhere."""
    assert {type(preparation.normalize), type(preparation.dash_splits), type(preparation.lowercase)} == {bool}
    assert preparation.tokenizer in ("moses", "none") and preparation.subword in ("bpe", "sentencepiece", "none")
    for language in filter(None, (preparation.source_lang, preparation.target_lang)):
        assert language.replace("_", "a").isalnum() and language.isascii()
        preparation.preparer(language)("Der Hund.")
        if preparation.models:
            assert preparation.model_for(language).resolve().parent == folder.resolve()


def test_what_is_whole_is_read(home):
    preparation = read(home, WHOLE)
    assert preparation == Preparation(home, **WHOLE)
    assert preparation.preparer("de")("Der Hund.") == "D@@ e@@ r Hund ."
    assert DataBin(home).languages == ("de", "en")
    older = {name: value for name, value in WHOLE.items() if name not in ("normalize", "dash_splits")}
    assert read(home, older) == preparation
    assert read(home, WHOLE | {"more": [1]}) == preparation


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_model_elsewhere_is_not_opened(home, name):
    sentence = read(home, WHOLE | {"models": [name]})
    assert_one_sentence(sentence, home)
    assert "preparation.json is not what" in sentence and "'models' must be the plain name of a file" in sentence


WRONG = {
    "tokenizer": ["spaces", 1, None, [], {}, True],
    "subword": ["wordpiece", "BPE", 0, None, ["bpe"]],
    "models": [[], ["bpe.codes"] * 3, "bpe.codes", [1], None, {"bpe.codes": 1}, [["bpe.codes"]]],
    "source_lang": [
        "../x",
        "de/en",
        "",
        "en",
        1,
        None,
        "de ",
        "d\x1be",
        "x" * 65,
        ["de"],
        "\N{LATIN SMALL LETTER U WITH DIAERESIS}",
    ],
    "target_lang": ["de", "en-GB"],
    "lowercase": [1, "true", None, "false"],
    "normalize": [0, [], "yes"],
    "dash_splits": [1.0, {}],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG.items() for value in values])
def test_a_field_that_is_wrong_is_named(home, field, value):
    sentence = read(home, WHOLE | {field: value})
    assert_one_sentence(sentence, home)
    assert f"'{field}'" in sentence or "'source_lang' and 'target_lang' must differ" in sentence
    with pytest.raises(UserError) as refused:
        DataBin(home)
    assert str(refused.value) == sentence


@pytest.mark.parametrize("field", [field for field in WHOLE if field not in ("normalize", "dash_splits")])
def test_a_field_that_is_missing_is_named(home, field):
    sentence = read(home, {name: value for name, value in WHOLE.items() if name != field})
    assert_one_sentence(sentence, home)
    assert f"it has no '{field}'" in sentence


TEXTS = {
    "no JSON": SECRET.encode(),
    "half": json.dumps(WHOLE).encode()[:50],
    "empty": b"",
    "a list": b"[1]",
    "no UTF-8": b'{"source_lang": "\xff"}',
    "deep": b"[" * 500_000,
    "deep in a field": b'{"models": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "long number": b'{"models": ' + b"9" * 10_000 + b"}",
    "large": json.dumps(WHOLE | {"more": "x" * 2_000_000}).encode(),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_file_that_is_no_description_is_refused(home, text):
    sentence = read(home, text)
    assert_one_sentence(sentence, home)
    assert f"{home}/preparation.json " in sentence


@pytest.mark.parametrize("name", ["preparation.json", "manifest.json"])
def test_a_link_out_of_the_folder_is_not_followed(home, tmp_path, name):
    for path in home.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "preparation.json").write_text(json.dumps(WHOLE))
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).symlink_to(home.parent / "secret")
    with pytest.raises(UserError, match=rf"{name} is a link out of its folder"), opened_files() as opened:
        DataBin(tmp_path)
    assert home.parent / "secret" not in opened
    (tmp_path / name).unlink()
    (tmp_path / "of our own").write_text(json.dumps(WHOLE))
    (tmp_path / name).symlink_to("of our own")
    DataBin(tmp_path)


def test_a_sentence_shows_what_would_steer_a_terminal_as_an_escape():
    def refuse():
        raise UserError("member \x1b[2J\r\n\x9b\u202e\udcff é is odd.")

    with pytest.raises(SystemExit) as ended:
        run(refuse)
    assert str(ended.value).endswith(r": member \x1b[2J\r\n\x9b\u202e\udcff é is odd.")


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(HOSTILE), st.text(max_size=20)
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*WHOLE, "x"]), inner, max_size=3),
    max_leaves=8,
)
models = st.lists(st.sampled_from(HOSTILE) | scalars, max_size=3)
changes = st.fixed_dictionaries({}, optional=dict.fromkeys(WHOLE, scalars | anything) | {"models": models | anything})


@settings(max_examples=150)
@given(changes, st.sets(st.sampled_from(list(WHOLE)), max_size=2))
def test_any_description_is_sound_or_refused(home, changed, missing):
    description = {name: value for name, value in (WHOLE | changed).items() if name not in missing}
    found = read(home, description)
    if isinstance(found, Preparation):
        assert_sound(found, home)
        if found.translates:
            assert DataBin(home).preparation.subword == found.subword
    else:
        assert_one_sentence(printable(found), home)


@settings(max_examples=150)
@given(st.binary(max_size=200) | anything.map(lambda value: json.dumps(value).encode()))
def test_any_file_is_read_or_refused(home, text):
    found = read(home, text)
    assert isinstance(found, str)
    assert_one_sentence(printable(found), home)
    (home / "preparation.json").write_text(json.dumps(WHOLE))
    (home / "manifest.json").write_bytes(text)
    try:
        assert "/" not in DataBin(home).name
    except UserError as error:
        assert_one_sentence(str(error), home)
    finally:
        (home / "manifest.json").unlink()


manifests = st.fixed_dictionaries(
    {}, optional={"settings": anything | st.fixed_dictionaries({"dataset": scalars}), "sources": anything}
)


@settings(max_examples=100)
@given(manifests)
def test_any_manifest_names_a_data_set_or_is_refused(home, manifest):
    (home / "preparation.json").write_text(json.dumps(WHOLE))
    (home / "manifest.json").write_text(json.dumps(manifest))
    try:
        data = DataBin(home)
        assert "/" not in data.name and data.name not in ("", ".", "..")
    except UserError as error:
        assert_one_sentence(str(error), home)
    finally:
        (home / "manifest.json").unlink()
