"""A model of time series, built from flags of fairseq-train, and what it costs."""

from ea_fairseq.analysis.parts import parts
from ea_fairseq.analysis.time_series_cost import count_macs
from ea_fairseq.experiments.costs.built_model import build_series, parse
from ea_fairseq.experiments.costs.profiled_model import ProfiledModel, building
from ea_fairseq.plain.commands import Parser
from ea_fairseq.series.description import SeriesDescription


def profiled(flags: list[str], steps: int, channels: int, classes: int, parser: Parser) -> ProfiledModel:
    """Builds the model that flags of fairseq-train describe, and profiles it on one series of the longest.

    Args:
        classes: 0 where a number is predicted.

    Raises:
        UserError: where the model cannot be built.
    """
    labels = tuple(map(str, range(classes))) or None
    description = SeriesDescription((0.0,) * channels, (1.0,) * channels, True, steps, labels)
    with building():
        model = build_series(parse(flags, parser), description)
        return ProfiledModel(parts(model, count_macs(model)), kept={})
