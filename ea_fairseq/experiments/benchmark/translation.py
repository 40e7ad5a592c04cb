"""The workload of trained models: the translation of a text, with sentences of realistic lengths."""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.cases import Case, Settings, Variant
from ea_fairseq.experiments.benchmark.workloads import Workload
from ea_fairseq.experiments.runs.trained_model import find_model, load_translation
from ea_fairseq.hub.translation import TranslationHub
from ea_fairseq.plain.text_lines import read_lines

EACH = 8  # with batches of one sentence, only every eighth is translated
LONGEST = {"max_len_a": 1.2, "max_len_b": 10}  # hypothesis length, relative to the batch's longest source


class Translation(Workload):
    """A text as fairseq-generate translates it: in batches of sentences of similar length.

    Attributes:
        words: number of source tokens, ends of sentences included.
        batches: lists of sources (S,).
    """

    has_backward = False
    one_map = 0

    def __init__(self, case: Case, variant: Variant, settings: Settings):
        self.variant, self.device = variant, torch.device(settings.device)
        try:
            self.hub = load_translation(find_model(Path(variant.model)), cpu=settings.device == "cpu")
            lines = [line for line in read_lines(Path(case.text)) if line]
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(str(error)) from None
        self.batches = list(batches(self.hub, lines, case.sentences))
        self.words = sum(len(sentence) for batch in self.batches for sentence in batch)
        self.samples = list(map(self.collated, self.batches))
        self.generator = self.hub.task.build_generator(self.hub.models, Namespace(beam=case.beam, **LONGEST))
        self.generator.precisions = (variant.precision,) if variant.precision else ()

    def collated(self, batch: list[Tensor]) -> dict[str, Any]:
        """Collates sentences to a batch of fairseq's."""
        dataset = self.hub.task.build_dataset_for_inference(batch, list(map(len, batch)))
        return dataset.collater(list(map(dataset.__getitem__, range(len(batch)))))

    def step(self) -> None:
        with self.autocast():
            for sample in self.samples:
                self.hub.task.inference_step(self.generator, self.hub.models, sample)


def batches(hub: TranslationHub, lines: list[str], size: int) -> Iterator[list[Tensor]]:
    """Yields batches of tokenized sentences, the shortest first."""
    sentences = sorted((hub.encode(line) for line in lines[:: EACH if size == 1 else 1]), key=len)
    if not sentences:
        raise UserError("the text has no sentence")
    for first in range(0, len(sentences), size):
        yield sentences[first : first + size]
