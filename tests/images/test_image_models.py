"""Models of images with each mechanism: equations, other images, order of heads, gradients, chains, kernels."""

import copy
import re
from argparse import ArgumentParser, Namespace
from dataclasses import fields
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

import oracles_images
from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.mechanism import Grid, LayerContext
from ea_fairseq.attention.pixels import PixelAttention
from ea_fairseq.attention.recording import recording
from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.errors import UserError
from ea_fairseq.kernels import dispatch
from ea_fairseq.models.image_options import ResNetOptions
from ea_fairseq.models.resnet_layout import LAYOUTS, Layout
from ea_fairseq.plain.flags import flag_of
from ea_fairseq.terms.image_positions import IMAGE_POSITIONS
from images import HEAD, IMAGES, TINY, build, build_tiny, classes, describe, draw
from laws import assert_close, reverse_heads, reverse_mechanism, reverse_terms
from loops import FirstPlain, Oracle, convolve
from mechanisms import ROWS
from model_checks import by_our_forward, native_only

PASS_VALUES = {name for name, family in FAMILIES.items() if family.attention.passes_values}
CHANGES_VALUES = {name for name, family in FAMILIES.items() if family.attention.changes_values()}
MECHANISMS = {
    base: [
        name
        for name, family in FAMILIES.items()
        if name in ROWS
        and not family.attention.has_branch
        and not (base == "conv_image_small" and name in CHANGES_VALUES)
    ]
    for base in TINY
}
each_base = pytest.mark.parametrize("base", TINY)
ALL = [(base, name) for base, names in MECHANISMS.items() for name in (None, *names)]
each_model = pytest.mark.parametrize(("base", "family"), ALL)
EVOLVING = ROWS["ea_transformer"].oracle
FIRST_PLAIN = FirstPlain(EVOLVING.alphas, EVOLVING.betas)
CASES = {  # base, family, options, oracle
    **{
        f"{base} {name}": (base, name, {}, ROWS[name].oracle if name else Oracle())
        for base, name in ALL
        if base != "aa_resnet_20" or name not in PASS_VALUES  # values of another width begin a chain, too
    },
    **{f"{base}, first plain": (base, "ea_transformer", {"ea_start": "plain"}, FIRST_PLAIN) for base in TINY},
    **{
        f"{base} with {term}": (base, "ea_transformer", {"relative_positions": term}, EVOLVING)
        for base in ("vit_tiny", "conv_image_small")
        for term in IMAGE_POSITIONS
    },
    "ViT without class token": ("vit_tiny", "ea_transformer", {"vit_pool": "mean"}, EVOLVING),
    "ViT with layers of 2026": (
        "vit_tiny",
        "ea_transformer",
        {"norm": "rms", "ffn": "swiglu", "no_biases": True, "qk_norm": True},
        EVOLVING,
    ),
    "CONV-SA with content": (
        "conv_image_small",
        None,
        {"relative_positions": "learned_image_shared", "no_content_scores": False},
        Oracle(),
    ),
    "CONV-SA with content that evolves": (
        "conv_image_small",
        "ea_transformer",
        {"relative_positions": "quadratic_image", "no_content_scores": False},
        EVOLVING,
    ),
    "CONV-SA, pruned": ("conv_image_small", "ea_transformer", {"encoder_layers": 3, "pruned_heads": "0,1,1"}, EVOLVING),
    "convolutions in the first stage alone": (
        "conv_transformer_image",
        "ea_transformer",
        {"attention_stages": 3, "stage_layers": 1},
        EVOLVING,
    ),
    "AA in both": ("aa_resnet_20", "ea_transformer", {"augment": "both"}, EVOLVING),
}


@pytest.fixture(autouse=True)
def short_network(monkeypatch):
    """A residual network with one block in each stage, whose keys are wider than values."""
    monkeypatch.setitem(LAYOUTS, 20, Layout((1, 1, 1), (16, 32, 64), key_share=0.25, value_share=0.125))


@torch.no_grad()
@pytest.mark.parametrize(("base", "family", "options", "oracle"), CASES.values(), ids=CASES)
def test_a_model_equals_loops(base, family, options, oracle):
    """In float64."""
    model = by_our_forward(build_tiny(base, family, **options).double())
    image = draw(3, IMAGES[base], images=1).double()
    expected = oracles_images.MODELS[base](model.encoder, image[0], oracle)
    torch.testing.assert_close(model(image)[0][0], expected, rtol=1e-9, atol=1e-9)


