"""An encoder and a decoder exported by torch.export compute the same, for batches of any size."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim
from torch.jit.frontend import NotSupportedError

from commands import run_python
from laws import assert_close, draw
from tiny import TINY, build_loud, random_tokens


@pytest.fixture(scope="module")
def model():
    """Its activations are computed again in training, which no exporter knows."""
    return build_loud(**TINY, decoder_skip=True, cross_skip=True, checkpoint_activations=True)


def any_size(argument):
    """torch.export's description of an argument, a tensor or fairseq's dictionary of them, that may have any size."""
    if torch.is_tensor(argument):
        return dict.fromkeys(range(argument.dim()), Dim.AUTO)
    return {name: [any_size(tensor) for tensor in tensors] for name, tensors in argument.items()}


def export(module, *arguments):
    return torch.export.export(module, arguments, dynamic_shapes=tuple(map(any_size, arguments)), strict=True)


@pytest.fixture(scope="module")
def exported(model):
    """(encoder, decoder), exported with one batch without padding."""
    generator = torch.Generator().manual_seed(1)
    source, target = random_tokens(generator, 3, 7), random_tokens(generator, 3, 5)
    return export(model.encoder, source), export(model.decoder, target, model.encoder(source))


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1), sentences=st.integers(1, 4), padding=st.integers(0, 3))
@settings(max_examples=10)
def test_exported_encoder_and_decoder_score_as_the_model(model, exported, seed, sentences, padding):
    """Every word, padded or not, for other numbers and lengths of sentences than those exported with."""
    _, source, target = draw(seed, sentences)
    source[0, :padding] = model.encoder.padding_idx
    target[-1, target.size(1) - padding :] = model.encoder.padding_idx
    encoder, decoder = (program.module() for program in exported)
    with torch.no_grad():
        difference = decoder(target, encoder(source))[0] - model(source, None, target)[0]
    padding = target.eq(model.encoder.padding_idx).unsqueeze(-1)
    assert_close(difference.masked_fill(padding, 0.0), torch.zeros(()), 1e-5)


TRANSLATE = """
import sys
import torch

encoder, decoder = (torch.export.load(name).module() for name in ("encoder.pt2", "decoder.pt2"))
source, prefix = torch.load("source.pt"), torch.load("prefix.pt")
encoded = encoder(source)
for _ in range(6):
    scores = decoder(prefix, encoded)[0]
    prefix = torch.cat([prefix, scores[:, -1:].argmax(-1)], 1)
torch.save((prefix, scores), "translations.pt")
assert "fairseq" not in sys.modules
"""


@pytest.mark.slow
def test_an_exported_model_translates_without_fairseq(model, exported, tmp_path):
    """Greedily, with a full pass for each word."""
    generator = torch.Generator().manual_seed(2)
    source, prefix = random_tokens(generator, 5, 9), torch.full((5, 1), model.decoder.dictionary.eos())
    source[2, :4] = model.encoder.padding_idx
    for program, name in zip(exported, ("encoder", "decoder"), strict=True):
        torch.export.save(program, tmp_path / f"{name}.pt2")
    torch.save(source, tmp_path / "source.pt")
    torch.save(prefix, tmp_path / "prefix.pt")
    result = run_python(TRANSLATE, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    with torch.no_grad():
        for _ in range(6):
            scores = model(source, None, prefix)[0]
            prefix = torch.cat([prefix, scores[:, -1:].argmax(-1)], 1)
    exported_prefix, exported_scores = torch.load(tmp_path / "translations.pt")
    assert torch.equal(exported_prefix, prefix)
    assert_close(exported_scores, scores, 1e-5)


def test_torchscript_is_refused():
    """As docs/exporting.md says; when torch learns it, that page shall say so."""
    with pytest.raises((RuntimeError, ValueError, NotSupportedError), match=r"Unknown type|variable number"):
        torch.jit.script(build_loud())
