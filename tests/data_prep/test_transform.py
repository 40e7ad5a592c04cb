"""Sentence pairs from text folder to text folder: order, pairs and counts hold, whatever the workers and the form."""

import gzip
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq.data import transform as transforming
from ea_fairseq.data.subword_models import make_segmenters
from ea_fairseq.data.text_folder import History, TextFolder, encode_lines, writing_sides
from ea_fairseq.data.tokenization import Tokenization, make_tokenizers
from ea_fairseq.data.transform import EveryNth, PairFilter, Sample, copied, tagged, transform
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import tidy
from ea_fairseq.text.tags import TAGS

LANGUAGES = ("xx", "yy")
TAGGED = (*LANGUAGES, TAGS)

words = st.text("abcäß&-", min_size=1, max_size=4)
lines = st.lists(words, max_size=6).map(" ".join)
corpora = st.lists(st.tuples(lines, lines), max_size=30)


def write_folder(
    path: Path, pairs: list[tuple[str, ...]], compress: bool = False, sides: tuple[str, ...] = LANGUAGES
) -> TextFolder:
    folder = TextFolder(path, sides)
    with writing_sides(folder, compress) as write:
        write(*(encode_lines([pair[side] for pair in pairs], compress) for side in range(len(sides))))
    History([{"file": path.name}]).then("read", len(pairs), Counter(), len(pairs)).write(path)
    return folder


def read_folder(folder: TextFolder) -> list[tuple[str, ...]]:
    return [tuple(line.decode().removesuffix("\n") for line in pair) for pair in folder.pairs()]


