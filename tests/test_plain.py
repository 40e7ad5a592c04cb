"""With every switch off, evolving attention is fairseq's Transformer."""

import pytest
import torch

from tiny import OFF, TINY, build, random_tokens

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
@pytest.mark.parametrize("training", [False, True])
def test_same_outputs_to_the_last_bit(pair, training):
    plain, ours = (model.train(training) for model in pair)
    source, target = sentences(plain.encoder.padding_idx)
    assert torch.equal(ours(source, None, target)[0], plain(source, None, target)[0])


@torch.no_grad()
def test_same_outputs_step_by_step(pair):
    plain = pair[0]
    source, target = sentences(plain.encoder.padding_idx)
    outputs = []
    for model in pair:
        state, encoded = {}, model.encoder(source)
        steps = [model.decoder(target[:, : t + 1], encoded, incremental_state=state)[0] for t in range(4)]
        outputs.append(torch.cat(steps, 1))
    assert torch.equal(*outputs)


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


def test_a_switched_off_convolution_takes_its_parameters_along():
    ours = build("ea_transformer", **TINY, no_cross_conv=True)
    convolved = {name.split(".conv.")[0] for name in ours.state_dict() if ".conv." in name}
    assert convolved == {f"{side}.layers.{layer}.self_attn" for side in ("encoder", "decoder") for layer in (0, 1)}
