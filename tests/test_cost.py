"""Sizes and costs of the four models in the papers' tables."""

import pytest

from ea_fairseq.cost import cost
from tiny import build

PAPER = {  # parameters exactly as counted; FLOPs as printed in EA, table 5
    "transformer_lite": (2_482_560, 158.31e6),
    "ea_transformer_lite": (2_485_224, 163.46e6),
    "transformer": (44_138_496, 2.68e9),
    "ea_transformer_base": (44_149_008, 2.70e9),
}


@pytest.mark.parametrize("arch", PAPER)
def test_cost_is_the_papers(arch):
    parameters, flops = PAPER[arch]
    counted = cost(build(arch))
    assert counted.parameters == parameters
    assert counted.flops == pytest.approx(flops, rel=0.01)


def test_tied_embeddings_and_vocabulary_do_not_count():
    assert cost(build("ea_transformer_lite", share_all_embeddings=True)) == cost(build("ea_transformer_lite"))


def test_counting_leaves_the_model_as_it_was():
    model = build("ea_transformer_lite").train()
    cost(model, length=5)
    assert model.training
