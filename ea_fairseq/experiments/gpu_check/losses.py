"""The losses of trainings on the embedded corpus, by kernels and by plain PyTorch."""

import json
import logging
from collections.abc import Iterator

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import train

from ea_fairseq.attention.registry import PLAIN
from ea_fairseq.experiments.gpu_check.rows import Row
from ea_fairseq.experiments.gpu_check.settings import (
    SEED,
    Settings,
    computed_by,
    exact_products,
    in_processes,
    largest_difference,
)
from ea_fairseq.experiments.runs.recipe import model_flags
from ea_fairseq.kernels.self_check import first_line

ALLOWED = 0.02  # of bits a token after 100 updates, in which roundings grow
SHOWN = (1, 10, 100)


def check(settings: Settings) -> Iterator[Row]:
    """A row for the plain Transformer, and for evolving attention beside what plain PyTorch trains."""
    updates, evolving = 100 if settings.on_gpu else 20, model_flags("ea_transformer_lite")
    cases = [(["--arch", PLAIN["lite"]], "auto"), (evolving, "auto"), (evolving, "reference")]
    cases = [(flags, updates, backend, settings) for flags, backend in cases]
    try:
        plain, kernels, pytorch = in_processes(losses, cases)
    except Exception as error:
        yield Row("a training", {}, f"fails ({type(error).__name__}: {first_line(error)})")
        return
    yield Row("Transformer-Lite", shown(plain))
    difference = largest_difference(kernels, pytorch)
    problem = "" if difference <= ALLOWED else f"losses differ from PyTorch's by {difference:.3f}, {ALLOWED} is allowed"
    yield Row("EA-Transformer-Lite", shown(kernels) | {"largest difference": f"{difference:.4f}"}, problem)
    yield Row("EA-Transformer-Lite, EA_BACKEND=reference", shown(pytorch))


def shown(found: list[float]) -> dict[str, str]:
    """Some of the losses, for a table."""
    return {f"update {number}": f"{found[number - 1]:.3f}" for number in SHOWN if number <= len(found)}


def losses(flags: list[str], updates: int, backend: str, settings: Settings) -> list[float]:
    """The loss of each update of a training by fairseq-train's own loop."""
    exact_products()
    words = [
        *(str(settings.data), "--task", "translation", "-s", "de", "-t", "en", "--share-all-embeddings"),
        *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", "1e-3", "--lr-scheduler", "inverse_sqrt"),
        *("--warmup-updates", "50", "--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"),
        *("--max-tokens", "2048", "--max-update", str(updates), "--seed", str(SEED), "--num-workers", "0"),
        *("--no-save", "--disable-validation", "--log-format", "json", "--log-interval", "1"),
        *settings.place,
        *flags,
    ]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), words))
    log, logger = Losses(), logging.getLogger("fairseq.logging.progress_bar")
    logger.addHandler(log)
    try:
        with computed_by(backend):
            train.distributed_utils.call_main(cfg, train.main)
    finally:
        logger.removeHandler(log)
    if len(log.found) != updates:
        raise RuntimeError(f"{len(log.found)} updates instead of {updates}")
    return log.found


class Losses(logging.Handler):
    """Collects the losses that fairseq logs."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.found: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Takes the loss of an update, for whose line fairseq renames its logger."""
        if record.name == "train_inner":
            self.found.append(float(json.loads(record.getMessage())["loss"]))
