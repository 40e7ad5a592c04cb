"""Cleaning keeps the pairs that Moses' clean-corpus-n keeps."""

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq.data.transform import REASONS, PairFilter
from ea_fairseq.plain.text_lines import tidy
from needs import MOSES, needs_moses

words = st.sampled_from(
    ["a", "&quot;", "\u00e9\u00e9", "\U0001f600", "\u6f22", "x" * 1000, "\u00e9" * 1000, "y" * 1001]
)
spaces = st.sampled_from([" ", "  ", "\xa0", "\u2003"])
sides = st.lists(words, max_size=24).flatmap(lambda side: spaces.map(lambda space: tidy(space.join(side))))


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("", "a", "empty"),
        ("a " * 21, "a " * 21, "too_long"),
        ("a a a", "a a a a a", "ratio"),
        ("a a", "a a a", None),
        ("a", "x" * 1000, None),
        ("x" * 1001, "a", "long_word"),
        ("a", "\u00e9" * 1001, "long_word"),
        ("", "x" * 1001, "empty"),
        ("a", "a " + "x" * 1001, "ratio"),
    ],
)
def test_first_reason_to_drop_a_pair(source: str, target: str, reason: str | None):
    assert PairFilter(20, 1.5).reason_to_drop(source, target) == reason


def test_ratio_is_exact():
    for short in range(1, 90):
        for hundredths in range(100, 300, 5):
            if short * hundredths % 100 == 0:
                pair = "a " * short, "a " * (short * hundredths // 100)
                assert PairFilter(1000, hundredths / 100).reason_to_drop(*pair) is None
                assert PairFilter(1000, hundredths / 100).reason_to_drop(pair[0], pair[1] + "a") == "ratio"


@needs_moses
@settings(max_examples=30)
@given(
    st.lists(st.tuples(sides, sides), min_size=1),
    st.integers(1, 20),
    st.one_of(st.sampled_from([1.0, 1.15, 1.4, 1.5, 9.0]), st.floats(1, 4)),
)
def test_same_pairs_as_clean_corpus_n(pairs: list[tuple[str, str]], max_length: int, ratio: float):
    with TemporaryDirectory() as name:
        folder = Path(name)
        for language, side in zip("xy", zip(*pairs, strict=True), strict=True):
            (folder / f"text.{language}").write_bytes("".join(line + "\n" for line in side).encode())
        script = Path(MOSES) / "scripts/training/clean-corpus-n.perl"
        arguments = ["-ratio", repr(ratio), folder / "text", "x", "y", folder / "clean", "1", str(max_length)]
        subprocess.run(["perl", script, *arguments], check=True, stderr=subprocess.DEVNULL)
        kept = [(folder / f"clean.{language}").read_bytes().decode().split("\n")[:-1] for language in "xy"]
    *ours, _ = PairFilter(max_length, ratio)(*map(list, zip(*pairs, strict=True)))
    assert [[" ".join(line.split()) for line in side] for side in ours] == kept


texts = st.lists(st.sampled_from(["a", "bc", "d."]), max_size=12).map(" ".join)


@given(st.lists(st.tuples(texts, texts)), st.integers(1, 10), st.floats(1, 4))
def test_cleaning_keeps_pairs_in_order_and_counts_add_up(pairs, max_length: int, ratio: float):
    pair_filter = PairFilter(max_length, ratio)
    source, target, dropped = pair_filter([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    kept = list(zip(source, target, strict=True))
    remaining = iter(pairs)
    assert all(pair in remaining for pair in kept)
    for pair in kept:
        lengths = [len(side.split()) for side in pair]
        assert 1 <= min(lengths) <= max(lengths) <= max_length
        assert max(lengths) / min(lengths) <= ratio
    assert len(pairs) == len(kept) + dropped.total()
    assert tuple(dropped) == REASONS
    assert pair_filter(source, target)[:2] == (source, target)
