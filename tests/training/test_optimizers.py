"""``--optimizer radam`` is torch's Rectified Adam with fairseq's options."""

import pytest
import torch
from fairseq.optim import build_optimizer
from omegaconf import OmegaConf

from ea_fairseq import UserError
from ea_fairseq.optim.radam import RAdamConfig


def build(parameter, **given):
    options = {"_name": "radam", "adam_betas": [0.9, 0.99], "adam_eps": 1e-8, "weight_decay": 0.0, "lr": [0.1], **given}
    return build_optimizer(OmegaConf.create(options), [parameter])


def steps(optimizer, parameter, count: int = 12) -> torch.Tensor:
    """The parameter after some steps towards zero."""
    for _ in range(count):
        optimizer.zero_grad()
        (parameter**2).sum().backward()
        optimizer.step()
    return parameter.detach()


def test_steps_are_torchs_and_weight_decay_is_apart_from_the_gradient():
    for decay in (0.0, 0.1):
        ours, torchs = (torch.nn.Parameter(torch.tensor([1.0, -2.0])) for _ in range(2))
        expected = torch.optim.RAdam([torchs], 0.1, (0.9, 0.99), weight_decay=decay, decoupled_weight_decay=True)
        assert torch.equal(steps(build(ours, weight_decay=decay), ours), steps(expected, torchs))


def test_a_state_is_taken_and_the_options_that_are_given_count():
    first, second = (torch.nn.Parameter(torch.tensor([1.0])) for _ in range(2))
    whole, half = build(first), build(second)
    steps(half, second, 6)
    resumed = build(second, lr=[0.5])
    resumed.load_state_dict(half.state_dict(), {"lr": 0.1})
    assert resumed.get_lr() == 0.1
    assert torch.equal(steps(resumed, second, 6), steps(whole, first))


def test_defaults_are_the_papers():
    assert (RAdamConfig().adam_betas, RAdamConfig().weight_decay) == ([0.9, 0.99], 0.0)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"adam_betas": [0.9]}, r"--adam-betas must be two numbers, such as '\(0.9, 0.99\)', not \[0.9\]"),
        ({"adam_betas": [0.9, 1.0]}, "--optimizer radam cannot be used so: invalid beta parameter at index 1: 1.0"),
        ({"adam_eps": -1.0}, "--optimizer radam cannot be used so: invalid epsilon value: -1.0"),
    ],
)
def test_a_bad_option_is_refused(given, sentence):
    with pytest.raises(UserError, match=f"^{sentence}"):
        build(torch.nn.Parameter(torch.ones(1)), **given)
