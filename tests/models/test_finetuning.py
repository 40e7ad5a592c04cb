"""A trained Transformer takes evolving attention on; what does not fit is refused."""

import logging

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attentions import evolved
from ea_fairseq.attention.evolution import Evolution
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.window import WINDOWS
from ea_fairseq.mechanisms.evolving import EvolvingAttention
from forked import run_forked, run_forked_well
from laws import assert_close, scores
from reversal import logged, train, train_command
from tiny import OFF, TINY, build, build_loud, random_tokens

NO_SKIP = {"no_encoder_skip": True}


def batch(model):
    generator = torch.Generator().manual_seed(1)
    source, target = random_tokens(generator, 3, 9), random_tokens(generator, 3, 8)
    source[0, :4] = target[1, 5:] = model.encoder.padding_idx
    return source, target


def outputs(model):
    """What the model says of the real target words of a padded batch."""
    source, target = batch(model)
    return scores(model, source, target)[target != model.encoder.padding_idx]


@pytest.fixture(scope="module")
def plain():
    """A plain Transformer with attention far from uniform."""
    return build_loud(**OFF, seed=7)


@given(
    window=st.sampled_from([*WINDOWS.values()]),
    kernel_size=st.sampled_from([1, 3, 5]),
    alpha=st.floats(0, 1),
    beta=st.floats(0.01, 1),
    seed=st.integers(0, 1000),
)
def test_the_identity_changes_no_probability(window, kernel_size, alpha, beta, seed):
    torch.manual_seed(seed)
    own, previous = torch.randn(2, 3, 2, 6, 7).mul(5).clamp(-15, 15)
    identity, absent = (
        EvolvingAttention(8, 2, Evolution(window, alpha, strength, kernel_size, identity=True))
        for strength in (beta, 0.0)
    )
    expected = evolved(absent, own, previous).softmax(-1)
    assert_close(evolved(identity, own, previous).softmax(-1), expected, 1e-4)


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
def test_without_a_skip_connection_it_starts_as_the_plain_model(plain, kernel_size):
    """A state dict of the plain model is left as it is, for other models."""
    parameters, evolving = plain.state_dict(), build(**TINY, **NO_SKIP, ea_kernel_size=kernel_size)
    names = list(parameters)
    evolving.load_state_dict(parameters)
    assert list(parameters) == names
    for name, parameter in plain.state_dict().items():
        assert torch.equal(evolving.state_dict()[name], parameter), name
    assert_close(outputs(evolving), outputs(plain), 1e-4)
    assert (outputs(build(**TINY, **NO_SKIP)) - outputs(plain)).abs().max() > 0.1


def test_the_log_says_in_one_line_what_is_new(plain, caplog):
    with caplog.at_level(logging.INFO, logger="ea_fairseq"):
        build(**TINY).load_state_dict(plain.state_dict())
        build(**TINY, **OFF).load_state_dict(plain.state_dict())
    (message,) = caplog.messages
    assert "6 convolutions with 228 parameters are new and start as the identity" in message


@pytest.mark.parametrize(
    ("family", "sentence"),
    [
        ("lime", "2 mixtures of layers with 16 parameters are new and start as the identity,"),
        ("gated_attention", "6 gates with 96 parameters are new and start at random,"),
        (
            "ea_gated_attention",
            "6 convolutions and gates with 324 parameters are new and start as the identity, gates at random,",
        ),
        (
            "ea_value_residual",
            "6 convolutions and pairs of weights with 234 parameters are new and start as the identity, pairs of "
            "weights as 0 and 1,",
        ),
    ],
)
def test_the_log_says_how_what_is_new_starts(plain, caplog, family, sentence):
    with caplog.at_level(logging.INFO, logger="ea_fairseq"):
        build(family, **TINY).load_state_dict(plain.state_dict())
    assert sentence in caplog.text


def test_the_start_can_be_random(plain):
    evolving = build(**TINY, ea_init="random")
    expected = {name: tensor.clone() for name, tensor in evolving.state_dict().items() if ".conv." in name}
    evolving.load_state_dict(plain.state_dict())
    assert all(torch.equal(evolving.state_dict()[name], tensor) for name, tensor in expected.items())


def test_from_scratch_the_start_is_random_unless_asked_for():
    centre = [layer.self_attn.conv.weight[0, 0, 1, 1].item() for layer in build(**TINY).encoder.layers]
    assert len({*centre, 1.0}) == 3
    for layer in build(**TINY, ea_init="identity").encoder.layers:
        assert torch.equal(layer.self_attn.conv.weight[:, :, 1, 1], torch.eye(2))
        assert layer.self_attn.conv.weight.sum() == 2


def test_what_is_new_learns_from_the_start(plain):
    evolving = build(**TINY)
    evolving.load_state_dict(plain.state_dict())
    evolving(batch(plain)[0], None, batch(plain)[1])[0].logsumexp(-1).square().mean().backward()
    for name, parameter in evolving.named_parameters():
        if name.endswith("conv.weight"):
            assert (parameter.grad != 0).any(), name


