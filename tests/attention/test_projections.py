"""Projections in one product are those of the layers, whatever these do."""

import torch
from fairseq.modules.quant_noise import quant_noise
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ea_fairseq.attention.projection import project


class Doubled(nn.Linear):
    def forward(self, words):
        return 2 * super().forward(words)


def hooked(layer: nn.Linear) -> nn.Linear:
    layer.register_forward_hook(lambda layer, inputs, output: output + 1)
    return layer


def noisy(layer: nn.Linear) -> nn.Linear:
    return quant_noise(layer, p=0.5, block_size=1).eval()


@given(
    outputs=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    bias=st.booleans(),
    wrap=st.sampled_from([lambda layer: layer, hooked, noisy, nn.Sequential]),
)
@settings(max_examples=30)
def test_outputs_and_gradients_are_those_of_the_layers(outputs, bias, wrap):
    torch.manual_seed(1)
    layers = [wrap(nn.Linear(4, size, bias=bias)) for size in outputs]
    words = torch.randn(3, 2, 4, requires_grad=True)
    leaves = [words, *(parameter for layer in layers for parameter in layer.parameters())]
    results = []
    for output in (project(words, *layers), torch.cat([layer(words) for layer in layers], dim=-1)):
        results.append([output, *torch.autograd.grad(output.cos().sum(), leaves)])
    torch.testing.assert_close(*results)


def test_a_layer_of_another_kind_is_asked():
    words, layers = torch.randn(3, 4), [Doubled(4, 2), nn.Linear(4, 2)]
    assert torch.equal(project(words, *layers)[:, :2], layers[0](words))


def test_no_copy_of_the_parameters_is_kept_for_the_gradients():
    layers, words = [nn.Linear(4, 2), nn.Linear(4, 3)], torch.randn(3, 4, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda tensor: tensor):
        project(words, *layers)
    known = {tensor.data_ptr() for tensor in (words, *(layer.weight for layer in layers))}
    assert {tensor.data_ptr() for tensor in kept} == known


def test_a_trace_shows_the_product():
    class Projected(nn.ModuleList):
        def forward(self, words):
            return project(words, *self)

    traced = torch.jit.trace(Projected([nn.Linear(4, 2), nn.Linear(4, 3)]), torch.randn(3, 4))
    assert "aten::linear" in str(traced.inlined_graph)