def shout(source: list[str], target: list[str]) -> tuple[list[str], list[str], Counter]:
    """Keeps the pairs of a source that is not empty, with the source in upper case."""
    kept = [(a.upper(), b) for a, b in zip(source, target, strict=True) if a]
    return [a for a, _ in kept], [b for _, b in kept], Counter({"empty": len(source) - len(kept)})


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A function that gives a new path at each call."""
    base, numbers = tmp_path_factory.mktemp("some folders"), iter(range(10**6))
    return lambda: base / str(next(numbers))


@given(st.lists(corpora, min_size=1, max_size=3), st.booleans(), st.booleans())
def test_each_output_pair_is_one_input_pair_in_order_and_counts_add_up(folders, parts, gzipped, compress):
    inputs = [write_folder(folders(), part, gzipped) for part in parts]
    output = TextFolder(folders(), LANGUAGES)
    history = transform("shout", shout, inputs=inputs, output=output.path, compress=compress)
    pairs = [pair for part in parts for pair in part]
    assert read_folder(output) == [(source.upper(), target) for source, target in pairs if source]
    assert output.history == history
    *before, last = history.steps
    assert last["read"] == len(pairs) == sum(step["kept"] for step in before)
    assert last["read"] == last["kept"] + sum(last["dropped"].values())
    for side, language in enumerate(LANGUAGES):
        assert last["tokens"][language] == sum(len(pair[side].split()) for pair in read_folder(output))
    assert len(history.sources) == len(parts)


@settings(max_examples=50)
@given(corpora, st.integers(1, 30), st.integers(0, 5))
def test_a_chain_of_steps_keeps_pairs_and_their_tags_together_in_order(folders, parts, size, seed):
    """Each pair carries its number on both sides, as one character, and no step may part, mix up or invent any; every
    third pair has no tag, and the others have that number, too."""
    pairs = [(f"{chr(0x4E00 + n)} {source}", f"{chr(0x4E00 + n)} {target}") for n, (source, target) in enumerate(parts)]
    codes = folders().with_suffix(".codes")
    codes.write_text("#version: 0.2\na b\nab c</w>\n", encoding="utf-8")
    steps = [
        ("tokenize", make_tokenizers(Tokenization("none"), LANGUAGES), Sample(size, seed)),
        ("clean", PairFilter(5, 1.5), None),
        ("split", copied, EveryNth(3, others=True)),
        ("subword", make_segmenters("bpe", [codes], 2), None),
    ]
    tags = ["" if number % 3 == 0 else str(number) for number in range(len(pairs))]
    lines = [(*pair, tag) for pair, tag in zip(pairs, tags, strict=True)]
    folder = write_folder(folders(), lines, sides=TAGGED)
    for step, function, selection in steps:
        output = TextFolder(folders(), TAGGED)
        transform(step, function, inputs=[folder], output=output.path, selection=selection)
        folder = output
    *texts, found = zip(*read_folder(folder), strict=True) if folder.history.kept else ((), (), ())
    assert list(found) == [tags[ord(line[0]) - 0x4E00] for line in texts[0]]
    source, *_ = tagged(*texts, found)
    assert source == [f"<{tag}> {line}" if tag else line for tag, line in zip(found, texts[0], strict=True)]
    folder = TextFolder(folder.path, LANGUAGES)
    numbers = [[ord(line[0]) - 0x4E00 for line in pair] for pair in read_folder(folder)]
    assert [source for source, _ in numbers] == [target for _, target in numbers] == sorted({n for n, _ in numbers})
    for (number, _), texts in zip(numbers, read_folder(folder), strict=True):
        assert tuple(text.replace("@@ ", "") for text in texts) == tuple(" ".join(t.split()) for t in pairs[number])
    history = folder.history.steps
    assert [step["read"] for step in history[1:]] == [step["kept"] for step in history[:-1]]
    assert all(step["read"] == step["kept"] + sum(step["dropped"].values()) for step in history)


def test_workers_and_compression_do_not_change_the_text(folders):
    pairs = [(f"{number} a", f"b {number}") for number in range(3 * transforming.CHUNK + 7)]
    folder = write_folder(folders(), pairs)
    texts = []
    for workers, compress in ((1, False), (3, False), (1, True), (3, True)):
        output = TextFolder(folders(), LANGUAGES)
        transform("shout", shout, inputs=[folder], output=output.path, workers=workers, compress=compress)
        assert read_folder(output) == [(source.upper(), target) for source, target in pairs]
        texts.append([output.file(language).read_bytes() for language in LANGUAGES])
        assert all(output.file(language).suffix == (".gz" if compress else f".{language}") for language in LANGUAGES)
    assert texts[0] == texts[1] and texts[2] == texts[3]
    assert [gzip.decompress(text) for text in texts[2]] == texts[0]


def test_text_of_users_may_have_a_mark_and_lack_a_last_line_feed(folders):
    path = folders()
    path.mkdir()
    (path / "text.xx").write_bytes(b"\xef\xbb\xbfeins\r\nzwei")
    (path / "text.yy").write_bytes("one\u2028and\x0ca\x85half\ntwo\n".encode())
    History().then("read", 2, Counter(), 2).write(path)
    folder, output = TextFolder(path, LANGUAGES), TextFolder(folders(), LANGUAGES)
    transform("shout", shout, inputs=[folder, folder], output=output.path)
    assert read_folder(output) == [("EINS", "one and a half"), ("ZWEI", "two")] * 2


def test_unequal_sides_are_refused(folders):
    folder = write_folder(folders(), [("a", "b")] * 3)
    with folder.file("yy").open("a") as file:
        file.write("c\n")
    with pytest.raises(UserError, match="differ in length"):
        transform("shout", shout, inputs=[folder], output=folders())


@given(corpora, st.integers(1, 40), st.integers(0, 10))
def test_a_sample_is_of_its_size_in_order_and_repeatable(folders, pairs, size, seed):
    numbered = [(f"{number}", target) for number, (_, target) in enumerate(pairs)]
    folder = write_folder(folders(), numbered)
    drawn = []
    for _ in range(2):
        output = TextFolder(folders(), LANGUAGES)
        sample = Sample(size, seed)
        history = transform("shout", shout, inputs=[folder], output=output.path, workers=1, selection=sample)
        drawn.append(read_folder(output))
    assert drawn[0] == drawn[1]
    remaining = iter(numbered)
    assert all(pair in remaining for pair in drawn[0])
    assert len(drawn[0]) == min(size, len(pairs)) == history.kept
    assert history.steps[-1]["dropped"]["not sampled"] == len(pairs) - len(drawn[0])


def test_every_pair_is_as_likely_to_be_sampled():
    times = Counter(number for seed in range(3000) for number in Sample(3, seed).of(iter(range(10)), 10))
    assert all(800 < times[number] < 1000 for number in range(10))
    assert set(Sample(3, 1).of(iter(range(10)), 10)) != set(Sample(3, 2).of(iter(range(10)), 10))


@given(st.integers(0, 100), st.integers(1, 30))
def test_every_nth_pair_and_the_others_are_all_pairs(total, n):
    chosen = list(EveryNth(n).of(iter(range(1, total + 1)), total))
    others = list(EveryNth(n, others=True).of(iter(range(1, total + 1)), total))
    assert chosen == list(range(n, total + 1, n))
    assert sorted(chosen + others) == list(range(1, total + 1))


@given(st.text())
def test_tidying_twice_is_tidying_once(text):
    assert tidy(tidy(text)) == tidy(text)
    assert len(tidy(text).splitlines()) <= 1
