"""Training steps of tiny models with fairseq's criterion and with ours."""

import functools
from types import SimpleNamespace

import torch
from fairseq.criterions import build_criterion
from omegaconf import OmegaConf

from tiny import TINY, build, dictionary, random_tokens

FAIRSEQS, OURS = "label_smoothed_cross_entropy", "ea_label_smoothed_cross_entropy"
WORDS = dictionary()
PAD = WORDS.pad()
TASK = SimpleNamespace(source_dictionary=WORDS, target_dictionary=WORDS)


def criterion(name: str, **options):
    """A criterion as fairseq's command line would build it."""
    common = {} if name == FAIRSEQS else {"fp16": False, "bf16": False, "amp": False}
    chosen = {"_name": name, "label_smoothing": 0.1, "sentence_avg": False, **common, **options}
    return build_criterion(OmegaConf.create(chosen), TASK)


@functools.cache
def model(arch: str = "ea_transformer", **options):
    return build(arch, **TINY, **options).train()


def batch(seed: int = 1, sentences: int = 5, length: int = 9) -> dict:
    """Random sentences of different lengths, the longest maybe padded, too, and the shortest maybe empty."""
    generator = torch.Generator().manual_seed(seed)
    source, target = random_tokens(generator, sentences, length), random_tokens(generator, sentences, length)
    lengths = torch.randint(length + 1, (sentences, 1), generator=generator)
    target[torch.arange(length) >= lengths] = PAD
    inputs = {"src_tokens": source, "src_lengths": None, "prev_output_tokens": target.roll(1, 1)}
    return {"net_input": inputs, "target": target, "ntokens": int(lengths.sum())}


def half_of(sample: dict, rank: int) -> dict:
    """Every second sentence."""
    source, target = (tokens[rank::2].contiguous() for tokens in (sample["net_input"]["src_tokens"], sample["target"]))
    inputs = {"src_tokens": source, "src_lengths": None, "prev_output_tokens": target.roll(1, 1)}
    return {**sample, "net_input": inputs, "target": target}


def step(trained, name: str, sample: dict, reduce: bool = True, scale: float = 1.0, **options):
    """Loss, sample size, logged figures and gradients of a training step."""
    trained.zero_grad()
    loss, size, logged = criterion(name, **options)(trained, sample, reduce=reduce)
    (scale * loss).sum().backward()
    gradients = [parameter.grad.clone() for parameter in trained.parameters()]
    return loss.detach(), size, logged, gradients


def assert_same_step(trained, sample: dict, tolerance: float = 1e-6, **options):
    (loss, size, logged, gradients), (ours, our_size, ours_logged, our_gradients) = (
        step(trained, name, sample, **options) for name in (FAIRSEQS, OURS)
    )
    torch.testing.assert_close(ours, loss, rtol=tolerance, atol=tolerance)
    assert our_size == size
    assert ours_logged.keys() == logged.keys()
    for figure, value in logged.items():
        torch.testing.assert_close(ours_logged[figure], value, rtol=tolerance, atol=tolerance)
    of_all = torch.stack([gradient.norm() for gradient in gradients]).norm()
    for our, gradient in zip(our_gradients, gradients, strict=True):
        assert (our - gradient).norm() <= tolerance * of_all
