"""What is timed of time series: an update of a classifier."""

import torch
from fairseq.data import Dictionary

from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.cases import Case, Variant
from ea_fairseq.experiments.benchmark.plain_series import PlainSeriesModel
from ea_fairseq.experiments.benchmark.workloads import Update
from ea_fairseq.experiments.costs.built_model import PREDICTING, build_series
from ea_fairseq.models.dc_transformer import MODELS
from ea_fairseq.series.description import SeriesDescription

CHANNELS, CLASSES = 3, 8  # UWaveGestureLibrary's


class SeriesTraining(Update):
    """An update of a classifier of series that have the same length, as the long ones of the archives do."""

    def __init__(self, case: Case, variant: Variant, device: torch.device, tokens: int, seed: int):
        super().__init__(case, variant, device, tokens, seed)
        labels = tuple(map(str, range(CLASSES)))
        description = SeriesDescription((0.0,) * CHANNELS, (1.0,) * CHANNELS, True, case.length, labels)
        model = build_series(self.options, description).to(device)
        self.model = model if variant.evolving else PlainSeriesModel(model)
        self.parameters = list(self.model.parameters())
        self.words = case.sentences * case.length
        source = torch.randn(case.sentences, case.length, CHANNELS, generator=torch.Generator().manual_seed(seed))
        inputs = {"source": source, "padding_mask": torch.zeros(source.shape[:2], dtype=torch.bool)}
        self.batch = {
            "net_input": {name: tensor.to(device) for name, tensor in inputs.items()},
            "target": torch.arange(case.sentences, device=device) % CLASSES,
            "ntokens": self.words,
        }
        self.learn()

    def flags(self) -> list[str]:
        """A family's model, or what the plain one computes."""
        family = self.variant.family
        arch = FAMILIES[family].time_series if family in FAMILIES else family
        if arch not in MODELS:
            raise UserError(f"{family} has no models of time series")
        return ["--arch", arch, *PREDICTING]

    @property
    def label_dictionary(self) -> Dictionary:
        """For the criterion, to which this is the task."""
        return self.dictionary


SERIES_WORKLOADS = {"series": SeriesTraining}
