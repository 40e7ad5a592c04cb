"""Workloads of translation models: an attention forward and backward, a training step, a beam search."""

import random
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import utils
from fairseq.criterions import CRITERION_REGISTRY, build_criterion
from fairseq.data import Dictionary
from fairseq.data.language_pair_dataset import collate
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from ea_fairseq.attention.registry import PLAIN
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.cases import CHUNKED_CRITERION, Case, Settings, Variant
from ea_fairseq.experiments.costs.built_model import build, dictionary, parse, task_of_text
from ea_fairseq.experiments.runs.recipe import model_flags
from ea_fairseq.plain.commands import Parser

LEARNING_RATE = 1e-5  # so low that a random model hardly changes
SHORTEST = 0.8  # of the longest sentence: fairseq batches sentences of similar length


class Workload:
    """One variant of a case, with random parameters and data.

    Attributes:
        has_backward: whether a step has a backward pass.
        words: number of words that a step processes.
        parameters: that get gradients in a step.
    """

    has_backward = True
    words: int
    parameters: list[nn.Parameter]

    def __init__(self, case: Case, variant: Variant, settings: Settings):
        torch.manual_seed(settings.seed)
        self.case, self.variant, self.settings = case, variant, settings
        self.device = torch.device(settings.device)
        self.options = parse(self.flags(), Parser("benchmark", "", ""))
        self.dictionary = dictionary(settings.dictionary)

    def flags(self) -> list[str]:
        """Returns the flags of fairseq-train that describe the model and the criterion."""
        case, variant = self.case, self.variant
        if variant.criterion not in CRITERION_REGISTRY:
            raise UserError(f"there is no criterion {variant.criterion}")
        flags = model_flags(f"{variant.family}_{case.size}") if variant.evolving else ["--arch", PLAIN[case.size]]
        speed = ["--autocast", "bf16", "--fast-dropout"] * (variant.bf16 and variant.criterion == CHUNKED_CRITERION)
        criterion = ["--criterion", variant.criterion, "--label-smoothing", "0.1", *speed]
        return [*flags, "--share-all-embeddings", *criterion]

    def built(self) -> Any:
        """Builds the translation model."""
        return build(self.options, task_of_text(self.settings.dictionary)).to(self.device)

    def sentences(self) -> dict[str, Any]:
        """Returns a batch of sentence pairs."""
        return batch(self.dictionary, self.case.sentences, self.case.length, self.device, self.settings.seed)

    @property
    def one_map(self) -> int:
        """Bytes of an attention map of K N N numbers for each sentence, in single precision."""
        return 4 * self.case.sentences * self.options.encoder_attention_heads * self.case.length**2

    def autocast(self) -> torch.autocast:
        """Returns the autocast context of the variant's forward pass: bfloat16 or disabled."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.variant.bf16)

    def forward(self) -> list[Tensor]:
        """Returns the tensors that `backward` starts from."""
        raise NotImplementedError

    def backward(self, outputs: list[Tensor]) -> None:
        """Runs the backward pass from the tensors that `forward` returned."""
        raise NotImplementedError

    def step(self) -> None:
        """Runs one forward and one backward pass; this is what is timed."""
        self.backward(self.forward())


class Block(Workload):
    """The self-attention of the encoder's second layer, with padded keys.

    Our own attention reads the logits of the layer below and passes on its own, both with gradients.
    """

    def __init__(self, case: Case, variant: Variant, settings: Settings):
        super().__init__(case, variant, settings)
        of_sentences = torch.tensor(lengths(case.sentences, case.length, settings.seed))
        self.padding = (torch.arange(case.length) >= of_sentences.unsqueeze(1)).to(self.device)
        self.words = case.sentences * case.length
        self.attention = self.built().encoder.layers[1].self_attn
        width = self.attention.embed_dim
        self.query = torch.randn(case.length, case.sentences, width, device=self.device, requires_grad=True)
        self.previous = None
        if variant.evolving and len(outputs := self.forward()) > 1:
            self.previous = outputs[1].detach().requires_grad_()
        self.parameters = list(self.attention.parameters())
        self.gradients = [torch.randn_like(output) for output in self.forward()]

    def forward(self) -> list[Tensor]:
        masks = {"key_padding_mask": self.padding, "need_weights": False}
        if self.variant.evolving:
            masks |= {"query_padding_mask": self.padding, "previous": self.previous}
        with self.autocast():
            output, _, *passed = self.attention(self.query, self.query, self.query, **masks)
        logits = passed[0].logits if passed else None
        return [output] if logits is None else [output, logits]

    def backward(self, outputs: list[Tensor]) -> None:
        for tensor in (self.query, self.previous, *self.parameters):
            if tensor is not None:
                tensor.grad = None
        torch.autograd.backward(outputs, self.gradients)


class Update(Workload):
    """An update of a whole model with fairseq's criterion and torch's fused Adam."""

    def learn(self, model: nn.Module, batch: dict[str, Any]) -> None:
        """Prepares updates of a model on a batch."""
        self.model, self.batch, self.words = model.train(), batch, batch["ntokens"]
        self.parameters = list(model.parameters())
        task = SimpleNamespace(target_dictionary=self.dictionary, label_dictionary=self.dictionary)
        self.criterion = build_criterion(self.options, task).train()
        self.optimizer = torch.optim.Adam(self.parameters, lr=LEARNING_RATE, betas=(0.9, 0.98), fused=True)

    def forward(self) -> list[Tensor]:
        self.optimizer.zero_grad()
        with self.autocast():
            loss, size, _ = self.criterion(self.model, self.batch)
        return [loss / size]

    def backward(self, outputs: list[Tensor]) -> None:
        outputs[0].backward()
        self.optimizer.step()


class Training(Update):
    """An update of a translation model."""

    def __init__(self, case: Case, variant: Variant, settings: Settings):
        super().__init__(case, variant, settings)
        self.learn(self.built(), self.sentences())


class Generation(Workload):
    """fairseq's beam search, as fairseq-generate runs it; all hypotheses have the same length."""

    has_backward = False

    def __init__(self, case: Case, variant: Variant, settings: Settings):
        super().__init__(case, variant, settings)
        self.model = self.built().eval()
        self.model.make_generation_fast_(beamable_mm_beam_size=case.beam, need_attn=False)
        steps = case.length - 1  # plus one for the end of the sentence
        self.generator = SequenceGenerator(
            [self.model], self.dictionary, beam_size=case.beam, max_len_b=steps, min_len=steps
        ).to(self.device)
        self.generator.precisions = (variant.precision,) if variant.precision else ()
        self.parameters = list(self.model.parameters())
        self.batch = self.sentences()
        self.words = case.sentences * case.length

    def step(self) -> None:
        with self.autocast():
            hypotheses = self.generator.generate([self.model], self.batch)
        made = sum(len(of_sentence[0]["tokens"]) for of_sentence in hypotheses)
        assert made == self.words, f"{made} instead of {self.words} words"


def lengths(sentences: int, longest: int, seed: int) -> list[int]:
    """Draws the number of tokens of each sentence; the first is the longest."""
    draw = random.Random(seed)
    shortest = max(2, round(SHORTEST * longest))
    return [longest, *(draw.randint(min(shortest, longest), longest) for _ in range(sentences - 1))]


def batch(words: Dictionary, sentences: int, longest: int, device: torch.device, seed: int) -> dict[str, Any]:
    """Makes a batch of random pairs of equal source and target length; sources are padded on the left."""
    generator = torch.Generator().manual_seed(seed)

    def sentence(length: int) -> Tensor:
        tokens = torch.randint(words.nspecial, len(words), (length,), generator=generator)
        tokens[-1] = words.eos()
        return tokens

    pairs = [
        {"id": number, "source": sentence(length), "target": sentence(length)}
        for number, length in enumerate(lengths(sentences, longest, seed))
    ]
    made = collate(pairs, words.pad(), words.eos(), left_pad_source=True, left_pad_target=False)
    return utils.apply_to_sample(lambda tensor: tensor.to(device), made)
