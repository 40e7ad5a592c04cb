"""What TensorBoard and Weights & Biases show of the evolution beside fairseq's own metrics."""

from collections.abc import Callable
from functools import partial

import torch
from fairseq.logging import metrics
from torch import Tensor, nn

from ea_fairseq.mechanisms.evolution import EvolutionOptions

DASHBOARDS = ("tensorboard_logdir", "wandb_project")
LAST = 10_000  # priority: after all that fairseq logs


def log_evolution(model: nn.Module, args):
    """Adds alpha and beta of each kind of attention, and the norm of each convolution, to the metrics being collected.

    Does nothing unless ``args`` name a dashboard. The values are taken when fairseq writes its metrics: other updates
    pay nothing for them, and norms are those of the model after the update that they stand beside.
    """
    if not any(getattr(args, dashboard, None) for dashboard in DASHBOARDS):
        return
    options = EvolutionOptions.from_namespace(args)
    for kind in ("encoder", "decoder", "cross"):
        evolution = getattr(options, kind)
        log(f"ea_alpha/{kind}", partial(float, evolution.alpha))
        log(f"ea_beta/{kind}", partial(float, evolution.beta))
    for name, module in model.named_modules():
        if name.endswith("_attn.conv"):
            log(f"ea_conv_norm/{name.removesuffix('.conv')}", partial(norm, module.weight))


def log(name: str, value: Callable[[], float]):
    metrics.log_derived(name, lambda _: value(), LAST)


def norm(kernels: Tensor) -> float:
    """The Frobenius norm of a convolution's kernels, of half-precision ones, too."""
    return torch.linalg.vector_norm(kernels.detach(), dtype=torch.float32).item()
