"""`ea-fairseq prepare rationales`: documents become windows of words, questions and their texts pairs."""

import gzip
import json
from pathlib import Path

import pytest
from fairseq.data import Dictionary
from fairseq.data.data_utils import load_indexed_dataset

from corpora import checksums, run_prepare
from ea_fairseq.data.documents import Document
from ea_fairseq.data.manifest import sha256
from ea_fairseq.data.sets.rationales import examples_of

REVIEWS = {"train": 7, "valid": 3, "test": 2}
WORDS = [f"w{number}" for number in range(23)]


def rows(split: str, question: bool = False) -> list[dict]:
    found = []
    for number in range(REVIEWS[split]):
        row = {"id": f"{split}-{number}", "label": ("NEG", "POS")[number % 2], "rationales": [[0, 1]]}
        size = 3 + 5 * number
        text = {"sentences": [" ".join(WORDS[:size])]}
        of_text = {"document": "t", "question": "who ?", "answer": "w1"}
        found.append(row | (of_text if question else text))
    return found


def write(folder: Path, splits=REVIEWS, question: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split in splits:
        with gzip.open(folder / f"{split}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows(split, question))
    (folder / "documents.jsonl").write_text(json.dumps({"id": "t", "sentences": ["w1 w2", "w3"]}))
    (folder / "test.jsonl~").write_text("what an editor leaves")
    return folder


def read(side: Path, split: str) -> list[str]:
    """The sentences of binarised data."""
    words = Dictionary.load(str(side / "dict.txt"))
    return [words.string(sentence) for sentence in load_indexed_dataset(str(side / split), words)]


def prepare(*arguments: object):
    return run_prepare("rationales", "--subword", "none", "--workers", "1", *arguments)


def test_windows_stand_side_by_side_and_have_the_label_of_their_document():
    document = Document("d", "POS", tuple(WORDS), ())
    found = list(examples_of(document, 10))
    assert {label for label, _ in found} == {"POS"}
    assert [len(text.split()) for _, text in found] == [10, 10, 3]
    assert " ".join(text for _, text in found).split() == WORDS
    asked = Document("d", "True", tuple(WORDS), (), "who ? ann")
    assert list(examples_of(asked, 10)) == [("True", "who ? ann", " ".join(WORDS))]


@pytest.mark.parametrize("question", [False, True], ids=["reviews", "questions"])
def test_the_data_is_what_the_documents_have(tmp_path, question):
    documents = write(tmp_path / "documents", question=question)
    result = prepare("--documents", documents, "--window-words", "10", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    data = tmp_path / "out/data-bin"
    for split in REVIEWS:
        lines = read(data / "input0", split)
        texts = [row.get("sentences", ["who ? w1"])[0].split() for row in rows(split, question)]
        windows = [text[start : start + 10] for text in texts for start in range(0, len(text), 10)]
        assert [line.split() for line in lines] == windows
        if question:
            assert read(data / "input1", split) == ["w1 w2 w3"] * REVIEWS[split]
    assert json.loads((data / "preparation.json").read_text())["classes"] == ["NEG", "POS"]
    sources = json.loads((data / "manifest.json").read_text())["sources"]
    files = [path for path in documents.iterdir() if not path.name.endswith("~")]
    assert {source["file"]: source["sha256"] for source in sources} == {path.name: sha256(path) for path in files}
    before = checksums(tmp_path / "out")
    again = prepare("--documents", documents, "--window-words", "10", tmp_path / "out")
    assert "data-bin: already made" in again.stdout
    assert checksums(tmp_path / "out") == before


def test_what_cannot_be_prepared_is_refused_in_a_sentence(tmp_path):
    def refusal(*arguments: object) -> str:
        result = prepare(*arguments, tmp_path / "out")
        assert result.returncode != 0 and result.stderr.count("\n") == 1
        return result.stderr

    assert "give --documents, the folder of train.jsonl and valid.jsonl" in refusal()
    assert "has neither valid.jsonl nor valid.jsonl.gz" in refusal("--documents", write(tmp_path / "a", ["train"]))
    write(tmp_path / "b", ["train"])
    write(tmp_path / "b", ["valid"], question=True)
    assert "document 'valid-0' of" in refusal("--documents", tmp_path / "b")
    row = rows("train")[0] | {"label": "very bad"}
    (tmp_path / "c").mkdir()
    for split in ("train", "valid"):
        (tmp_path / "c" / f"{split}.jsonl").write_text(json.dumps(row))
    assert "has no label of at most 100 characters without a space" in refusal("--documents", tmp_path / "c")
    assert not (tmp_path / "out/data-bin").exists()
