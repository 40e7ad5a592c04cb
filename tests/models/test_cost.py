"""What models cost: the papers' figures, and formulas that equal what is counted on every model."""

from argparse import Namespace
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq import UserError
from ea_fairseq.analysis.attention_cost import AttentionCost
from ea_fairseq.analysis.cost import cost
from ea_fairseq.analysis.cost_formula import NO_FORMULA, Side, parts
from ea_fairseq.count import Count
from ea_fairseq.kernels import dispatch as backend
from ea_fairseq.kernels.window import ENCODER_WINDOW
from ea_fairseq.mechanisms.evolving import Evolution, EvolvingAttention
from experiments.costs.profiled_model import ProfiledModel
from tiny import COMBINATIONS, KERNELS, OFF, SKIPS, TINY, build, random_tokens

PAPER = {  # parameters exactly as counted; FLOPs as printed in EA, table 5
    "transformer_lite": (2_482_560, 158.31e6),
    "ea_transformer_lite": (2_485_224, 163.46e6),
    "transformer": (44_138_496, 2.68e9),
    "ea_transformer_base": (44_149_008, 2.70e9),
}
FAMILIES = ("transformer", "ea_transformer")
SOURCE, TARGET = 7, 5
OF_BOTH_SIDES = (
    "layernorm_embedding",
    "no_decoder_final_norm",
    "no_scale_embedding",
    "no_token_positional_embeddings",
)
SAME_WIDTH = {f"{side}_{name}": 4 for side in ("encoder", "decoder") for name in ("embed_dim", "attention_heads")}
TIES = {  # with what each needs
    "share_decoder_input_output_embed": {},
    "share_all_embeddings": SAME_WIDTH,
    "merge_src_tgt_embed": SAME_WIDTH,
}
OTHERS = [
    {"decoder_output_dim": 6},
    {"encoder_layers_to_keep": "1"},
    {"encoder_layerdrop": 0.5},
    *({"activation_fn": name} for name in ("gelu", "gelu_accurate", "tanh", "linear")),
]


def profiled(model, source: int = SOURCE, target: int = TARGET) -> ProfiledModel:
    sides = ((model.encoder.dictionary, source), (model.decoder.dictionary, target))
    return ProfiledModel.of(model, *(Side(len(words), length) for words, length in sides))


def assert_formula_counts(model, *lengths: int):
    for name, (formula, counted) in profiled(model, *lengths).checks.items():
        assert formula == counted, name


@pytest.mark.parametrize("arch", PAPER)
def test_cost_is_the_papers(arch):
    parameters, flops = PAPER[arch]
    model = profiled(build(arch), 30, 30)
    model.require_match()
    assert model.as_published == (parameters, pytest.approx(flops, rel=0.01))


@pytest.mark.parametrize("arch", FAMILIES)
def test_cost_is_that_of_the_profile(arch):
    model = build(arch, **TINY)
    counted = cost(model, SOURCE)
    assert (counted.parameters, counted.flops) == profiled(model, SOURCE, SOURCE).as_published


def test_tied_embeddings_vocabulary_and_positions_do_not_count():
    options = {"share_all_embeddings": True, "encoder_learned_pos": True}
    assert cost(build(**TINY)) == cost(build(**TINY, **options))


@pytest.mark.parametrize("options", [{}, {"checkpoint_activations": True}])
def test_counting_leaves_the_model_as_it_was(options):
    model = build(**TINY, **options).train()
    forwards = [layer.forward for layer in model.decoder.layers]
    cost(model, length=5)
    assert model.training
    assert [layer.forward for layer in model.decoder.layers] == forwards


def test_activation_checkpointing_costs_the_same():
    assert cost(build(**TINY, checkpoint_activations=True), 5) == cost(build(**TINY), 5)


