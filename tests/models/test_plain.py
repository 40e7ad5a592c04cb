"""With every switch off, evolving attention is fairseq's Transformer; alpha or beta zero is as good as a switch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import draw_padded, scores
from tiny import COMBINATIONS, OFF, TINY, build, random_tokens

NO_SKIPS = {"no_encoder_skip": True, "decoder_skip": False, "cross_skip": False}
NO_CONVOLUTIONS = {"no_encoder_conv": True, "no_decoder_conv": True, "no_cross_conv": True}
fraction = st.floats(0.0, 1.0)
PLAIN = {"options off": OFF, "alpha and beta zero": {"ea_alpha": 0.0, "ea_beta": 0.0}}


@pytest.fixture(params=PLAIN.values(), ids=PLAIN)
def pair(request):
    """(fairseq's Transformer, ours), drawn from one seed."""
    return build("transformer", **TINY), build("ea_transformer", **TINY, **request.param)


def sentences(pad):
    generator = torch.Generator().manual_seed(2)
    source, target = random_tokens(generator, 4, 7), random_tokens(generator, 4, 6)
    source[0, :3] = source[1, 5:] = target[2, 4:] = pad
    return source, target


def test_same_parameters_of_the_same_values(pair):
    plain, ours = (model.state_dict() for model in pair)
    assert list(plain) == list(ours)
    for name in plain:
        assert torch.equal(plain[name], ours[name]), name


@torch.no_grad()
@pytest.mark.parametrize("layer", [None, 0])
@pytest.mark.parametrize("heads", [None, 1])
def test_same_alignments_to_the_last_bit(pair, layer, heads):
    """Of the layer and of as many heads as are asked for, with and without later target words."""
    source, target = sentences(pair[0].encoder.padding_idx)
    for later in (False, True):
        asked = {"alignment_layer": layer, "alignment_heads": heads, "full_context_alignment": later}
        (plain, of_plain), (ours, of_ours) = (model.decoder(target, model.encoder(source), **asked) for model in pair)
        assert torch.equal(ours, plain)
        assert torch.equal(of_ours["attn"][0], of_plain["attn"][0])


@torch.no_grad()
def test_same_outputs_step_by_step(pair):
    source, target = sentences(pair[0].encoder.padding_idx)
    outputs = []
    for model in pair:
        state, encoded = {}, model.encoder(source)
        steps = [model.decoder(target[:, : t + 1], encoded, incremental_state=state)[0] for t in range(4)]
        outputs.append(torch.cat(steps, 1))
    assert torch.equal(*outputs)


@given(
    plain=st.sampled_from(
        [
            {"ea_alpha": 0.0, "ea_beta": 0.0},
            {"ea_alpha": 0.0, **NO_CONVOLUTIONS},
            {"ea_beta": 0.0, **NO_SKIPS},
            {**NO_CONVOLUTIONS, **NO_SKIPS},
        ]
    ),
    options=st.sampled_from(COMBINATIONS),
    alpha=fraction,
    beta=fraction,
    training=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=30)
def test_fairseqs_transformer_results_whichever_way_evolution_is_off(plain, options, alpha, beta, training, seed):
    ours = build(**TINY, **{"ea_alpha": alpha, "ea_beta": beta, **options, **plain}).train(training)
    fairseqs = build("transformer", seed=2, **TINY).train(training)
    ours.load_state_dict(fairseqs.state_dict())
    _, source, target = draw_padded(ours, seed)
    assert torch.equal(scores(ours, source, target), scores(fairseqs, source, target))


@pytest.mark.parametrize(
    ("weight", "switches"),
    [("ea_alpha", NO_SKIPS), ("ea_beta", NO_CONVOLUTIONS)],
    ids=["skip connections", "convolutions"],
)
@given(options=st.sampled_from(COMBINATIONS), other=fraction, seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_a_weight_of_zero_switches_off(weight, switches, options, other, seed):
    weights = {"ea_alpha": other, "ea_beta": other}
    weightless = build(**TINY, **options, **{**weights, weight: 0.0})
    switched_off = build(**TINY, **{**options, **switches}, **weights)
    assert list(weightless.state_dict()) == list(switched_off.state_dict())
    _, source, target = draw_padded(weightless, seed)
    assert torch.equal(scores(weightless, source, target), scores(switched_off, source, target))


def test_same_losses_in_training(pair):
    source, target = sentences(pair[0].encoder.padding_idx)
    losses = []
    for model in pair:
        for module in model.modules():
            if type(module).__name__ == "FairseqDropout":
                module.p = 0.2
        model.train()
        torch.manual_seed(3)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        losses.append([])
        for _ in range(5):
            scores = model(source, None, target)[0]
            loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == losses[1]
    assert losses[0][-1] < losses[0][0]


def test_evolving_attention_adds_only_its_convolutions():
    plain, ours = build("transformer", **TINY), build("ea_transformer", **TINY)
    added = set(ours.state_dict()) - set(plain.state_dict())
    assert set(plain.state_dict()) <= set(ours.state_dict())
    assert len(added) == 2 * 3 * TINY["encoder_layers"]
    assert all(".conv." in name for name in added)
