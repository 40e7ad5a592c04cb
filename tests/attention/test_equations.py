"""The stacks equal plain loops over the equations, in float64."""

import pytest
import torch

from loops import Evolving, decode, encode
from tiny import build_loud, random_tokens

LENGTHS = [(5, 4), (3, 2)]  # words of source and target; the shorter pair is padded to the longer


def batch(pad):
    generator = torch.Generator().manual_seed(5)
    source, target = random_tokens(generator, 2, 5), random_tokens(generator, 2, 4)
    source[1, 3:] = target[1, 2:] = pad
    return source, target


@pytest.fixture(params=[1, 3, 5])
def kernel(request):
    return request.param


@torch.no_grad()
@pytest.mark.parametrize("skip", [True, False])
def test_encoder_stack_equals_loops(kernel, skip):
    model = build_loud(ea_kernel_size=kernel, ea_alpha=0.4, ea_beta=0.3, no_encoder_skip=not skip).double()
    source, _ = batch(model.encoder.padding_idx)
    embedded, _ = model.encoder.forward_embedding(source)
    embedded = embedded * source.ne(model.encoder.padding_idx).unsqueeze(-1)
    encoded = model.encoder(source)["encoder_out"][0].transpose(0, 1)
    oracle = Evolving({"encoder": 0.4 if skip else 0.0}, {"encoder": 0.3})
    for sentence, (length, _) in enumerate(LENGTHS):
        expected = encode(model, embedded[sentence], length, oracle)
        torch.testing.assert_close(encoded[sentence, :length], expected[:length], rtol=0, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("skips", [{}, {"decoder_skip": True}, {"cross_skip": True}])
def test_decoder_stack_equals_loops(kernel, skips):
    model = build_loud(ea_kernel_size=kernel, ea_alpha=0.4, ea_beta=0.3, **skips).double()
    source, target = batch(model.encoder.padding_idx)
    encoded = model.encoder(source)
    embedded, _ = model.decoder.embed_target(target, None)
    decoded, _ = model.decoder.extract_features(target, encoded)
    alphas = {side: 0.4 if skips.get(f"{side}_skip") else 0.0 for side in ("decoder", "cross")}
    oracle = Evolving(alphas, {"decoder": 0.3, "cross": 0.3})
    for sentence, (source_length, length) in enumerate(LENGTHS):
        x = encoded["encoder_out"][0][:, sentence]
        expected = decode(model, embedded[:, sentence], x, length, source_length, oracle)
        torch.testing.assert_close(decoded[sentence, :length], expected[:length], rtol=0, atol=1e-10)


@torch.no_grad()
def test_switched_off_convolution_and_skip_equal_loops():
    model = build_loud(ea_alpha=0.4, no_encoder_conv=True, no_decoder_conv=True, decoder_skip=True).double()
    source, target = batch(model.encoder.padding_idx)
    encoded = model.encoder(source)
    embedded, _ = model.decoder.embed_target(target, None)
    decoded, _ = model.decoder.extract_features(target, encoded)
    expected = decode(
        model,
        embedded[:, 0],
        encoded["encoder_out"][0][:, 0],
        *reversed(LENGTHS[0]),
        Evolving({"decoder": 0.4, "cross": 0.0}, {"decoder": 0.0, "cross": 0.5}),
    )
    torch.testing.assert_close(decoded[0], expected, rtol=0, atol=1e-10)
