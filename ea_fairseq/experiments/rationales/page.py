"""A page of documents with human and predicted rationales, which needs nothing beside itself and loads nothing."""

import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files

import numpy as np

from ea_fairseq.data.documents import Document
from ea_fairseq.experiments.page import THEME
from ea_fairseq.experiments.rationales.evaluation import METRICS, Explanation, Explanations, Predictions
from ea_fairseq.experiments.rationales.metrics import PERCENTS, erasures

MOST_DOCUMENTS = 200  # of Movies' length they have 3 MB
TITLE = "Rationales"


def rationales_page(
    documents: Sequence[Document], models: Mapping[str, tuple[Predictions, Mapping[str, Explanations]]]
) -> str:
    """The page.

    Args:
        documents: of which the first MOST_DOCUMENTS are shown.
        models: by name, predictions and what each source says of the documents; the same sources for all.
    """
    shown = documents[:MOST_DOCUMENTS]
    data = {
        "percents": PERCENTS,
        "documents": [
            {
                "name": one.name,
                "label": one.label,
                "question": one.question,
                "words": one.words,
                "gold": marks(one.gold),
            }
            for one in shown
        ],
        "models": [
            {
                "name": name,
                "predictions": predictions.documents[: len(shown)],
                "sources": {source: list(map(record, found.documents[: len(shown)])) for source, found in said.items()},
            }
            for name, (predictions, said) in models.items()
        ],
    }
    parts = {
        "title": html.escape(TITLE),
        "style": THEME.read_text(encoding="utf-8") + asset("rationales.css"),
        "script": asset("rationales.js"),
        "data": json.dumps(data).replace("<", "\\u003c"),  # so that no word ends the script
    }
    before, *rest = asset("rationales.html").split("{{")
    return before + "".join(parts[name] + after for name, after in (part.split("}}", 1) for part in rest))


def record(found: Explanation) -> dict[str, object]:
    """What the page has of a document's explanation: its quality, and a digit for each word.

    The digit is the number of PERCENTS whose best words include the word.
    """
    levels = erasures(np.array(found.scores))[1].sum(axis=0)
    return {**{name: getattr(found, name) for name in METRICS}, "levels": marks(levels)}


def marks(numbers: np.ndarray) -> str:
    """A digit for each word."""
    return "".join(map(str, numbers.astype(int)))


def asset(name: str) -> str:
    """The text of a file beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
