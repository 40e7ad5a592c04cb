"""What is timed of encoders: tuning a classifier, and what it says of new sentences."""

import torch
from fairseq.data import Dictionary

from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.batches import batch
from ea_fairseq.experiments.benchmark.cases import Case, Variant
from ea_fairseq.experiments.benchmark.workloads import Update, Workload
from ea_fairseq.experiments.costs.built_model import CLASSIFYING, HEAD, build_encoder
from ea_fairseq.models.roberta import SIZE_OPTIONS, SIZES
from ea_fairseq.options import name_of_flag

CLASSES = 2


class EncoderWorkload(Workload):
    """A RoBERTa with a classification head, and a batch of sentences with labels."""

    def __init__(self, case: Case, variant: Variant, device: torch.device, tokens: int, seed: int):
        super().__init__(case, variant, device, tokens, seed)
        self.model = build_encoder(self.options, tokens, CLASSES).to(device)
        self.parameters = list(self.model.parameters())
        pairs = batch(self.dictionary, case.sentences, case.length, device, seed)
        self.words = pairs["ntokens"]
        labels = torch.arange(case.sentences, device=device) % CLASSES
        self.batch = {"net_input": {"src_tokens": pairs["target"]}, "target": labels, "ntokens": self.words}

    def flags(self) -> list[str]:
        """The model's, a family's encoder or fairseq's RoBERTa of the same size, and the task's."""
        size, family = self.case.size, self.variant.family
        if not self.variant.evolving:
            arch = ["roberta"]
            for option, value in zip(SIZE_OPTIONS, SIZES[size], strict=True):
                arch += [name_of_flag(option), str(value)]
        elif family in FAMILIES:
            arch = [f"{FAMILIES[family].encoder('roberta')}_{size}"]
        else:
            raise UserError(f"{family} has no encoders")
        longest = max(512, self.case.length)
        return ["--arch", *arch, *CLASSIFYING, "--num-classes", str(CLASSES), "--max-positions", str(longest)]


class Tuning(EncoderWorkload, Update):
    """An update of a classifier."""

    def __init__(self, case: Case, variant: Variant, device: torch.device, tokens: int, seed: int):
        super().__init__(case, variant, device, tokens, seed)
        self.learn()

    @property
    def label_dictionary(self) -> Dictionary:
        """For the criterion, to which this is the task."""
        return self.dictionary


class Inference(EncoderWorkload):
    """The classes of a batch."""

    has_backward = False

    def __init__(self, case: Case, variant: Variant, device: torch.device, tokens: int, seed: int):
        super().__init__(case, variant, device, tokens, seed)
        self.model.eval()

    @torch.no_grad()
    def step(self) -> None:
        with self.autocast():
            scores = self.model(**self.batch["net_input"], classification_head_name=HEAD)[0]
        assert scores.shape == (self.case.sentences, CLASSES)


ENCODER_WORKLOADS = {"tuning": Tuning, "inference": Inference}
