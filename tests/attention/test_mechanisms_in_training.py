"""What must hold for every mechanism in training: gradients, half precision, compiled and exported graphs."""

from functools import partial

import pytest
import torch
from torch.export import Dim

from ea_fairseq.attention.attention import Attention
from laws import LAWS, assert_close, draw_padded, scores
from mechanisms import ROWS, build_family
from model_checks import assert_every_parameter_learns, assert_loss_changes_along_its_gradient, by_our_forward
from tiny import TINY, build, random_tokens

PAD = 1
SUMMANDS = 128  # in a gradient
each_family = pytest.mark.parametrize("family", ROWS)


def step(model, source=None, target=None):
    """The gradient of each parameter after a step of training, on padded sentences unless others are given."""
    if source is None:
        _, source, target = draw_padded(model, seed=4)
    model.train().zero_grad()
    model(source, None, target)[0][target.ne(PAD)].float().cos().sum().backward()
    return {
        name: None if parameter.grad is None else parameter.grad.clone() for name, parameter in model.named_parameters()
    }


def assert_gradients_close(found, expected):
    """Each element is a sum of some hundred terms, tokens and channels, as large as the largest element.

    In what order they are added may change with where a tensor lies in memory, as in MKL on processors of Intel's.
    """
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        atol = 1e-5
        if gradient is not None:
            atol = max(atol, SUMMANDS * torch.finfo(gradient.dtype).eps * gradient.abs().max().item())
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=atol, msg=name)


@each_family
def test_every_parameter_learns(family):
    assert_every_parameter_learns(build_family(family))


@pytest.mark.parametrize("of", ["", "layers.0.self_attn.v_proj", "decoder.layers.0.encoder_attn.v_proj"])
@each_family
def test_the_loss_changes_along_its_gradient(family, of):
    """Of all parameters, and of those that layers above may read again."""
    assert_loss_changes_along_its_gradient(build_family(family, encoder_layers=3, decoder_layers=3), of)


@each_family
@torch.no_grad()
def test_what_is_dropped_out_are_the_weights_of_values(family):
    """Each is zero at dropout's rate, and otherwise divided by the rest; those returned are as they were before.

    What a mechanism makes of the sum of values, such as a norm, is left out.
    """
    rate, queries, sentences, keys = 0.25, 300, 3, 2
    attention = by_our_forward(build_family(family, attention_dropout=rate)).decoder.layers[-1].encoder_attn
    attention.values = partial(Attention.values, attention)
    for layer in (attention.v_proj, attention.out_proj):
        layer.weight.copy_(torch.eye(len(layer.weight)))
        layer.bias.zero_()
    torch.manual_seed(1)
    query, key = (torch.randn(length, sentences, attention.embed_dim) for length in (queries, keys))
    value = torch.eye(keys).repeat(1, attention.embed_dim // keys).unsqueeze(1).expand_as(key)
    output, weights, _ = attention.train()(query, key, value, need_head_weights=True)
    found, again = output.unflatten(-1, (-1, 2, keys)).permute(3, 2, 1, 0, 4)  # each (K, B, T, S): a head has both
    assert torch.equal(found, again)
    torch.testing.assert_close(found, (weights / (1 - rate)).where(found != 0, 0.0))
    assert found.eq(0).float().mean().item() == pytest.approx(rate, abs=0.03)
    torch.testing.assert_close(weights, attention.eval()(query, key, value, need_head_weights=True)[1])


@each_family
def test_activation_checkpointing_changes_no_gradient(family):
    assert_gradients_close(step(build_family(family, checkpoint_activations=True)), step(build_family(family)))


@each_family
def test_activation_checkpointing_under_autocast_changes_gradients_by_less_than_rounding_does(family):
    def gradients(autocast: bool, **options) -> torch.Tensor:
        model = build_family(family, **options).train()
        _, source, target = draw_padded(model, seed=4)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            logits = model(source, None, target)[0]
        logits[target.ne(PAD)].float().cos().sum().backward()
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    exact, rounded = gradients(autocast=False), gradients(autocast=True)
    again = gradients(autocast=True, checkpoint_activations=True)
    assert (again - rounded).norm() < 0.5 * (rounded - exact).norm()


@pytest.mark.parametrize("way", ["stored", "autocast"])
@each_family
def test_bfloat16_trains_and_keeps_the_laws(family, way):
    """With attentions that are not loud, so that rounding stays small."""
    exact = build(family, **TINY, **ROWS[family].options)
    _, source, target = draw_padded(exact, seed=4)
    model = build(family, **TINY, **ROWS[family].options)
    model = model.to(torch.bfloat16) if way == "stored" else model
    with torch.autocast("cpu", torch.bfloat16, enabled=way == "autocast"):
        for law in LAWS:
            law(model, seed=3, tolerance=0.1)
        rounding = scores(model, source, target).float() - scores(exact, source, target)
        assert rounding[target.ne(PAD)].abs().mean() < 0.1
        assert all(gradient.isfinite().all() for gradient in step(model).values())


@pytest.mark.slow
@each_family
def test_one_graph_trains_on_batches_of_every_size(family):
    torch.compiler.reset()
    plain, compiled = (build_family(family).train() for _ in range(2))
    generator = torch.Generator().manual_seed(1)
    batches = [
        (random_tokens(generator, sentences, source), random_tokens(generator, sentences, target))
        for sentences, source, target in [(3, 7, 5), (4, 5, 9), (2, 9, 4), (5, 4, 11)]
    ]
    batches[1][0][0, :2] = batches[1][1][1, -2:] = PAD
    compiled.compile(backend="eager", fullgraph=True, dynamic=True)
    found = [step(compiled, *batches[0])]
    with torch.compiler.set_stance("fail_on_recompile"):
        found += [step(compiled, *batch) for batch in batches[1:]]
    for gradients, batch in zip(found, batches, strict=True):
        assert_gradients_close(gradients, step(plain, *batch))


@pytest.mark.slow
@each_family
@torch.no_grad()
def test_an_exported_model_scores_as_the_model(family):
    model, generator = build_family(family), torch.Generator().manual_seed(1)
    source, target = random_tokens(generator, 3, 7), random_tokens(generator, 3, 5)
    sizes = {0: Dim.AUTO, 1: Dim.AUTO}
    encoder = torch.export.export(model.encoder, (source,), dynamic_shapes=(sizes,), strict=True).module()
    encoded = model.encoder(source)
    decoder = torch.export.export(model.decoder, (target, encoded), strict=True).module()
    assert_close(decoder(target, encoded)[0], scores(model, source, target), 1e-5)
    longer = random_tokens(generator, 2, 11)
    longer[0, :3] = PAD
    found, expected = (side(longer)["encoder_out"][0][3:] for side in (encoder, model.encoder))
    assert_close(found, expected, 1e-5)
