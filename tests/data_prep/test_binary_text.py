"""Text in numbers is byte for byte what fairseq-preprocess makes of it, and right where that is not."""

import struct
from pathlib import Path

import numpy as np
import pytest
from fairseq import tasks
from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
from fairseq.data.data_utils import load_indexed_dataset
from hypothesis import given
from hypothesis import strategies as st

from ea_fairseq.data import binary_text, parallel
from ea_fairseq.data.binary_text import HEADER, append_offsets, make_dictionary, write_token_ids
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import writing

words = st.one_of(st.text("abcä@", min_size=1, max_size=3), st.sampled_from(["<unk>", "</s>", "<pad>", "▁die", "😀"]))
texts = st.lists(st.lists(words, max_size=6).map(" ".join), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A function that makes a new folder at each call."""
    base, numbers = tmp_path_factory.mktemp("some folders"), iter(range(10**6))

    def make() -> Path:
        (folder := base / str(next(numbers))).mkdir()
        return folder

    return make


def write(path: Path, lines: list[str]) -> Path:
    with writing(path) as write_line:
        for line in lines:
            write_line(line)
    return path


def files(prefix: Path) -> tuple[bytes, bytes]:
    return tuple(Path(f"{prefix}.{suffix}").read_bytes() for suffix in ("bin", "idx"))


def by_fairseq(train: Path, text: Path, folder: Path) -> tuple[bytes, ...]:
    """The dictionary of `train`, and the numbers of `text`, as fairseq-preprocess makes them."""
    task = tasks.get_task("translation")
    dictionary = task.build_dictionary([str(train)], padding_factor=8)
    dictionary.save(str(folder / "dict.txt"))
    binarizer = VocabularyDatasetBinarizer(dictionary, append_eos=True)
    FileBinarizer.multiprocess_dataset(
        str(text), "mmap", binarizer, str(folder / "fairseq"), vocab_size=len(dictionary), num_workers=1
    )
    return (folder / "dict.txt").read_bytes(), *files(folder / "fairseq")


def by_us(train: Path, text: Path, lines: int, folder: Path, workers: int = 1) -> tuple[bytes, ...]:
    dictionary = make_dictionary([train], workers)
    dictionary.save(str(folder / "dict.txt"))
    write_token_ids(text, lines, dictionary, folder / "ours.xx", workers)
    return (folder / "dict.txt").read_bytes(), *files(folder / "ours.xx")


@given(texts, texts, st.booleans())
def test_files_are_those_of_fairseq(folders, train, lines, gzipped):
    folder = folders()
    plain = write(folder / "train.xx", train), write(folder / "text.xx", lines)
    expected = by_fairseq(*plain, folder)
    given_text = [
        write(path.with_name(f"{path.name}.gz"), text) for path, text in zip(plain, (train, lines), strict=True)
    ]
    assert by_us(*(given_text if gzipped else plain), len(lines), folder) == expected


def test_workers_and_the_size_of_chunks_change_nothing(tmp_path: Path, monkeypatch):
    lines = [f"{number % 17} {number % 5}" for number in range(200)]
    text = write(tmp_path / "text.xx", lines)
    expected = by_us(text, text, 200, tmp_path)
    monkeypatch.setattr(parallel, "CHUNK", 7)
    monkeypatch.setattr(binary_text, "AT_ONCE", 9)
    for workers in (1, 2):
        assert by_us(text, text, 200, tmp_path, workers) == expected


def test_many_types_of_words_need_larger_numbers(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(binary_text, "LIMIT", 10)
    text = write(tmp_path / "text.xx", [f"a{number}" for number in range(20)])
    by_us(text, text, 20, tmp_path)
    dataset = load_indexed_dataset(str(tmp_path / "ours.xx"))
    assert [dataset[number].tolist() for number in range(20)] == by_hand(text, make_dictionary([text], 1))


def by_hand(text: Path, dictionary) -> list[list[int]]:
    return [[dictionary.index(word) for word in line.split()] + [2] for line in text.read_text().splitlines()]


def test_sentences_start_right_beyond_what_32_bits_can_tell(tmp_path: Path):
    index, lengths = tmp_path / "long.idx", [2**30, 5, 2**30, 2**30, 7]
    index.write_bytes(bytes(HEADER.size) + struct.pack("<5i", *lengths))
    append_offsets(index, 5, 4)
    starts = np.frombuffer(index.read_bytes()[-5 * 8 :], np.int64)
    assert starts.tolist() == [4 * sum(lengths[:number]) for number in range(5)]


@pytest.mark.parametrize("lines", [1, 3])
def test_lost_lines_are_noticed(tmp_path: Path, lines):
    text = write(tmp_path / "text.xx", ["a b", "c"])
    with pytest.raises(UserError, match=f"does not have the {lines} lines"):
        by_us(text, text, lines, tmp_path)
