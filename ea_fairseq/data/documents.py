"""Documents with human rationales: one JSON object per line, plain or gzipped, as in ERASER's Movies and MultiRC."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from ea_fairseq.errors import UserError
from ea_fairseq.plain.records import as_record
from ea_fairseq.plain.text_lines import checked_lines, find_file

TEXTS = "documents.jsonl"  # next to a file whose rows name their documents; plain or gzipped


@dataclass(frozen=True)
class Document:
    """A document and the words that people marked as the reason for its label.

    Args:
        name: its name in the data.
        words: the n words of the text.
        spans: spans of the rationales, ``[start, end)`` in words.
        question: a question about the text, with an answer; empty if the text alone is classified.
    """

    name: str
    label: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    question: str = ""

    @cached_property
    def gold(self) -> np.ndarray:
        """Whether each word is in a rationale, (n,), bool."""
        inside = np.zeros(len(self.words), bool)
        for start, end in self.spans:
            inside[start:end] = True
        return inside


@dataclass(frozen=True)
class Text:
    """A line of ``documents.jsonl``: the sentences of a text, their words separated by spaces."""

    id: str
    sentences: list[str]


@dataclass(frozen=True)
class Row:
    """A line of the data: a labelled document, or a question about one of ``documents.jsonl``."""

    id: str
    label: str
    rationales: list[list[int]]
    sentences: list[str] = field(default_factory=list)
    document: str = ""
    question: str = ""
    answer: str = ""


def read_documents(path: Path) -> list[Document]:
    """Reads the documents of a file, in its order.

    Raises:
        UserError: naming the file and the line that is wrong.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}: give documents with rationales, one JSON object per line.")
    documents: list[Document] = []
    texts: dict[str, tuple[str, ...]] | None = None
    for number, found in objects(path):
        try:
            row = as_record(Row, found)
            if row.document and texts is None:
                texts = read_texts(find_file(path.parent, TEXTS))
            documents.append(document_of(row, texts or {}))
        except UserError:
            raise
        except ValueError as error:
            raise UserError(f"line {number} of {path} is no document with rationales: {error}.") from None
    if not documents:
        raise UserError(f"{path} is empty: give documents with rationales, one JSON object per line.")
    return documents


def read_texts(path: Path) -> dict[str, tuple[str, ...]]:
    """Reads the words of each text of ``documents.jsonl``, by its name.

    Raises:
        UserError: naming the file and the line that is wrong.
    """
    texts = {}
    for number, found in objects(path):
        try:
            text = as_record(Text, found)
            texts[text.id] = words_of(text.sentences)
        except ValueError as error:
            raise UserError(f"line {number} of {path} is no text: {error}.") from None
    return texts


def objects(path: Path) -> Iterator[tuple[int, object]]:
    """Yields the number and JSON value of each line.

    Raises:
        UserError: naming the line that is not JSON.
    """
    for number, line in checked_lines(path):
        try:
            found = json.loads(line)
            json.dumps(found, ensure_ascii=False).encode()  # refuses a lone surrogate
        except (ValueError, RecursionError):
            raise UserError(f"line {number} of {path} is not a JSON object in UTF-8: mend or remove it.") from None
        yield number, found


def document_of(row: Row, texts: dict[str, tuple[str, ...]]) -> Document:
    """Builds a checked document; raises ValueError saying what is wrong with its row."""
    if row.document and row.document not in texts:
        raise ValueError(f"{TEXTS} has no text '{row.document}'")
    words = texts[row.document] if row.document else words_of(row.sentences)
    spans = []
    for span in row.rationales:
        if len(span) != 2 or not 0 <= span[0] < span[1] <= len(words):
            raise ValueError(f"its rationale {span} is no span [start, end) of its {len(words)} words")
        spans.append((span[0], span[1]))
    question = " ".join(filter(None, (row.question, row.answer)))
    return Document(row.id, row.label, words, tuple(spans), question)


def words_of(sentences: list[str]) -> tuple[str, ...]:
    """The words of sentences; raises ValueError if there are none."""
    words = tuple(" ".join(sentences).split())
    if not words:
        raise ValueError("it has no words")
    return words
