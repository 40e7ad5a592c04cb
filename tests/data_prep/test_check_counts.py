"""Other counts than those of the full data are an error, or noted."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ea_fairseq.data.manifest import check_counts
from ea_fairseq.errors import UserError

CLEAN = {"step": "clean", "read": 90, "dropped": {"empty": 4, "ratio": 6}, "kept": 80}
MANIFEST = {
    "splits": {
        "train": {"pairs": 80, "steps": [{"step": "tokenize", "read": 90, "dropped": {}, "kept": 90}, CLEAN]},
        "valid": {"pairs": 7, "steps": []},
        "test": {"pairs": 8, "steps": []},
    },
    "dictionary_sizes": {"de": 40, "en": 30},
}
RIGHT = {"train": 80, "valid": 7, "test": 8, "dict.de": 40, "dict.en": 30, "with_text": 86}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "some data"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps(MANIFEST))
    return folder


@pytest.fixture
def note(data: Path, capsys) -> Callable[..., str]:
    """A function that compares counts, and returns what it notes."""

    def note(known: dict[str, int], others: dict[str, int] | None = None, strict: bool = False) -> str:
        check_counts(data, known, others or {}, strict)
        written = capsys.readouterr()
        assert not written.out
        return written.err

    return note


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("known", [RIGHT, {"train": 80}, {}])
def test_right_counts_are_passed_over_in_silence(note, known: dict[str, int], strict: bool):
    assert note(known, strict=strict) == ""


@pytest.mark.parametrize("name", RIGHT)
def test_every_other_count_is_named(note, data: Path, name: str):
    known = RIGHT | {name: RIGHT[name] + 1}
    differs = f"{name} {RIGHT[name]} instead of {known[name]}"
    noted = note(known)
    assert noted.startswith("note: ") and noted.endswith(f" differ: {differs}.\n")
    with pytest.raises(UserError, match=f"{data}: {differs}.$"):
        note(known, strict=True)


def test_counts_of_others_are_noted_at_most(note):
    assert note({"train": 80}, {"with_text": 86}, strict=True) == ""
    noted = note({"train": 80}, {"with_text": 87}, strict=True)
    assert noted.startswith("note: ") and noted.endswith(" differ: with_text 86 instead of 87.\n")
