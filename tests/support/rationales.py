"""Untrained classifiers and documents for tests of rationales."""

import json
from pathlib import Path

import numpy as np

from ea_fairseq import EARobertaModel
from ea_fairseq.data.documents import Document
from untrained_encoders import save_encoder, write_sentences

POSITIONS = 24  # of the models
POOLED = ["--classification-head", "pooled", "--freeze-encoder"]


def save_classifier(folder: Path, arch: str = "ea_roberta_tiny", *flags: str, seed: int = 1, **options) -> Path:
    """Saves a model and what it needs of its data into a folder, which it returns."""
    write_sentences(folder, **options)
    save_encoder(folder, folder / "checkpoint_last.pt", "sentence_prediction", *flags, arch=arch, seed=seed)
    return folder


def load_classifier(folder: Path):
    return EARobertaModel.from_pretrained(folder)


def drawn_document(words: int, seed: int = 1, question: str = "") -> Document:
    draw = np.random.default_rng(seed)
    spans = ((0, 1), (words // 2, words // 2 + max(words // 4, 1)))
    return Document(f"d{seed}", str(seed % 2), tuple(f"w{n}" for n in draw.integers(0, 40, words)), spans, question)


def write_documents(path: Path, documents: list[Document]) -> Path:
    rows = [
        {"id": one.name, "label": one.label, "sentences": [" ".join(one.words)], "rationales": one.spans}
        for one in documents
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path
