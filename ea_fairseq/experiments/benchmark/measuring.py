"""Measures one case: its variants side by side, in turn."""

from collections.abc import Callable

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.cases import Case, Settings, Variant
from ea_fairseq.experiments.benchmark.results import Measurement
from ea_fairseq.experiments.benchmark.samples import take_rounds
from ea_fairseq.experiments.benchmark.workers import LeftOutError, Pool, Worker


def measure(
    case: Case, variants: tuple[Variant, ...], settings: Settings, pool: Pool, say: Callable[[str], None]
) -> Measurement:
    """Builds all variants, warms them up, takes their costs and then, round by round, their times.

    Where it raises an error, the workers are left to the pool, which does not wait for them.

    Raises:
        UserError: where a variant fails, or works on other words than the rest.
    """
    workers = [pool.worker(variant) for variant in variants]
    for worker in workers:
        worker.tell("build", case, worker.variant, settings)
    words, left_out = {}, {}
    for worker in workers:
        try:
            words[worker] = worker.answer()
        except LeftOutError as reason:
            left_out[worker.variant.name] = str(reason)
    if not words:
        raise UserError(f"{case.title}: nothing can be measured: {next(iter(left_out.values()))}")
    require_same_work(case, words)
    seconds = sum(worker.ask("warm_up", settings.seconds) for worker in words)
    if settings.rounds:
        say(f"{case.part}, {case.title}: {len(words)} variants, about {settings.rounds * seconds:.0f} s")
    costs = {worker.variant.name: worker.ask("cost") for worker in words}
    rounds, disturbed = take_rounds(
        {worker.variant.name: lambda worker=worker: worker.ask("sample") for worker in words},
        settings.rounds,
        settings.limit,
        settings.attempts,
    )
    for worker in workers:
        worker.close()
    measured = [worker.variant for worker in words]
    return Measurement(case, measured, max(words.values()), costs, rounds, disturbed, left_out)


def require_same_work(case: Case, words: dict[Worker, int]) -> None:
    """Raises UserError where variants count different numbers of words in a case."""
    if len({*words.values()}) != 1:
        counts = ", ".join(f"{worker.variant.name} {count}" for worker, count in words.items())
        raise UserError(f"{case.title}: the variants work on different numbers of words ({counts}).")
