"""What TensorBoard and Weights & Biases show of a mechanism beside fairseq's own metrics."""

from collections.abc import Callable
from typing import Any

from fairseq.logging import metrics
from torch import nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.maps import kind_of

DASHBOARDS = ("tensorboard_logdir", "wandb_project")
LAST = 10_000  # priority: after all that fairseq logs


def log_metrics(model: nn.Module, args: Any) -> None:
    """Adds what each attention's mechanism has to show to the metrics being collected.

    Does nothing unless ``args`` name a dashboard. The values are taken when fairseq writes its metrics: other updates
    pay nothing for them, and they are those of the model after the update that they stand beside.
    """
    if not any(getattr(args, dashboard, None) for dashboard in DASHBOARDS):
        return
    for name, attention in model.named_modules():
        if isinstance(attention, Attention):
            for metric, value in attention.metrics(name, kind_of(name) or "").items():
                log(metric, value)


def log(name: str, value: Callable[[], float]) -> None:
    """Has fairseq call ``value`` when it writes a metric of that name."""
    metrics.log_derived(name, lambda _: value(), LAST)