@torch.no_grad()
@each_model
def test_other_images_of_a_batch_change_nothing(base, family):
    model, images = build_tiny(base, family), draw(1, IMAGES[base], images=3)
    together = classes(model, images)
    for row, image in enumerate(images):
        assert_close(classes(model, image[None])[0], together[row], 1e-4 * max(1, together.abs().max()))


@torch.no_grad()
@each_model
def test_the_order_of_heads_means_nothing(base, family):
    """A model whose heads, with all that is theirs, change places stays the same."""
    model, images = build_tiny(base, family), draw(2, IMAGES[base])
    for module in model.modules():
        if isinstance(module, Attention) and isinstance(module.out_proj, torch.nn.Identity):
            module.out_proj = torch.nn.Linear(module.embed_dim, module.embed_dim)
    permuted, attentions = copy.deepcopy(model), []
    for module in permuted.modules():
        if isinstance(module, PixelAttention):
            for projection in filter(None, (module.q_proj, module.k_proj)):
                for parameter in projection.parameters():
                    parameter.copy_(parameter.unflatten(0, (module.heads, -1)).flip(0).flatten(0, 1))
            module.weight.copy_(module.weight.flip(0))
            reverse_mechanism(module.mechanism)
            attentions.append(module.mechanism)
        elif isinstance(module, Attention) and base != "conv_image_small":
            reverse_heads(module)
            attentions.append(module)
    reverse_terms(attentions)
    expected = classes(model, images)
    assert_close(classes(permuted, images), expected, 1e-4 * max(1, expected.abs().max()))


def step(model, images):
    """The loss and all gradients of a step."""
    torch.manual_seed(2)
    loss = F.cross_entropy(classes(model.train(), images), torch.arange(len(images)))
    return [loss, *torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)]


@each_model
def test_every_parameter_gets_a_gradient(base, family):
    model = build_tiny(base, family)
    found = step(model, draw(1, IMAGES[base]))
    names = ["loss", *(name for name, _ in model.named_parameters())]
    assert not [name for name, gradient in zip(names, found, strict=True) if gradient is None]
    assert all(gradient.isfinite().all() for gradient in found)


@each_base
def test_learned_weights_and_a_growing_evolution_leave_no_parameter_without_a_gradient(base):
    model = build_tiny(base, "ea_transformer", ea_learned=True)
    assert all(gradient is not None for gradient in step(model, draw(1, IMAGES[base])))
    model = build_tiny(base, "ea_transformer", ea_warmup_updates=10)
    model.set_num_updates(0)
    assert all(gradient is not None for gradient in step(model, draw(1, IMAGES[base])))


@each_base
def test_without_alpha_and_beta_it_is_the_plain_model_to_the_last_bit(base):
    dropout = {} if base == "aa_resnet_20" else {"dropout": 0.1}
    plain, ours = (
        build_tiny(base, family, **options, **dropout)
        for family, options in ((None, {}), ("ea_transformer", {"ea_alpha": 0.0, "ea_beta": 0.0}))
    )
    assert list(plain.state_dict()) == list(ours.state_dict())
    images = draw(1, IMAGES[base])
    assert torch.equal(classes(plain, images), classes(ours, images))
    assert all(map(torch.equal, step(plain, images), step(ours, images)))


@each_base
def test_gradients_agree_with_finite_differences(base):
    """Of all parameters, in float64, along random directions."""
    model = by_our_forward(build_tiny(base, "ea_transformer").double())
    names, values = zip(*model.named_parameters(), strict=True)
    images = draw(1, IMAGES[base], images=2).double()

    def outputs(*parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(model, given, (images,), {"classification_head_name": HEAD})[0]

    assert torch.autograd.gradcheck(outputs, values, fast_mode=True)


@native_only
@pytest.mark.parametrize("options", [{}, {"ea_start": "plain"}, {"ea_learned": True}], ids=str)
@each_base
def test_kernels_agree_with_pytorch(base, options, monkeypatch):
    model, images, found = build_tiny(base, "ea_transformer", **options), draw(2, IMAGES[base]), []
    for backend in ("native", "reference"):
        monkeypatch.setattr(dispatch, "backend", backend)
        found.append([*step(copy.deepcopy(model), images), classes(model.eval(), images)])
    for ours, expected in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-4)


