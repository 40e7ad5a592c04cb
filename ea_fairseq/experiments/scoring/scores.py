"""Scores of translations by sacreBLEU; there are several kinds of BLEU, so each score has its definition."""

import math
import re
from functools import reduce
from operator import add
from typing import Any

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEUScore

from ea_fairseq.experiments.scoring.results import Score

Lines = list[str]

DEFINITIONS = {
    "tokenized BLEU": "computed on the data's own tokens after joining subwords, as by Moses' multi-bleu.perl",
    "compound-split BLEU": "the same with words split at hyphens, as in fairseq's compound_split_bleu.sh",
    "BLEU": "of raw text, by sacreBLEU",
    "chrF": "of raw text, by sacreBLEU",
    "TER": "of raw text, by sacreBLEU; lower is better",
    "COMET": "of raw text, by comet-score, times 100",
}
METRICS = {"BLEU": BLEU, "chrF": CHRF, "TER": TER}  # of raw text
HYPHEN = re.compile(rb"(\S)-(\S)")


def all_scores(tokens: tuple[Lines, Lines], raw: tuple[Lines, Lines], compounds: bool = False) -> dict[str, Score]:
    """Returns the scores of DEFINITIONS except COMET, in their order, of translations and references, line by line.

    Args:
        tokens: both tokenized, subwords joined.
        raw: both detokenized.
        compounds: whether to add compound-split BLEU.
    """
    scores = {"tokenized BLEU": tokenized_bleu(*tokens)}
    if compounds:
        scores["compound-split BLEU"] = tokenized_bleu(*map(split_compounds, tokens))
    return scores | {name: raw_score(name, *raw) for name in METRICS}


def raw_score(name: str, translations: Lines, references: Lines) -> Score:
    """Computes a score of METRICS on raw text."""
    metric = METRICS[name]()
    found = metric.corpus_score(translations, [references])
    return Score(float(found.format(score_only=True)), found.format(), str(metric.get_signature()))


def tokenized_bleu(translations: Lines, references: Lines) -> Score:
    """Computes BLEU of tokenized text; its detail is the line that multi-bleu.perl prints."""
    bleu = multi_bleu()
    found = bleu.corpus_score(hidden(translations), [hidden(references)])
    detail = multi_bleu_line(found)
    return Score(float(detail.split()[2].rstrip(",")), detail, str(bleu.get_signature()))


def multi_bleu() -> BLEU:
    """Returns the metric for BLEU as multi-bleu.perl computes it, on ``hidden`` tokens."""
    return BLEU(tokenize="none", smooth_method="none", force=True)


def sentence_counts(metric: Metric, translations: Lines, references: Lines) -> list[list[Any]]:
    """Returns the counts of each sentence that a metric adds up for its score.

    For BLEU: words of translation and reference, matching n-grams and all n-grams, for n from 1 to 4.
    """
    return metric._extract_corpus_statistics(translations, [references])  # sacreBLEU has no public name for this


def hidden(lines: Lines) -> Lines:
    """Replaces each token, as separated by ASCII spaces, by hexadecimal digits.

    sacreBLEU would also split lines at Unicode spaces, at which multi-bleu.perl does not.
    """
    return [" ".join(token.hex() for token in line.encode().split()) for line in lines]


def multi_bleu_line(bleu: BLEUScore) -> str:
    """Returns the line that multi-bleu.perl prints for these counts, computed in its order for the same rounding.

    The script fails if the translations are empty and the references are not; here their BLEU is zero.
    """
    if bleu.ref_len == 0:
        return "BLEU = 0, 0/0/0/0 (BP=0, ratio=0, hyp_len=0, ref_len=0)"
    pairs = zip(bleu.counts, bleu.totals, strict=True)
    precisions = [correct / total if total else 0.0 for correct, total in pairs]
    mean = math.exp(reduce(add, map(math.log, precisions)) / 4) if all(precisions) else 0.0
    parts = "/".join(f"{100 * precision:.1f}" for precision in precisions)
    lengths = f"ratio={bleu.sys_len / bleu.ref_len:.3f}, hyp_len={bleu.sys_len}, ref_len={bleu.ref_len}"
    return f"BLEU = {100 * (bleu.bp * mean):.2f}, {parts} (BP={bleu.bp:.3f}, {lengths})"


def split_compounds(lines: Lines) -> Lines:
    """Makes each hyphen within a word of tokenized lines a token of its own, ``##AT##-##AT##``."""
    return [HYPHEN.sub(rb"\1 ##AT##-##AT## \2", line.encode()).decode() for line in lines]
