"""Encoders take plain checkpoints and those of their own family, and no others."""

import copy
import logging
from functools import cache

import pytest
import torch

from ea_fairseq.attention.registry import LAYOUTS
from ea_fairseq.errors import UserError
from encoders import PAD, TINY, build, build_encoder, draw, features, louder
from laws import assert_close
from mechanisms import ROWS

each_family = pytest.mark.parametrize("family", ROWS)


@pytest.mark.parametrize("layout", LAYOUTS)
@each_family
def test_a_plain_checkpoint_is_taken_where_it_fits(family, layout, caplog):
    model, plain = build_encoder(family, layout), louder(build("roberta", **TINY))
    if any(".branch." in name for name in model.state_dict()):
        with pytest.raises(UserError, match="does not fit the model"):
            model.load_state_dict(plain.state_dict())
        return
    with caplog.at_level(logging.INFO, logger="ea_fairseq"):
        model.load_state_dict(plain.state_dict())
    messages = [message for message in caplog.messages if "of segments" not in message]
    assert len(messages) == 1
    assert messages[0].startswith("the checkpoint is a plain model's: ")
    for name, parameter in plain.state_dict().items():
        assert ".q_proj" in name or ".k_proj" in name or torch.equal(model.state_dict()[name], parameter)


def test_a_plain_checkpoint_starts_evolving_as_itself(caplog):
    plain, (_, tokens) = louder(build("roberta", **TINY)), draw(3)
    with caplog.at_level(logging.INFO, logger="ea_fairseq"):
        for arch in ("ea_roberta", "ea_bert"):
            model = build(arch, **TINY, ea_alpha=0.0, layer_norm_eps=1e-5)
            model.load_state_dict(plain.state_dict())
            words = tokens.ne(PAD)
            assert_close(features(model, tokens)[words], features(plain, tokens)[words], 1e-4)
    assert "3 convolutions with 114 parameters are new and start as the identity" in caplog.messages[0]
    assert caplog.messages[1].startswith("the checkpoint has no embeddings of segments: they start at zero")


cached_encoder = cache(build_encoder)  # of models that take no checkpoint


@each_family
def test_a_checkpoint_fits_its_own_family_alone(family):
    model = build_encoder(family)
    build_encoder(family, seed=2).load_state_dict(model.state_dict())
    with pytest.raises(RuntimeError):
        build("roberta", **TINY).load_state_dict(copy.copy(model.state_dict()))
    for other in set(ROWS) - {family}:
        with pytest.raises(UserError, match="does not fit the model"):
            cached_encoder(other).load_state_dict(copy.copy(model.state_dict()))


def test_without_a_convolution_the_skip_connection_marks_the_checkpoint():
    model = build_encoder("ea_transformer", ea_beta=0.0)
    with pytest.raises(RuntimeError, match=r"self_attn\.skip"):
        build("roberta", **TINY).load_state_dict(model.state_dict())


def test_heads_of_a_checkpoint_are_as_in_fairseq():
    model = build_encoder("ea_transformer", load_checkpoint_heads=True)
    trained = build_encoder("ea_transformer", seed=2)
    trained.register_classification_head("head", num_classes=3)
    model.load_state_dict(trained.state_dict())
    assert torch.equal(
        model.classification_heads["head"].dense.weight, trained.classification_heads["head"].dense.weight
    )