def test_an_evolving_checkpoint_keeps_its_own_convolutions():
    evolving, other = build_loud(seed=2), build_loud(seed=3)
    other.load_state_dict(evolving.state_dict())
    assert torch.equal(outputs(other), outputs(evolving))


MISMATCHES = {
    "width": (
        {"encoder_embed_dim": 16},
        {},
        "encoder.embed_tokens.weight is 44 x 16 in the checkpoint",
    ),
    "width, plain": (
        {"encoder_ffn_embed_dim": 4, **OFF},
        {},
        "encoder.layers.0.fc1.weight is 4 x 8 in the checkpoint",
    ),
    "kernel": (
        {"ea_kernel_size": 5},
        {},
        "encoder.layers.0.self_attn.conv.weight is 2 x 2 x 5 x 5 in the checkpoint",
    ),
    "shallower": ({"decoder_layers": 1}, {}, "has no decoder.layers.1.self_attn.k_proj.weight"),
    "deeper": ({"encoder_layers": 3}, {}, "the model has no encoder.layers.2.self_attn.k_proj.weight"),
    "a convolution less": (
        {"no_cross_conv": True},
        {},
        "has no decoder.layers.0.encoder_attn.conv.weight",
    ),
    "a convolution more": ({}, {"no_cross_conv": True}, "the model has no decoder.layers.0.encoder_attn.conv.weight"),
    "switched off": ({}, OFF, "the model has no encoder.layers.0.self_attn.conv.weight"),
    "only skips": ({**OFF, "no_encoder_skip": False}, OFF, "the model has no encoder.layers.0.self_attn.skip"),
}


@pytest.mark.parametrize(("theirs", "ours", "sentence"), MISMATCHES.values(), ids=MISMATCHES)
def test_a_checkpoint_that_does_not_fit_is_refused_and_nothing_of_it_loaded(theirs, ours, sentence):
    model = build(**TINY | ours)
    before = outputs(model)
    with pytest.raises(UserError, match=r"^the checkpoint does not fit the model: ") as refusal:
        model.load_state_dict(build(**TINY | theirs, seed=5).state_dict())
    assert sentence in str(refusal.value)
    assert torch.equal(outputs(model), before)


@pytest.mark.parametrize("options", [{**OFF, "no_encoder_skip": False}, {**OFF, "cross_skip": True}])
def test_a_plain_model_refuses_a_checkpoint_with_skip_connections_alone(options):
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\) in state_dict: .*_attn\.skip"):
        build("transformer", **TINY).load_state_dict(build(**TINY, **options).state_dict())


@pytest.fixture(scope="module")
def home(home):
    """A user's folder with data and the checkpoints of a plain and of an evolving model."""
    train(home, "plain", 14, arch="transformer")
    train(home, "evolving", 2)
    return home


def test_fine_tuning_starts_at_the_validation_loss_of_the_plain_model(home):
    """The learning rate 0 lets the validation after the first update see the model as it was loaded."""
    plain = "plain/checkpoint_last.pt"
    starts = {
        "plain": (["--finetune-from-model", plain], "transformer"),
        "evolving": (["--finetune-from-model", plain, "--no-encoder-skip"], "ea_transformer"),
        "restored": (
            ["--restore-file", plain, "--no-encoder-skip"]
            + [f"--reset-{part}" for part in ("optimizer", "dataloader", "lr-scheduler", "meters")],
            "ea_transformer",
        ),
    }
    first = {}
    for name, (flags, arch) in starts.items():
        log = run_forked_well(*train_command(f"from {name}", 1, *flags, "--no-save", "--lr", "0", arch=arch), cwd=home)
        (first[name],) = logged(log, "valid_loss")
        assert log.count("are new and start as the identity") == (arch == "ea_transformer")
    assert first["evolving"] == first["restored"] == pytest.approx(first["plain"], abs=1e-3)


def test_fairseq_train_refuses_a_plain_model_of_another_size_with_one_sentence(home):
    flags = ["--finetune-from-model", "plain/checkpoint_last.pt", "--decoder-ffn-embed-dim", "4"]
    result = run_forked(*train_command("refused", 1, *flags), cwd=home)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    last_line = result.stderr.splitlines()[-1]
    assert last_line.startswith("fairseq-train: the checkpoint does not fit the model: ")
    assert "layers.0.fc1.weight" in last_line


def test_a_plain_architecture_refuses_an_evolving_checkpoint(home):
    path = "evolving/checkpoint_last.pt"
    result = run_forked(*train_command("refused", 1, "--finetune-from-model", path, arch="transformer"), cwd=home)
    assert result.returncode == 1
    assert "encoder.layers.0.self_attn.conv.weight" in result.stderr
    assert path in result.stderr.splitlines()[-1]
