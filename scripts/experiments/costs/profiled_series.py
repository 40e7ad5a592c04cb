"""A model of time series, built from flags of fairseq-train, and its costs by formula and counted."""

from ea_fairseq.analysis.cost import count_parameters
from ea_fairseq.analysis.time_series_cost import count_macs, parts
from ea_fairseq.models.dc_transformer import DCTransformer
from ea_fairseq.models.time_series import TimeSeriesModel
from ea_fairseq.series.description import SeriesDescription
from experiments.arguments import Parser
from experiments.costs.built_model import build_series, parse
from experiments.costs.profiled_model import ProfiledModel, building


class ProfiledSeries(ProfiledModel):
    """What a model of time series costs, its read-out included.

    Convolutions of maps and of steps are one operator to torchprofile, which counts no products of a GRU.
    """

    @classmethod
    def of(cls, model: TimeSeriesModel) -> "ProfiledSeries":
        """Profiles a built model on one series of the longest."""
        attention = model.family.attention if isinstance(model, DCTransformer) else None
        return cls(parts(model), {}, count_parameters(model), count_macs(model), attention, model.max_positions())

    @property
    def checks(self) -> dict[str, tuple[int, int]]:
        """By name, what the formula says and what was counted; of the baselines all parameters together."""
        if self.attention is None:
            return {"parameters": super().checks["parameters"]}
        return {name: check for name, check in super().checks.items() if not name.startswith("MACs of ")}


def profiled(flags: list[str], steps: int, channels: int, classes: int, parser: Parser) -> ProfiledSeries:
    """Builds the model that flags of fairseq-train describe, and profiles it.

    Args:
        classes: 0 where a number is predicted.

    Raises:
        StepError: where the model cannot be built.
    """
    labels = tuple(map(str, range(classes))) or None
    description = SeriesDescription((0.0,) * channels, (1.0,) * channels, True, steps, labels)
    with building():
        return ProfiledSeries.of(build_series(parse(flags, parser), description))
