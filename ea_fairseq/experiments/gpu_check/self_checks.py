"""What the package's own checks of kernels have found on this machine, in this run and before."""

from collections.abc import Iterator

from ea_fairseq.experiments.gpu_check.rows import Row
from ea_fairseq.experiments.gpu_check.settings import Settings
from ea_fairseq.kernels import check_records


def check(settings: Settings) -> Iterator[Row]:
    """One row."""
    found, wrong = check_records.report()
    yield Row("found", {"": found}, "; ".join(wrong))
