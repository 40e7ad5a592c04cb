"""What must hold for models of any mechanism and terms, as functions that raise AssertionError where it does not."""

import re

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from ea_fairseq.analysis.cost import count_macs
from ea_fairseq.analysis.parts import parts
from ea_fairseq.attention.attention import Attention
from ea_fairseq.kernels import dispatch
from ea_fairseq.kernels.cpu.native_library import INSTRUCTION_SETS, LIBRARY, instruction_set
from laws import draw_padded
from loops import Oracle, decode, encode
from tiny import random_tokens

UNSEEN = re.compile(" (mul_?|mean|layer_norm|batch_norm)$")  # operators that torch's counter of FLOPs does not know
native_only = pytest.mark.skipif(not LIBRARY, reason="the native code is not compiled")
SETS = INSTRUCTION_SETS[INSTRUCTION_SETS.index(instruction_set()) :] if LIBRARY else ()  # of this processor
interpreted = pytest.param("triton", marks=pytest.mark.slow)  # without a GPU
each_backend = pytest.mark.parametrize("backend", [pytest.param("native", marks=native_only), interpreted])


def by_our_forward(model):
    """The model, its plain attentions, too, computed by our forward.

    fairseq's own rounds a softmax to float32, and hides products from torch's counter.
    """
    for module in model.modules():
        if isinstance(module, Attention):
            module.is_plain = False
    return model


@torch.no_grad()
def assert_equals_loops(model, oracle: Oracle, gate=None):
    """A model, which becomes float64, computes what its oracle does, of a sentence with padding and one without.

    Args:
        gate: of feed-forward networks that have one, a function of one number.
    """
    by_our_forward(model.double())
    generator = torch.Generator().manual_seed(5)
    source, target = random_tokens(generator, 2, 5), random_tokens(generator, 2, 4)
    source[1, 3:] = target[1, 2:] = model.encoder.padding_idx
    embedded, _ = model.encoder.forward_embedding(source)
    embedded_target, _ = model.decoder.embed_target(target, None)
    encoded = model.encoder(source)
    decoded, _ = model.decoder.extract_features(target, encoded)
    for sentence, (length, words) in enumerate([(5, 4), (3, 2)]):
        vectors = embedded[sentence] * source[sentence].ne(model.encoder.padding_idx).unsqueeze(-1)
        x = encode(model, vectors, length, oracle, gate)
        torch.testing.assert_close(encoded["encoder_out"][0][:length, sentence], x[:length], rtol=0, atol=1e-10)
        expected = decode(model, embedded_target[:, sentence], x, words, length, oracle, gate)
        torch.testing.assert_close(decoded[sentence, :words], expected[:words], rtol=0, atol=1e-10)


def loss_of(model, source=None, target=None):
    """Of a model of translations, on padded sentences unless others are given."""
    if source is None:
        _, source, target = draw_padded(model, seed=4)
    return model(source, None, target)[0][target.ne(model.encoder.padding_idx)].cos().sum()


def assert_kernels_agree(model, backend: str, monkeypatch, loss=loss_of, atol: float = 1e-4):
    """A loss and its gradients of a model in training are the same with a backend as in PyTorch."""
    results = []
    for chosen in (backend, "reference"):
        monkeypatch.setattr(dispatch, "backend", chosen)
        found = loss(model.train())
        results.append([found, *torch.autograd.grad(found, list(model.parameters()), allow_unused=True)])
    for found, expected in zip(*results, strict=True):
        if expected is not None:
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=atol)


def assert_every_parameter_learns(model):
    """Gradients are there, and are not all zero but for biases of keys, which move all logits of a query alike."""
    loss_of(model.train()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        assert parameter.grad.any() or name.endswith("k_proj.bias"), name


def assert_loss_changes_along_its_gradient(model, of: str = ""):
    """In float64, in training; ``of``: parameters with this in their names."""
    model = by_our_forward(model.double()).train()
    parameters = [parameter for name, parameter in model.named_parameters() if of in name]
    direction = torch.autograd.grad(loss_of(model), parameters)
    slope = torch.stack([gradient.norm() for gradient in direction]).norm()
    losses = []
    with torch.no_grad():
        for length in (1e-6, -2e-6):
            for parameter, gradient in zip(parameters, direction, strict=True):
                parameter.add_(gradient, alpha=length / slope)
            losses.append(loss_of(model))
    assert ((losses[0] - losses[1]) / 2e-6).item() == pytest.approx(slope.item(), rel=1e-4)


def assert_torch_counts_the_same(model):
    """torch's own counter finds what torchprofile does, as far as it counts: matrix products and convolutions."""
    by_our_forward(model)
    length = 6
    tokens = torch.full((1, length), model.encoder.dictionary.unk())
    with FlopCounterMode(display=False) as counter:
        model(tokens, torch.tensor([length]), tokens)
    macs = count_macs(model, length, length)
    assert counter.get_total_flops() == 2 * sum(number for name, number in macs.items() if not UNSEEN.search(name))
    assert "others" not in {part.name for part in parts(model, macs)}