def test_one_attention_by_hand():
    evolution = Evolution(ENCODER_WINDOW, alpha=0.5, beta=0.1, kernel_size=3)
    attention = AttentionCost.of([EvolvingAttention(8, 2, evolution, kdim=6, vdim=6)], queries=5, keys=7)
    assert attention.projections == Count(2 * (64 + 8) + 2 * (48 + 8), 2 * 5 * 64 + 2 * 7 * 48)
    assert attention.maps == Count(0, 5 * 7 * 8 + 5 * 7 * 8)
    assert attention.extra == Count(2 * 2 * 9 + 2, 5 * 7 * 2 * 2 * 9)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_formula_counts_every_switch_setting(kernel):
    for options in COMBINATIONS:
        if options["ea_kernel_size"] == kernel:
            assert_formula_counts(build(**{**TINY, "decoder_layers": 1, "encoder_layers": 1}, **options))


@st.composite
def sizes(draw):
    """Options of a model: encoder and decoder of different sizes and kinds, any switch setting, any tying."""
    options = {**draw(st.sampled_from(COMBINATIONS)), **{name: draw(st.booleans()) for name in OF_BOTH_SIDES}}
    for side in ("encoder", "decoder"):
        options[f"{side}_attention_heads"] = heads = draw(st.integers(1, 3))
        options[f"{side}_embed_dim"] = heads * draw(st.integers(4, 6))
        options[f"{side}_ffn_embed_dim"] = draw(st.integers(1, 9))
        options[f"{side}_layers"] = draw(st.integers(1, 2))
        for name in ("normalize_before", "learned_pos"):
            options[f"{side}_{name}"] = draw(st.booleans())
    match draw(st.sampled_from([None, "decoder_output_dim", *TIES])):
        case None:
            return options
        case "decoder_output_dim":
            return {**options, "decoder_output_dim": draw(st.integers(1, 9))}
        case tie:
            return {**options, **TIES[tie], tie: True}


@settings(max_examples=10)
@given(sizes(), st.sampled_from(FAMILIES), st.integers(1, 9), st.integers(1, 9))
def test_formula_counts_models_of_all_sizes(options, arch, source, target):
    assert_formula_counts(build(arch, **options), source, target)


@pytest.mark.parametrize("option", [*({tie: True} for tie in TIES), *OTHERS], ids=str)
def test_formula_counts_single_options(option):
    assert_formula_counts(build(**TINY, **option))


@pytest.mark.parametrize("name", NO_FORMULA)
def test_an_option_without_formula_is_refused(name):
    cfg = TransformerConfig.from_namespace(Namespace(**{name: 1}))
    with pytest.raises(UserError, match=f"--{name.replace('_', '-')}"):
        parts(SimpleNamespace(cfg=cfg), Side(9, 9), Side(9, 9))


def kept_maps(model, source: int, target: int, heads: set[int]) -> int:
    """Bytes of the maps, with or without margins, that autograd keeps of a forward pass: a map for each head."""
    maps = product((source, target), (source, target))
    shapes = {(queries + above, keys + beside) for queries, keys in maps for above in range(9) for beside in range(9)}
    kept = {}

    def keep(tensor):
        *_, channels, queries, keys = (0, 0, 0, *tensor.shape)
        if tensor.is_floating_point() and channels in heads and (queries, keys) in shapes:
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage
        return tensor

    tokens = [random_tokens(torch.Generator(), 1, length) for length in (source, target)]
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model.train()(tokens[0], torch.tensor([source]), tokens[1])
    return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("transformer", {}),
        *(("ea_transformer", {"ea_kernel_size": kernel}) for kernel in KERNELS),
        ("ea_transformer", SKIPS),
        ("ea_transformer", OFF),
        ("ea_transformer", {"no_encoder_conv": True, "no_cross_conv": True, **SKIPS}),
    ],
)
def test_maps_kept_for_backward_are_those_of_the_formula(monkeypatch, arch, options, dtype):
    monkeypatch.setattr(backend, "backend", "reference")
    model = build(arch, **{**TINY, "encoder_attention_heads": 4}, **options)
    kinds = profiled(model, 31, 53).attentions.values()
    half = dtype != torch.float32
    assert kept_maps(model.to(dtype), 31, 53, {2, 4}) == sum(kind.kept_for_backward(half) for kind in kinds)
