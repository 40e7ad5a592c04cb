"""What models of time series cost."""

from collections import Counter

import torch

from ea_fairseq.analysis.cost import Cost, Pass, traced_macs
from ea_fairseq.models.time_series import TimeSeriesModel


def cost(model: TimeSeriesModel) -> Cost:
    """All parameters, and the FLOPs of one series of the longest there are."""
    return Cost(sum(parameter.numel() for parameter in model.parameters()), 2 * count_macs(model).total())


def count_macs(model: TimeSeriesModel) -> Counter[str]:
    """Multiply-accumulates of one longest series in evaluation mode, see ``traced_macs``."""
    return traced_macs(whole_pass(model), torch.zeros(1, model.description.longest, model.description.channels))


def whole_pass(model: TimeSeriesModel) -> Pass:
    """A pass over one longest series to the head that the model has."""
    padding = torch.zeros(1, model.description.longest, dtype=torch.bool)
    head = next(iter(model.classification_heads), None)
    values = model.value_head is not None
    return Pass(model, padding_mask=padding, features_only=not values, classification_head_name=head)
