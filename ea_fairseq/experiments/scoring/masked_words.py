"""Evaluation of masked language models: how well they predict words that are masked alike for all of them."""

import math
from collections.abc import Iterator
from types import MappingProxyType

import torch
import torch.nn.functional as F
from fairseq.models.roberta import RobertaModel
from fairseq.tasks.masked_lm import MaskedLMTask

from ea_fairseq.experiments.scoring.encoder_outcome import EncoderOutcome

SEED = 1  # of the masks
MASKS = {  # the options of --task masked_lm that make masks, and what signatures call them
    "mask_prob": "masked",
    "leave_unmasked_prob": "kept",
    "random_token_prob": "random",
    "tokens_per_sample": "tokens",
    "sample_break_mode": "break",
}


class MaskedWords(EncoderOutcome):
    """Losses of masked words, block by block."""

    header = ("words", "bits")
    noun = "blocks of text"
    overrides = MappingProxyType({"seed": SEED})
    names = ("perplexity",)
    head = None

    @staticmethod
    def predict(model: RobertaModel, task: MaskedLMTask, sample: dict) -> Iterator[tuple[int, str]]:
        """The number of masked words in each block, and the sum of their losses in bits."""
        targets = sample["target"]
        masked = targets.ne(task.source_dictionary.pad())
        bits = torch.zeros(len(targets), dtype=torch.float64, device=targets.device)
        if masked.any():
            logits = model(**sample["net_input"], masked_tokens=masked)[0].float()
            losses = F.cross_entropy(logits, targets[masked], reduction="none").double() / math.log(2)
            bits.index_add_(0, masked.nonzero()[:, 0], losses)
        for words, loss in zip(masked.sum(dim=1).tolist(), bits.tolist(), strict=True):
            yield words, f"{loss:.6f}"

    @property
    def signature(self) -> str:
        """How the text is cut and masked."""
        options = self.checkpoint.options("task")
        parts = [f"{name}:{options[option]}" for option, name in MASKS.items() if options.get(option) is not None]
        return "|".join([f"seed:{SEED}", *parts])
