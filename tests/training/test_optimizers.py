"""``--optimizer radam``, ``adamw`` and ``muon`` are torch's, with fairseq's options."""

import pytest
import torch
from fairseq.optim import build_optimizer
from omegaconf import OmegaConf

import encoders
import images
import time_series
import tiny
from ea_fairseq.errors import UserError
from ea_fairseq.optim.torch_optimizers import AdamWConfig, RAdamConfig

TORCHS = {"radam": (torch.optim.RAdam, {"decoupled_weight_decay": True}), "adamw": (torch.optim.AdamW, {"fused": True})}
OPTIMIZERS = pytest.mark.parametrize("name", [*TORCHS, "muon"])
OF_ONE = pytest.mark.parametrize("name", TORCHS)
ADAMW = {"_name": "adamw", "adam_betas": [0.9, 0.99], "adam_eps": 1e-8, "weight_decay": 0.1, "lr": [0.1]}
MUON = {**ADAMW, "_name": "muon", "fp16": False, "bf16": False}
MODEL = {"matrix": (6, 4), "embedding": (5, 4), "vector": (4,)}


def build(name: str, parameter, **given):
    options = {**(MUON if name == "muon" else ADAMW), "_name": name, "weight_decay": 0.0, **given}
    return build_optimizer(OmegaConf.create(options), [parameter])


def steps(optimizer, parameter, count: int = 12) -> torch.Tensor:
    """The parameter after some steps towards zero."""
    for _ in range(count):
        optimizer.zero_grad()
        (parameter**2).sum().backward()
        optimizer.step()
    return parameter.detach()


@OF_ONE
def test_steps_are_torchs_and_weight_decay_is_apart_from_the_gradient(name):
    optimizer, settings = TORCHS[name]
    for decay in (0.0, 0.1):
        ours, torchs = (torch.nn.Parameter(torch.tensor([1.0, -2.0])) for _ in range(2))
        expected = optimizer([torchs], 0.1, (0.9, 0.99), weight_decay=decay, **settings)
        assert torch.equal(steps(build(name, ours, weight_decay=decay), ours), steps(expected, torchs))


def test_adamw_steps_as_fairseqs_adam_where_eps_is_small():
    ours, fairseqs = (torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5])) for _ in range(2))
    given = {"adam_betas": [0.9, 0.999], "weight_decay": 0.1}
    expected = steps(build("adam", fairseqs, tpu=False, **given), fairseqs)
    torch.testing.assert_close(steps(build("adamw", ours, **given), ours), expected, rtol=1e-5, atol=0)


@OPTIMIZERS
def test_a_state_is_taken_and_the_options_that_are_given_count(name):
    first, second = (torch.nn.Parameter(torch.tensor([1.0])) for _ in range(2))
    whole, half = build(name, first), build(name, second)
    steps(half, second, 6)
    resumed = build(name, second, lr=[0.5])
    resumed.load_state_dict(half.state_dict(), {"lr": 0.1})
    assert resumed.get_lr() == 0.1
    assert torch.equal(steps(resumed, second, 6), steps(whole, first))


def test_defaults_are_the_papers_and_fairseqs():
    assert (RAdamConfig().adam_betas, RAdamConfig().weight_decay) == ([0.9, 0.99], 0.0)
    assert (AdamWConfig().adam_betas, AdamWConfig().weight_decay) == ([0.9, 0.999], 0.0)


@OPTIMIZERS
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"adam_betas": [0.9]}, r"--adam-betas must be two numbers, such as '\(0.9, 0.99\)', not \[0.9\]"),
        ({"adam_betas": [0.9, 1.0]}, "--optimizer {} cannot be built: invalid beta parameter at index 1: 1.0"),
        ({"adam_eps": -1.0}, "--optimizer {} cannot be built: invalid epsilon value: -1.0"),
    ],
)
def test_a_bad_option_is_refused(name, given, sentence):
    with pytest.raises(UserError, match=f"^{sentence.format(name)}"):
        build(name, torch.nn.Parameter(torch.ones(1)), **given)


