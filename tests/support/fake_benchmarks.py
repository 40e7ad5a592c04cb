"""A benchmark that nobody ran, as benchmark.py writes it."""

from ea_fairseq.experiments.benchmark.cases import PARTS, Case, Plan, Settings
from ea_fairseq.experiments.benchmark.results import Benchmark, Cost, Measurement
from ea_fairseq.experiments.benchmark.samples import Sample


def fake_measurement(case: Case, plan: Plan, others: float = 0.0) -> Measurement:
    """Variants of which each takes a tenth more time than the one before, in proportion to N squared a sentence."""
    variants, length = list(plan.variants(case.part)), case.length or 20  # of a text, that of its sentences
    seconds = {variant.name: length**2 * (1 + place / 10) * 1e-5 for place, variant in enumerate(variants)}
    rounds = [
        {name: Sample(value * case.sentences * slow, others) for name, value in seconds.items()}
        for slow in (1.0, 1.2, 1.1)
    ]
    generation = case.part in ("generation", "inference", "translation")
    costs = {
        variant.name: Cost(
            peak=10**8,
            operations=None if generation else 1000 + 250 * variant.evolving,
            saved=None if generation else case.sentences * length**2 * (1 + 3 * variant.evolving) * 16,
            one_map=case.sentences * length**2 * 16,
        )
        for variant in variants
    }
    return Measurement(case, variants, case.sentences * length, costs, rounds, disturbed=2 * (others > 0))


def fake_benchmark(others: float = 0.0, parts: tuple[str, ...] = PARTS, **options) -> Benchmark:
    plan = Plan(**options)
    return Benchmark(
        command="python scripts/benchmark.py",
        commit="c" * 40,
        versions={"torch": "2.13"},
        hardware=["some processor, 2 cores"],
        settings=Settings(threads=2),
        quick=plan.quick,
        started="2026-01-01T00:00:00",
        measurements=[fake_measurement(case, plan, others) for part in parts for case in plan.cases(part)],
    )