def arriving(model, images):
    """The logits that each attention gets from the one before, in order of depth, and what each passes on."""
    before, after = [], []
    for module in model.modules():
        if isinstance(module, Attention) and module.out_proj is not None:
            module.register_forward_pre_hook(
                lambda module, args, kwargs: before.append(kwargs["previous"].logits), with_kwargs=True
            )
            module.register_forward_hook(lambda module, args, output: after.append(output[2].logits))
        elif isinstance(module, PixelAttention):
            module.register_forward_pre_hook(lambda module, args: before.append(args[1]))
            module.register_forward_hook(lambda module, args, output: after.append(output[1]))
    with torch.no_grad():
        classes(model, images)
    return before, after


def chains(before, after) -> list[int]:
    """The lengths of chains, in each of which an attention gets what the one before passes on, and nothing else."""
    lengths = []
    for number, given in enumerate(before):
        if given is None:
            lengths.append(0)
        else:
            assert given is after[number - 1]
        lengths[-1] += 1
    return lengths


def test_a_chain_runs_through_stages_and_begins_anew_where_maps_have_another_size():
    """Of 34 layers, 20 attentions and then 6; of 50, 10 and 3."""
    for arch, expected in (("ea_aa_resnet_34", [20, 6]), ("ea_aa_resnet_50", [10, 3])):
        data = describe(64)
        before, after = arriving(build(arch, data), draw(1, data, images=1))
        assert chains(before, after) == expected
        assert [*map(len, (after[0][0, 0], after[-1][0, 0]))] == [16, 4]


def test_all_layers_are_a_chain_unless_heads_are_pruned():
    def lengths(base, **options):
        return chains(*arriving(build_tiny(base, "ea_transformer", **options), draw(1, IMAGES[base])))

    assert lengths("vit_tiny", encoder_layers=4) == [4]
    assert lengths("conv_image_small", encoder_layers=5) == [5]
    assert lengths("conv_image_small", encoder_layers=5, pruned_heads="0,0,1,1,0") == [2, 2, 1]


def test_the_last_dropout_of_a_vit_is_applied_to_its_output():
    models = [build_tiny("vit_tiny", dropout=0.5, final_dropout=on).train() for on in (False, True)]
    never, dropped = (model(draw(1, IMAGES["vit_tiny"]))[0] == 0 for model in models)
    assert not never.any() and dropped.any() and not dropped.all()


def test_with_a_plain_start_the_first_of_each_chain_has_no_convolution():
    model = build("ea_aa_resnet_34", describe(64), ea_start="plain")
    convs = [module.conv is not None for module in model.modules() if isinstance(module, Attention)]
    assert convs == [False, *[True] * 19, False, *[True] * 5]


@torch.no_grad()
def test_the_class_tokens_row_and_column_take_part_in_the_convolution():
    """Entries of the class token mix with those of the first patches, in both directions."""
    model, images = build_tiny("vit_tiny", "ea_transformer").double(), draw(1, IMAGES["vit_tiny"], images=1).double()
    with recording(model) as records:
        classes(model, images)
    attention, record = model.encoder.layers[1].self_attn, records["encoder.layers.1.self_attn"]
    assert record["logits"].shape == (1, 2, 7, 7)
    before = record["input"][0]
    convolved = convolve(before, attention.conv.weight, attention.conv.bias, "encoder")
    torch.testing.assert_close(record["logits"][0], 0.3 * convolved + 0.7 * before)
    changed = before.clone()
    changed[:, 0] += 5.0
    convolved = convolve(changed, attention.conv.weight, attention.conv.bias, "encoder")
    moved = (0.3 * convolved + 0.7 * changed - record["logits"][0]).abs().amax((0, 2)) > 1e-3
    assert moved.tolist() == [True, True, *[False] * 5]


