"""sacreBLEU's paired bootstrap test: whether models differ by more than the choice of the test sentences explains."""

import logging
import os
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics import BLEU
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.base import Score as SacreBLEUScore
from sacrebleu.significance import PairedTest

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.scoring import comet
from ea_fairseq.experiments.scoring.results import COUNTS, TOKENIZED, Results
from ea_fairseq.experiments.scoring.scores import METRICS, hidden, multi_bleu, sentence_counts, split_compounds

RESAMPLES, SEED = 1000, 12345  # sacreBLEU's own
ALTERED = 0.005 + 1e-6  # results.json has rounded scores


def p_value(baseline: Results, model: Results, score: str) -> float:
    """Returns the p-value of the difference between two models' scores, by paired bootstrap.

    Raises:
        UserError: if both translations and their counts are missing, or do not have the score that results.json
            says.
    """
    counts = [counts_of(results, score) for results in (baseline, model)]
    if len(counts[0]) != len(counts[1]):
        raise UserError(f"{model.folder} and {baseline.folder} have texts of different length: evaluate both again.")
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    os.environ["SACREBLEU_SEED"] = str(SEED)  # sacreBLEU has no argument for it
    metric = metric_of(score)
    metric.num_refs = 1
    metric._extract_corpus_statistics = lambda counts, _: counts  # given instead of translations
    systems = list(zip(("baseline", "model"), counts, strict=True))
    test = PairedTest(systems, {"score": metric}, None, test_type="bs", n_samples=RESAMPLES)
    (recounts,) = (found for name, found in test()[1].items() if name != "System")
    for results, recounted in zip((baseline, model), recounts, strict=True):
        if abs(results.scores[score].score - recounted.score) > ALTERED:
            raise UserError(
                f"the translations in {results.folder} score {recounted.score:.2f}, and results.json says "
                f"{results.scores[score].score:.2f} {score}: evaluate the model again."
            )
    equal = recounts[0].score == recounts[1].score  # sacreBLEU calls a difference of 0 in all resamples significant
    return 1.0 if equal else recounts[1].p_value


def counts_of(results: Results, score: str) -> list[list[Any]]:
    """Returns the counts of a score for each sentence, from the texts or, for tokenized BLEU and COMET, as stored."""
    if score == comet.NAME:
        return comet.CometScores.read(results.folder).counts
    if score == "tokenized BLEU" and results.has(COUNTS) and not all(map(results.has, TOKENIZED)):
        return results.counts()
    translations, references = texts_of(results, score)
    if len(translations) != len(references):
        raise UserError(f"{results.folder} has texts of different length: evaluate the model again.")
    return sentence_counts(metric_of(score), translations, references)


class SentenceMean(BLEU):
    """The mean score of sentences as a metric of sacreBLEU, whose counts are a score and 1 for each sentence."""

    def _compute_score_from_stats(self, stats: Sequence[float]) -> SacreBLEUScore:
        total, sentences = stats
        return SacreBLEUScore(comet.NAME, total / sentences)


def texts_of(results: Results, score: str) -> tuple[list[str], list[str]]:
    """Returns translations and references in the form that the score needs."""
    if score in METRICS:
        return results.raw()
    translations, references = results.tokens()
    if score == "compound-split BLEU":
        translations, references = split_compounds(translations), split_compounds(references)
    return hidden(translations), hidden(references)


def metric_of(score: str) -> Metric:
    """Returns sacreBLEU's metric for the name of a score."""
    if score == comet.NAME:
        return SentenceMean()
    return METRICS[score]() if score in METRICS else multi_bleu()
