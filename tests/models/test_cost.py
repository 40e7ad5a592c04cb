"""What models cost, counted part by part."""

import pytest

from ea_fairseq.analysis.cost import cost, count_encoder_macs, count_macs
from ea_fairseq.analysis.parts import Count, parts, total
from ea_fairseq.models.roberta import MODELS
from encoders import OPTIONS
from encoders import TINY as TINY_ENCODER
from encoders import build as build_encoder
from tiny import TINY, build


def test_tied_embeddings_vocabulary_and_positions_do_not_count():
    options = {"share_all_embeddings": True, "encoder_learned_pos": True}
    assert cost(build(**TINY)) == cost(build(**TINY, **options))


@pytest.mark.parametrize("options", [{}, {"checkpoint_activations": True}])
def test_counting_leaves_the_model_as_it_was(options):
    model = build(**TINY, **options).train()
    before = [(name, module, module.forward, [*vars(module)]) for name, module in model.named_modules()]
    cost(model, length=5)
    assert model.training
    assert [(name, module, module.forward, [*vars(module)]) for name, module in model.named_modules()] == before


def test_activation_checkpointing_costs_the_same():
    assert cost(build(**TINY, checkpoint_activations=True), 5) == cost(build(**TINY), 5)


def test_attentions_by_hand():
    """Of 8 source and 6 target channels, 7 and 5 words, 2 heads and one layer on each side."""
    sizes = {"encoder_embed_dim": 8, "decoder_embed_dim": 6, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    model = build("ea_transformer", **{**TINY, **sizes, "encoder_layers": 1, "decoder_layers": 1})
    found = {(part.group, part.name): part.count for part in parts(model, count_macs(model, 7, 5))}
    assert found["encoder", "self-attention projections"] == Count(4 * (64 + 8), 4 * 7 * 64)
    assert found["encoder", "self-attention maps"] == Count(0, 2 * 7 * 7 * 8)
    assert found["decoder", "cross-attention projections"] == Count(
        2 * (36 + 6) + 2 * (48 + 6), 2 * 5 * 36 + 2 * 7 * 48
    )
    assert found["decoder", "cross-attention maps"] == Count(0, 2 * 5 * 7 * 6)
    kinds = {"encoder self-attention": 49, "decoder self-attention": 25, "encoder-decoder attention": 35}
    for kind, entries in kinds.items():
        assert found["evolving-attention convolutions", kind] == Count(2 * 2 * 9 + 2, entries * 2 * 2 * 9)


def test_what_the_steps_of_a_mechanism_multiply_is_its_own():
    """Two products of each entry with all heads, whatever operators they are."""
    model = build("talking_heads", **TINY)
    layers, heads = TINY["encoder_layers"] + 2 * TINY["decoder_layers"], TINY["encoder_attention_heads"]
    assert heads == TINY["decoder_attention_heads"]
    found = total(parts(model, count_macs(model, 6, 6)), "talking-heads projections")
    assert found == Count(layers * 2 * heads**2, layers * 2 * heads**2 * 6 * 6)


ENCODERS = (
    "roberta",
    "ea_roberta",
    "mta_roberta",
    "lite_roberta",
    "pa_transformer_classifier",
    "pa_conv_transformer_classifier",
)


@pytest.mark.parametrize("arch", ENCODERS)
def test_all_that_an_encoder_has_and_does_belongs_to_a_part(arch):
    options = OPTIONS.get(MODELS[arch].family.name, {}) if arch in MODELS else {}
    model = build_encoder(arch, **{**TINY_ENCODER, **options})
    model.register_classification_head("head", num_classes=3)
    found = parts(model, count_encoder_macs(model, 6))
    assert sum(part.count.parameters for part in found) == sum(parameter.numel() for parameter in model.parameters())
    assert "others" not in {part.name for part in found}
