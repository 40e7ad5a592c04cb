"""A self-contained page of documents with human and predicted rationales."""

from collections.abc import Mapping, Sequence
from importlib.resources import files

import numpy as np

from ea_fairseq.data.documents import Document
from ea_fairseq.experiments.rationales.evaluation import METRICS, Explanation, Explanations, Predictions
from ea_fairseq.experiments.rationales.metrics import PERCENTS, erasures
from ea_fairseq.explorer.template import EXPLORER, filled

MOST_DOCUMENTS = 200  # with documents as long as those of Movies, 3 MB
TITLE = "Rationales"
HERE = files(__package__)


def rationales_page(
    documents: Sequence[Document], models: Mapping[str, tuple[Predictions, Mapping[str, Explanations]]]
) -> str:
    """The page.

    Args:
        documents: the first MOST_DOCUMENTS of them are shown.
        models: by name, predictions and each source's explanations; all models have the same sources.
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
    styles = [EXPLORER / "theme.css", HERE / "rationales.css"]
    return filled(HERE / "rationales.html", TITLE, styles, [HERE / "rationales.js"], data)


def record(found: Explanation) -> dict[str, object]:
    """The page's data of a document's explanation: its quality, and a digit for each word.

    The digit is the number of PERCENTS whose best words include the word.
    """
    levels = erasures(np.array(found.scores))[1].sum(axis=0)
    return {**{name: getattr(found, name) for name in METRICS}, "levels": marks(levels)}


def marks(numbers: np.ndarray) -> str:
    """A digit for each word."""
    return "".join(map(str, numbers.astype(int)))
