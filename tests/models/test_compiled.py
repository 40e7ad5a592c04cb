"""A model compiled by torch.compile trains as it does without."""

import shutil

import pytest
import torch

from tiny import TINY, build_loud, random_tokens

PAD = 1


def batches(*sizes):
    """(source, target) of each size (sentences, source length, target length), every other batch with padding."""
    generator = torch.Generator().manual_seed(1)
    for index, (sentences, *lengths) in enumerate(sizes):
        source, target = (random_tokens(generator, sentences, length) for length in lengths)
        if index % 2 == 1:
            source[0, :2] = target[1, -2:] = PAD
        yield source, target


def losses(model, batches):
    """Trains the model on each batch; yields the losses."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for source, target in batches:
        scores = model(source, None, target)[0]
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


@pytest.fixture
def pair():
    """Twice the same model, all its attentions evolving with skip connections; the second is to be compiled."""
    torch.compiler.reset()
    return [build_loud(**TINY, decoder_skip=True, cross_skip=True).train() for _ in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_graph_trains_on_batches_of_every_size(pair, backend):
    plain, compiled = pair
    sizes = [(3, 7, 5), (4, 5, 9), (2, 9, 4), (5, 4, 11), (3, 6, 8)]
    expected = list(losses(plain, batches(*sizes)))
    compiled.compile(backend=backend, fullgraph=True, dynamic=True)
    actual = losses(compiled, batches(*sizes))
    found = [next(actual)]
    with torch.compiler.set_stance("fail_on_recompile"):
        found += actual
    assert len(found) == len(sizes)
    assert found == pytest.approx(expected, abs=1e-4)
    assert compiled.state_dict().keys() == plain.state_dict().keys()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="inductor needs a C++ compiler")
@pytest.mark.skipif(" " in torch.__file__, reason="inductor cannot compile with torch in a folder with a space")
def test_inductor_trains_as_without_it(pair):
    """On batches of one size, because inductor compiles the gradient of a convolution anew for each."""
    plain, compiled = pair
    sizes = [(3, 7, 5)] * 4
    compiled.compile(fullgraph=True)
    found = list(losses(compiled, batches(*sizes)))
    assert len(found) == len(sizes)
    assert found == pytest.approx(list(losses(plain, batches(*sizes))), abs=1e-4)
