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
ALTERED = 0.005 + 1e-6  # results.json has scores as they are printed


def p_value(baseline: Results, model: Results, score: str) -> float:
    """The probability that the difference of two models' scores is chance, by paired bootstrap.

    Raises:
        UserError: where neither translations nor their counts are there, or are not those that results.json has the
            score of.
    """
    counts = [counts_of(results, score) for results in (baseline, model)]
    if len(counts[0]) != len(counts[1]):
        raise UserError(f"{model.folder} and {baseline.folder} have texts of different length: evaluate both again.")
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    os.environ["SACREBLEU_SEED"] = str(SEED)  # the only way to tell sacreBLEU
    metric = metric_of(score)
    metric.num_refs = 1
    metric._extract_corpus_statistics = lambda counts, _: counts  # which stand in the place of translations
    systems = list(zip(("baseline", "model"), counts, strict=True))
    test = PairedTest(systems, {"score": metric}, None, test_type="bs", n_samples=RESAMPLES)
    (recounts,) = (found for name, found in test()[1].items() if name != "System")
    for results, recounted in zip((baseline, model), recounts, strict=True):
        if abs(results.scores[score].score - recounted.score) > ALTERED:
            raise UserError(
                f"the translations in {results.folder} score {recounted.score:.2f}, and results.json says "
                f"{results.scores[score].score:.2f} {score}: evaluate the model again."
            )
    equal = recounts[0].score == recounts[1].score  # sacreBLEU finds a difference of zero in all resamples significant
    return 1.0 if equal else recounts[1].p_value


def counts_of(results: Results, score: str) -> list[list[Any]]:
    """What the score counts of each sentence, from the texts or, of tokenized BLEU and COMET, as it was counted."""
    if score == comet.NAME:
        return comet.CometScores.read(results.folder).counts
    if score == "tokenized BLEU" and results.has(COUNTS) and not all(map(results.has, TOKENIZED)):
        return results.counts()
    translations, references = texts_of(results, score)
    if len(translations) != len(references):
        raise UserError(f"{results.folder} has texts of different length: evaluate the model again.")
    return sentence_counts(metric_of(score), translations, references)


class SentenceMean(BLEU):
    """The mean of the scores of sentences, as a metric of sacreBLEU, which counts a score and 1 of each sentence."""

    def _compute_score_from_stats(self, stats: Sequence[float]) -> SacreBLEUScore:
        total, sentences = stats
        return SacreBLEUScore(comet.NAME, total / sentences)


def texts_of(results: Results, score: str) -> tuple[list[str], list[str]]:
    """Translations and references as the score counts them."""
    if score in METRICS:
        return results.raw()
    translations, references = results.tokens()
    if score == "compound-split BLEU":
        translations, references = split_compounds(translations), split_compounds(references)
    return hidden(translations), hidden(references)


def metric_of(score: str) -> Metric:
    """sacreBLEU's metric for the name of a score."""
    if score == comet.NAME:
        return SentenceMean()
    return METRICS[score]() if score in METRICS else multi_bleu()