@torch.no_grad()
@pytest.mark.parametrize("term", ["quadratic_image", "learned_image"])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_rows_and_then_columns_are_the_sum_over_pairs_of_pixels(term, dtype, near):
    model, images = build_tiny("conv_image_small", relative_positions=term).to(dtype), draw(1, describe(4, 6)).to(dtype)
    layer = model.encoder.layers[0].self_attn
    assert (
        layer.is_separable
        and not build_tiny("conv_image_small", "ea_transformer").encoder.layers[0].self_attn.is_separable
    )
    found = classes(model, images)
    with recording(model):  # which needs the maps
        expected = classes(model, images)
    torch.testing.assert_close(found, expected, rtol=near, atol=near)


@pytest.mark.parametrize("leading", [0, 1])
def test_positions_have_the_same_scores_and_gradients_in_training_and_in_evaluation(leading):
    grid = Grid(3, 4, leading=leading)
    torch.manual_seed(1)
    positions = IMAGE_POSITIONS["image"](LayerContext("encoder", 0, grid=grid), 10, 2).double()
    query, gradient = torch.randn(2, 2, grid.tokens, 5).double().requires_grad_(), torch.randn(grid.tokens).double()
    found = []
    for training in (True, False):
        scores = positions.train(training)(SimpleNamespace(q=query, v=query, scale=0.5))
        found.append((scores, *torch.autograd.grad((scores * gradient).sum(), [query, *positions.parameters()])))
    torch.testing.assert_close(*found)


@torch.no_grad()
@pytest.mark.parametrize("base", ["vit_tiny", "aa_resnet_20"])
def test_evolving_attention_is_added_to_a_trained_model_as_the_identity(base):
    plain = build_tiny(base)
    model, images = build_tiny(base, "ea_transformer", seed=2, ea_alpha=0.0), draw(1, IMAGES[base])
    model.load_state_dict(plain.state_dict(), args=model.args)
    expected = classes(plain, images)
    assert_close(classes(model, images), expected, 1e-5 * expected.abs().max().item())


@each_base
def test_a_checkpoint_with_other_layers_is_refused(base):
    model = build_tiny(base, "ea_transformer")
    state = model.state_dict() | {"encoder.layers.7.self_attn.out_proj.bias": torch.zeros(1)}
    with pytest.raises(UserError, match=re.escape("the model has no encoder.layers.7.self_attn.out_proj.bias")):
        model.load_state_dict(state, args=model.args)


@torch.no_grad()
@each_base
def test_half_precision_is_near(base):
    model, images = build_tiny(base, "ea_transformer"), draw(1, IMAGES[base])
    expected = classes(model, images)
    with torch.autocast("cpu", torch.bfloat16):
        found = classes(model, images)
    assert_close(found.float(), expected, 0.1 * max(1, expected.abs().max()))


def test_each_mechanism_that_brings_no_branch_has_models():
    for base in TINY:
        without = {name for name, family in FAMILIES.items() if family.model(base) not in ARCH_MODEL_REGISTRY}
        assert without == {"conv_transformer", "pa_conv_transformer", "lite_transformer"}


def test_heads_of_full_width_need_a_projection_of_the_output():
    for base in TINY:
        if base == "conv_transformer_image":
            with pytest.raises(UserError, match=r"^--full-width-heads is for attentions that project"):
                build_tiny(base, "quadratic_transformer", full_width_heads=True)
        else:
            model = build_tiny(base, "quadratic_transformer", full_width_heads=True)
            assert classes(model, draw(1, IMAGES[base])).isfinite().all()


def test_defaults_are_the_papers_and_every_flag_is_in_the_help():
    weights = {"vit_base": (0.1, 0.3), "aa_resnet_34": (0.5, 1.0), "conv_image": (0.1, 0.3)}
    for arch, expected in weights.items():
        args, model, parser = Namespace(), ARCH_MODEL_REGISTRY[f"ea_{arch}"], ArgumentParser()
        ARCH_CONFIG_REGISTRY[f"ea_{arch}"](args)
        assert (args.ea_alpha, args.ea_beta, args.ea_kernel_size, args.ea_start) == (*expected, 3, "conv")
        model.add_args(parser)
        assert all(
            flag_of(opt.name) in parser.format_help() for options in model.option_classes() for opt in fields(options)
        )
    assert ResNetOptions(resnet_depth="50").resnet_depth == 50
