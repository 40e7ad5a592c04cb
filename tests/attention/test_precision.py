"""Half precision and autocast: nothing overflows, and rounding costs what it costs in plain attention."""

import copy
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from attentions import draw_case
from ea_fairseq.kernels.window import WINDOWS
from ea_fairseq.mechanisms.evolving import EvolvingAttention
from laws import LAWS, assert_causal
from needs import DEVICES
from tiny import COMBINATIONS, SKIPS, TINY, build, build_loud, dictionary, random_tokens, sizes

PAD = dictionary().pad()


@dataclass(frozen=True)
class Precision:
    """What a module is stored in and, if it differs, what autocast computes in."""

    module: torch.dtype
    autocast: torch.dtype | None = None

    @property
    def lowest(self) -> torch.dtype:
        return self.autocast or self.module

    def __str__(self):
        name = str(self.lowest).removeprefix("torch.")
        return f"autocast-{name}" if self.autocast else name

    def context(self):
        if self.autocast is None:
            return nullcontext()
        return torch.autocast(torch.get_default_device().type, dtype=self.autocast)


HALF = [
    Precision(torch.bfloat16),
    Precision(torch.float16),
    Precision(torch.float32, autocast=torch.bfloat16),
    Precision(torch.float32, autocast=torch.float16),
]
PRECISIONS = [Precision(torch.float32), *HALF]


@pytest.fixture(params=DEVICES)
def device(request):
    with torch.device(request.param):
        yield request.param


def amplify(model, factor: float):
    """Makes the attentions' own logits ``factor`` times as large."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".q_proj." in name:
                parameter.mul_(factor)
    return model


@contextmanager
def kept_logits(model):
    """A list that receives the logits of every attention."""
    logits = []
    hooks = [
        module.register_forward_hook(lambda _module, _inputs, output: logits.append(output[2].logits))
        for module in model.modules()
        if isinstance(module, EvolvingAttention)
    ]
    yield logits
    for hook in hooks:
        hook.remove()


def train_step(model, precision, source, target):
    """Scores, gradients by parameter and logits of one step, its loss the sum over words as in fairseq."""
    model.train().zero_grad()
    with kept_logits(model) as logits, precision.context():
        output = model(source, None, target)[0]
    loss = F.cross_entropy(output.flatten(0, 1).float(), target.flatten(), ignore_index=PAD, reduction="sum")
    loss.backward()
    gradients = {name: parameter.grad.double() for name, parameter in model.named_parameters()}
    return output, gradients, logits


def padded_batch():
    """Words without padding, padding on either side, and sentences that are all padding."""
    generator = torch.Generator().manual_seed(1)
    source, target = random_tokens(generator, 6, 7), random_tokens(generator, 6, 6)
    source[1, :3] = target[1, 4:] = source[2, 5:] = target[2, :2] = PAD
    source[3] = source[5] = target[4] = target[5] = PAD
    return source, target


def one_word():
    return [random_tokens(torch.Generator().manual_seed(seed), 2, 1) for seed in (1, 2)]


def only_padding():
    return torch.full((2, 3), PAD), torch.full((2, 1), PAD)


WEIGHTS = {
    "paper's weights": {"ea_alpha": 0.5, "ea_beta": 0.1},
    "alpha and beta one": {"ea_alpha": 1.0, "ea_beta": 1.0},
}


def assert_finite_step(model, precision, source, target):
    """Checks a training step; returns the largest logit of a word."""
    output, gradients, logits = train_step(model.to(precision.module), precision, source, target)
    assert all(tensor.isfinite().all() for tensor in (output, *gradients.values(), *logits))
    return max(layer.abs().max() for layer in logits)


@pytest.mark.parametrize("sentences", [padded_batch, one_word, only_padding], ids=lambda make: make.__name__)
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_large_logits_and_their_gradients_stay_finite(device, precision, weights, sentences):
    model = amplify(build_loud(**weights, **SKIPS), 30)
    largest = assert_finite_step(model, precision, *sentences())
    assert sentences is only_padding or largest > 200


@pytest.mark.parametrize("arch", ["exclusive_attention", "ea_exclusive_attention"])
@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_words_without_values_keep_exclusive_attention_finite(device, precision, arch):
    """Values of padding are zeros in the first layer, where projections have no biases."""
    model = build(arch, **TINY, no_biases=True, no_token_positional_embeddings=True)
    sentences = [side[:3] for side in padded_batch()]
    output, gradients, _ = train_step(model.to(precision.module), precision, *sentences)
    assert all(tensor.isfinite().all() for tensor in (output, *gradients.values()))


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_the_longest_sentences_stay_finite(device, precision):
    generator = torch.Generator().manual_seed(1)
    source, target = random_tokens(generator, 1, 1024), random_tokens(generator, 1, 1024)
    source[0, :100] = target[0, 900:] = PAD
    model = amplify(build(**sizes(embed_dim=16, attention_heads=2, layers=1)), 30)
    assert assert_finite_step(model, precision, source, target) > 30


def rounding_errors(model, precision, seed):
    """How far a training step is from float64: log-probabilities, and the gradients of queries' projections."""
    generator = torch.Generator().manual_seed(seed)
    source, target = random_tokens(generator, 8, 30), random_tokens(generator, 8, 30)
    exact_output, exact, _ = train_step(copy.deepcopy(model).double(), Precision(torch.float64), source, target)
    output, rounded, _ = train_step(model.to(precision.module), precision, source, target)
    of_output = (output.double().log_softmax(-1) - exact_output.log_softmax(-1)).abs().mean()
    projections = [name for name in exact if name.endswith("q_proj.weight")]
    of_gradients = [(rounded[name] - exact[name]).norm() / exact[name].norm() for name in projections]
    return torch.stack([of_output, *of_gradients]).detach()


@pytest.mark.parametrize("precision", HALF, ids=str)
def test_rounding_costs_what_it_costs_in_plain_attention(device, precision):
    size = sizes(embed_dim=32, attention_heads=4, layers=3)

    def mean_errors(arch, **options):
        models = [amplify(build(arch, seed, **size, **options), 10) for seed in range(3)]
        errors = torch.stack([rounding_errors(model, precision, seed) for seed, model in enumerate(models)]).mean(0)
        return errors[0].item(), errors[1:].mean().item()

    for error, plain_error in zip(mean_errors("ea_transformer", **SKIPS), mean_errors("transformer"), strict=True):
        assert error < 1.2 * plain_error


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", WINDOWS)
def test_probabilities_are_at_least_float32(device, dtype, kind):
    case = draw_case(kind, kernel=3, seed=1)
    tensors = {name: tensor.to(dtype) for name, tensor in case.tensors.items()}
    output, probabilities, (logits, _) = case.attention.to(dtype)(**tensors, **case.masks)
    assert (output.dtype, logits.dtype) == (dtype, dtype)
    assert probabilities.dtype == (torch.float64 if dtype is torch.float64 else torch.float32)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones_like(probabilities[..., 0]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("precision", HALF[1:], ids=str)
@pytest.mark.parametrize("device", DEVICES)
@given(options=st.sampled_from(COMBINATIONS), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=5, derandomize=True)
def test_law_holds(law, precision, device, options, seed):
    """In bfloat16 tests/attention/test_laws.py checks each combination."""
    with torch.device(device):
        model = build_loud(loudness=0.2, **options).to(precision.module)
        with precision.context():
            law(model, seed, tolerance=1e-5 if law is assert_causal else 60 * torch.finfo(precision.lowest).eps)
