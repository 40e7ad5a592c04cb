"""The log of a validation has numbers alone.

``ConcatTensorMeter`` (fairseq/logging/meters.py) keeps the predictions and targets from which ``sentence_prediction``
derives correlations, and has no value to log: each validation logs ``pred [] | targ []``. Here such meters are left out
of what is logged.
"""

from collections import OrderedDict

from fairseq.logging.meters import ConcatTensorMeter, MetersDict

fairseq_values = MetersDict.get_smoothed_values


def patch_meters() -> None:
    """Replaces ``MetersDict.get_smoothed_values`` by the function below."""
    MetersDict.get_smoothed_values = values_to_log


def values_to_log(self: MetersDict) -> OrderedDict[str, float]:
    """The values of the meters that have one."""
    found = fairseq_values(self)
    return OrderedDict((name, value) for name, value in found.items() if not isinstance(self[name], ConcatTensorMeter))
