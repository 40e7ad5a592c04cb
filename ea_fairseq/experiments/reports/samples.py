"""Sample translations by each model of the same sentences of a test set."""

import html
from collections.abc import Iterator, Mapping, Sequence

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.reports.comparison import Comparison
from ea_fairseq.experiments.scoring.results import AGAIN, REFERENCE, SOURCE, TRANSLATION, Results, lines_of

SHOWN = 5  # of a data set
NOTE = "Sentences spread evenly over the test set; of each model, the training with the lowest seed."


def spread(texts: Mapping[str, Sequence[str]], most: int) -> list[dict[str, str]]:
    """Lines of texts by their labels, of up to ``most`` sentences that are spread evenly over the texts."""
    sentences = [dict(zip(texts, lines, strict=True)) for lines in zip(*texts.values(), strict=True)]
    return sentences[:: max(1, len(sentences) // most)][:most]


def samples_html(comparison: Comparison) -> str:
    """Samples of all data sets as HTML; empty if there are no translations next to the results.

    Raises:
        UserError: if the texts of a data set differ in their number of lines.
    """
    blocks = [block for dataset in comparison.datasets for block in samples_of(comparison, dataset)]
    return "\n".join(["<h2>Sample translations</h2>", f"<p class=note>{NOTE}</p>", *blocks]) if blocks else ""


def samples_of(comparison: Comparison, dataset: str) -> Iterator[str]:
    """The name of a data set and its samples as HTML; nothing if there are no translations."""
    results = [next(iter(comparison.results(model, dataset).values()), None) for model in comparison.models]
    translated = [result for result in results if result is not None and result.has(TRANSLATION)]
    if not translated:
        return
    yield f"<h3>{html.escape(dataset)}</h3>"
    for sample in spread(texts_of(translated), SHOWN):
        rows = (f"<dt>{html.escape(label)}</dt><dd dir=auto>{html.escape(line)}</dd>" for label, line in sample.items())
        yield f"<dl class=sample>{''.join(rows)}</dl>"


def texts_of(results: list[Results]) -> dict[str, list[str]]:
    """Sources, if an evaluation has written them, references and translations, by their labels."""
    folder = results[0].folder
    with_source = next((result for result in results if result.has(SOURCE)), None)
    texts = {} if with_source is None else {"source": lines_of(with_source.folder, SOURCE)}
    texts["reference"] = lines_of(folder, REFERENCE)
    texts |= {result.model: lines_of(result.folder, TRANSLATION) for result in results}
    if len({*map(len, texts.values())}) > 1:
        raise UserError(f"the texts next to {folder} and the other results differ in their number of lines: {AGAIN}.")
    return texts