def parameters() -> dict[str, torch.nn.Parameter]:
    """A matrix, an embedding and a vector."""
    torch.manual_seed(1)
    found = {name: torch.nn.Parameter(torch.randn(shape)) for name, shape in MODEL.items()}
    found["embedding"].is_embedding = True
    return found


def stepped(optimizer, model: dict, count: int) -> list[torch.Tensor]:
    for _ in range(count):
        optimizer.zero_grad()
        sum((parameter**2).sum() for parameter in model.values()).backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.values()]


def test_muon_moves_matrices_by_momentum_with_equal_singular_values_and_the_rest_as_adamw():
    model, others = parameters(), parameters()
    before = model["matrix"].detach().clone()
    muon = build_optimizer(OmegaConf.create({**MUON, "weight_decay": 0.0}), list(model.values()))
    stepped(muon, model, 1)
    step = (before - model["matrix"].detach()) / (0.1 * 0.2 * 6**0.5)  # the scale of AdamW's steps
    assert torch.linalg.svdvals(step).sub(1).abs().max() < 0.35  # as near as five iterations of Newton and Schulz come
    adamw = build_optimizer(OmegaConf.create({**ADAMW, "weight_decay": 0.0}), list(others.values()))
    stepped(adamw, others, 1)
    assert torch.equal(model["embedding"], others["embedding"]) and torch.equal(model["vector"], others["vector"])
    assert not torch.equal(model["matrix"], others["matrix"])


def test_muon_resumes_as_if_undisturbed():
    whole, half = parameters(), parameters()
    first, second = (build_optimizer(OmegaConf.create(MUON), list(model.values())) for model in (whole, half))
    expected = stepped(first, whole, 6)
    stepped(second, half, 3)
    resumed = build_optimizer(OmegaConf.create({**MUON, "lr": [0.5]}), list(half.values()))
    resumed.load_state_dict(second.state_dict(), {"lr": 0.1})
    for ours, its in zip(stepped(resumed, half, 3), expected, strict=True):
        assert torch.equal(ours, its)


NO_LAYERS = {  # matrices with a row for each token, position or segment
    "text": ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight"],
    "encoder": ["encoder.sentence_encoder.embed_tokens.weight", "encoder.sentence_encoder.embed_positions.weight"],
}
MODELS = {
    "Transformer": (lambda: tiny.build(**tiny.TINY), NO_LAYERS["text"]),
    "RoBERTa": (lambda: encoders.build("ea_roberta", **encoders.TINY), NO_LAYERS["encoder"]),
    "BERT, not tied": (
        lambda: encoders.build("ea_bert", **encoders.TINY, untie_weights_roberta=True),
        [*NO_LAYERS["encoder"], "encoder.sentence_encoder.segment_embeddings.weight", "encoder.lm_head.weight"],
    ),
    "classifier": (
        lambda: encoders.build("transformer_classifier", **encoders.TINY, segments=2),
        [NO_LAYERS["encoder"][0], "encoder.sentence_encoder.segment_embeddings.weight"],
    ),
    "ViT": (lambda: images.build_tiny("vit_tiny"), ["encoder.embed_positions"]),
    "time series": (lambda: time_series.build_tiny("dc_transformer"), ["encoder.embed_positions.weight"]),
}


@pytest.mark.parametrize(("build_model", "expected"), MODELS.values(), ids=MODELS)
def test_muon_leaves_embeddings_and_the_output_projection_to_adamw(build_model, expected):
    model = build_model()
    optimizer = build_optimizer(OmegaConf.create(MUON), list(model.parameters()))
    _, of_adamw = ({id(parameter) for parameter in group["params"]} for group in optimizer.param_groups)
    found = {name for name, parameter in model.named_parameters() if parameter.ndim == 2 and id(parameter) in of_adamw}
    assert found == set(expected)
