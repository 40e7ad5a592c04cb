"""The tables of a report: those of translations, or those of encoders."""

from collections.abc import Sequence

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.reports.comparison import Comparison
from ea_fairseq.experiments.reports.comparison_table import comparison_table
from ea_fairseq.experiments.reports.relative_speed import RelativeSpeed
from ea_fairseq.experiments.reports.task_table import difference_table, task_table
from ea_fairseq.experiments.scoring.results import Results
from ea_fairseq.experiments.tables import Table

OF_TRANSLATIONS = "tokenized BLEU"


def compare(results: Sequence[Results], score: str | None = None, baseline: str | None = None) -> Comparison:
    """Results side by side.

    Args:
        score: that counts; by default, tokenized BLEU, and of encoders the first of each data set.

    Raises:
        UserError: where some are of translations and others of encoders, or do not go together otherwise.
    """
    encoders = [result for result in results if result.is_encoder]
    if not encoders:
        return Comparison.of(results, score or OF_TRANSLATIONS, baseline)
    if len(encoders) < len(results):
        translation = next(result for result in results if not result.is_encoder)
        raise UserError(
            f"{translation.folder} is of translations and {encoders[0].folder} of an encoder: report them apart."
        )
    return Comparison.of(results, score, baseline)


def tables_of(
    comparison: Comparison, p_values: bool = True, losses: bool = False, speeds: RelativeSpeed | None = None
) -> dict[str, Table]:
    """The tables of a report by the names of their files; losses and speeds are told of translation models alone."""
    if not comparison.all_results()[0].is_encoder:
        return {"table": comparison_table(comparison, p_values, losses, speeds)}
    differences = difference_table(comparison, p_values)
    return {"table": task_table(comparison)} | ({"differences": differences} if differences else {})
