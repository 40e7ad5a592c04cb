"""With --ea-start plain, the first attention of each stack passes on its own scores, without a convolution."""

import copy

import pytest
import torch

from ea_fairseq.errors import UserError
from laws import FURTHER_LAWS, LAWS
from loops import FirstPlain
from mechanisms import ROWS, build_family
from model_checks import assert_equals_loops, assert_every_parameter_learns, assert_kernels_agree, each_backend
from tiny import TINY, build

PLAIN = {"ea_start": "plain", "encoder_layers": 3, "decoder_layers": 3}
WITH_CONV = {"ea_start": "conv", "encoder_layers": 3, "decoder_layers": 3}


def build_plain(**options):
    return build_family("ea_transformer", **{**PLAIN, **options})


def test_a_model_equals_loops():
    evolving = ROWS["ea_transformer"].oracle
    assert_equals_loops(build_plain(), FirstPlain(evolving.alphas, evolving.betas))


@pytest.mark.parametrize("law", LAWS + FURTHER_LAWS, ids=lambda law: law.__name__)
def test_law_holds(law):
    law(build_plain(), seed=3)


@each_backend
def test_kernels_agree_with_pytorch(backend, monkeypatch):
    assert_kernels_agree(build_plain(), backend, monkeypatch)


def test_every_parameter_gets_a_gradient():
    assert_every_parameter_learns(build_plain())


def test_only_first_layers_lack_a_convolution():
    model = build_plain()
    lacking = {name for name, module in model.named_modules() if getattr(module, "conv", True) is None}
    names = ("encoder.layers.0.self_attn", "decoder.layers.0.self_attn", "decoder.layers.0.encoder_attn")
    assert lacking == {*names}
    assert all(layer.self_attn.conv is not None for layer in build_family("ea_transformer", **WITH_CONV).encoder.layers)


def test_a_checkpoint_loads_into_the_same_model_and_into_no_other():
    model, other = build_plain(), build_plain(seed=2)
    other.load_state_dict(copy.deepcopy(model.state_dict()))
    assert all(map(torch.equal, model.state_dict().values(), other.state_dict().values()))
    with_conv = build_family("ea_transformer", **WITH_CONV)
    for one, another in ((model, with_conv), (with_conv, model)):
        with pytest.raises(UserError, match="does not fit the model"):
            one.load_state_dict(copy.deepcopy(another.state_dict()))


@torch.no_grad()
def test_a_plain_transformers_checkpoint_loads_and_its_convolutions_start_as_the_identity():
    model, plain = build_plain(), build("transformer", **{**TINY, "encoder_layers": 3, "decoder_layers": 3})
    model.load_state_dict(copy.deepcopy(plain.state_dict()))
    layers = model.encoder.layers
    assert layers[0].self_attn.conv is None
    assert all(layer.self_attn.conv.weight[0, 0, 1, 1] == 1 for layer in layers[1:])


def test_a_start_is_conv_or_plain():
    with pytest.raises(UserError, match=r"^--ea-start must be conv or plain, not 'none'$"):
        build_plain(ea_start="none")
