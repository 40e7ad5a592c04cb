"""Checks whether results may be in one table."""

from collections.abc import Iterable, Iterator

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.scoring.results import REFERENCE, Results


def require_score(result: Results, score: str) -> None:
    """Raises UserError if a result lacks the score that is compared."""
    if score not in result.scores:
        raise UserError(
            f"{result.folder} has no score '{score}': choose one of {', '.join(result.scores)} with --score, or "
            "evaluate again."
        )


def with_first_of_data(results: Iterable[Results]) -> Iterator[tuple[Results, Results]]:
    """Yields each result after the first one of its data set."""
    first: dict[str, Results] = {}
    for result in results:
        yield first.setdefault(result.dataset.name, result), result


def require_same_data(results: Iterable[Results]) -> None:
    """Raises UserError if results of a data set are of different sentences."""
    for other, result in with_first_of_data(results):
        data, known = result.dataset, other.dataset
        if data.subset != known.subset:
            raise UserError(
                f"{other.folder} translates {known.subset} and {result.folder} {data.subset}: compare them apart."
            )
        if data.checksum != known.checksum:
            raise UserError(
                f"{other.folder} and {result.folder} have different data, both called {data.name}: prepare it equally "
                "and train again, or compare them apart."
            )


def require_same_scores(results: Iterable[Results]) -> None:
    """Raises UserError if tasks differ or, because of the training flags, the scores of models that predict labels."""
    for other, result in with_first_of_data(results):
        if other.task != result.task or (not result.translates and list(result.scores) != list(other.scores)):
            raise UserError(
                f"{other.folder} has {', '.join(other.scores)} on {other.dataset.name}, and {result.folder} has "
                f"{', '.join(result.scores)}: train both with the same flags of the criterion, or compare them apart."
            )


def require_same_models(results: Iterable[Results]) -> None:
    """Raises UserError if models of one name differ in architecture or, on a data set, in size."""
    first: dict[object, Results] = {}
    for result in results:
        model, size = first.setdefault(result.model, result), (result.model, result.dataset.name)
        other = model if result.arch != model.arch else first.setdefault(size, result)
        if (result.arch, result.parameters) != (other.arch, other.parameters):
            raise UserError(
                f"{other.folder} and {result.folder} are different models, both called {result.model}: name one "
                "otherwise with ea-fairseq evaluate --model."
            )
        if differing := other.differs_in(result):
            raise UserError(
                f"{other.folder} and {result.folder} are both called {result.model} and differ in {differing[0]}: name "
                "one otherwise with ea-fairseq evaluate --model."
            )


def require_same_references(results: Iterable[Results]) -> None:
    """Raises UserError if translations of a data set were scored against different raw references."""
    translations = (result for result in results if result.translates and result.has(REFERENCE))
    for other, result in with_first_of_data(translations):
        if result is not other and result.raw()[1] != other.raw()[1]:
            raise UserError(
                f"{other.folder} and {result.folder} are scored against different references: evaluate both with the "
                "same --reference, or both without."
            )
