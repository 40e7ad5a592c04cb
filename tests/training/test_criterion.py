"""ea_label_smoothed_cross_entropy is fairseq's label_smoothed_cross_entropy, in less memory."""

import copy
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import prune
from torch.profiler import ProfilerActivity, profile

from criterion_steps import FAIRSEQS, OURS, PAD, WORDS, assert_same_step, batch, criterion, model, step
from ea_fairseq.criterions import smoothed_loss, speed
from ea_fairseq.errors import UserError
from forked import Forked
from reversal import train
from tiny import TINY, build

ARCHS = ["transformer", "ea_transformer"]


@pytest.fixture
def chunked(monkeypatch):
    """Chunks as small as these batches."""
    monkeypatch.setattr(smoothed_loss, "CHUNK", 7)


@given(
    arch=st.sampled_from(ARCHS),
    tied=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
    sentences=st.integers(1, 6),
    length=st.integers(1, 9),
    chunk=st.integers(1, 60),
    scale=st.sampled_from([0.0, 1.0, 128.0]),
    options=st.fixed_dictionaries(
        {
            "label_smoothing": st.sampled_from([0.0, 0.1, 0.5]),
            "ignore_prefix_size": st.integers(0, 3),
            "report_accuracy": st.booleans(),
            "sentence_avg": st.booleans(),
            "reduce": st.booleans(),
        }
    ),
)
@settings(max_examples=40)
def test_loss_gradients_and_logged_figures_are_fairseqs(arch, tied, seed, sentences, length, chunk, scale, options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smoothed_loss, "CHUNK", chunk)
        trained = model(arch, share_all_embeddings=tied)
        assert_same_step(trained, batch(seed, sentences, length), scale=scale, **options)


@given(
    rows=st.integers(0, 6),
    chunk=st.integers(1, 7),
    epsilon=st.floats(0, 0.9),
    frozen=st.sampled_from([None, 0, 1]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=20)
def test_gradients_are_those_of_finite_differences(rows, chunk, epsilon, frozen, seed):
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(size, 3, generator=generator, dtype=torch.float64) for size in (rows, 5)]
    for number, tensor in enumerate(tensors):
        tensor.requires_grad_(number != frozen)
    target = torch.randint(5, (rows,), generator=generator)

    def loss(features, weight):
        return smoothed_loss.smoothed_loss(features, weight, target, epsilon, torch.float64)[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smoothed_loss, "CHUNK", chunk)
        assert torch.autograd.gradcheck(loss, tensors)


@pytest.mark.usefixtures("chunked")
def test_words_that_the_model_finds_likeliest_are_counted():
    sample = batch()
    words = sample["target"].ne(PAD)
    likeliest = model()(**sample["net_input"])[0].argmax(-1)
    sample["target"] = torch.where(words, likeliest, PAD)
    logged = step(model(), OURS, sample, report_accuracy=True)[2]
    assert logged["n_correct"] == logged["total"] == words.sum() > 0


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_of_half_precision_do_not_overflow(dtype):
    half = copy.deepcopy(model()).to(dtype)
    with torch.no_grad():
        half.decoder.output_projection.weight *= 300
    sample = batch(sentences=200)
    loss, _, _, gradients = step(half, OURS, sample)
    assert loss > torch.finfo(torch.float16).max
    torch.testing.assert_close(loss, step(half, FAIRSEQS, sample)[0], rtol=1e-5, atol=0)
    assert all(gradient.isfinite().all() for gradient in gradients if dtype is torch.bfloat16)


def with_hook(trained):
    hooked = copy.deepcopy(trained)
    hooked.decoder.output_projection.register_forward_hook(lambda _module, _inputs, logits: 2 * logits)
    return hooked


def with_bias(trained):
    changed = copy.deepcopy(trained)
    changed.decoder.output_projection.bias = torch.nn.Parameter(torch.randn(len(WORDS)))
    return changed


def with_temperature(trained):
    changed = copy.deepcopy(trained)

    class Cool(type(trained.decoder)):
        def output_layer(self, features):
            return super().output_layer(features) / 2

    changed.decoder.__class__ = Cool
    return changed


def with_shifted_logits(trained):
    changed = copy.deepcopy(trained)

    class Shifted(type(trained)):
        def forward(self, *args, features_only=False, **inputs):
            logits, *others = super().forward(*args, features_only=features_only, **inputs)
            return logits + torch.arange(logits.size(-1)) / 10, *others

    changed.__class__ = Shifted
    return changed


def with_a_forward_of_its_own(trained):
    changed = copy.deepcopy(trained)

    class Squared(type(trained.decoder)):
        def forward(self, *args, **inputs):
            logits, *others = super().forward(*args, **inputs)
            return logits**2, *others

    changed.decoder.__class__ = Squared
    return changed


def lstm(_trained):
    return build("lstm", encoder_embed_dim=8, decoder_embed_dim=8, decoder_out_embed_dim=8, criterion=OURS).train()


def without_decoder(trained):
    class Alone(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = copy.deepcopy(trained)

        def forward(self, **inputs):
            return (self.inner(**inputs)[0].transpose(0, 1),)

        def get_targets(self, sample, net_output):
            return sample["target"]

        def get_normalized_probs(self, net_output, log_probs):
            return net_output[0].transpose(0, 1).log_softmax(-1)

    return Alone()


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize(
    "change",
    [
        with_hook,
        with_bias,
        with_temperature,
        with_shifted_logits,
        with_a_forward_of_its_own,
        lstm,
        without_decoder,
    ],
)
def test_models_that_end_in_more_than_a_projection_are_served_too(change):
    trained = change(model())
    sample = batch()
    sample["net_input"]["src_lengths"] = torch.full((5,), 9)
    assert_same_step(trained, sample, report_accuracy=True, label_smoothing=0.2)


@pytest.mark.parametrize("arch", ARCHS)
def test_logits_of_a_whole_batch_are_never_made(arch, monkeypatch):
    def refuse(_features):
        raise AssertionError("logits of a whole batch")

    monkeypatch.setattr(model(arch).decoder, "output_layer", refuse)
    assert step(model(arch), OURS, batch())[0] > 0


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("options", [{}, {"adaptive_softmax_cutoff": "10,20"}])
def test_validation_makes_no_gradients(options):
    evaluated = build(**TINY, **options)
    with torch.no_grad():
        (loss, _, logged), (ours, _, our_logged) = (
            criterion(name, report_accuracy=True)(evaluated, batch()) for name in (FAIRSEQS, OURS)
        )
    assert not ours.requires_grad
    torch.testing.assert_close([ours, our_logged], [loss, logged], rtol=1e-6, atol=0)


@pytest.mark.parametrize("arch", ARCHS)
def test_an_output_projection_that_is_pruned_is_fairseqs(arch):
    pruned = copy.deepcopy(model(arch))
    prune.l1_unstructured(pruned.decoder.output_projection, "weight", 0.5)
    for _ in range(2):
        assert_same_step(pruned, batch())
        with torch.no_grad():
            pruned.decoder.output_projection.weight_orig.mul_(2)


@pytest.mark.parametrize("name", [OURS, "r_drop"])
@pytest.mark.parametrize("arch", ARCHS)
def test_a_batch_that_a_process_lacks_has_gradients_of_zero(name, arch):
    """fairseq gives the process another one, and multiplies its loss by zero in place."""
    trained = model(arch)
    trained.zero_grad()
    loss, _, _ = criterion(name)(trained, batch())
    loss *= 0
    loss.backward()
    assert not any(parameter.grad.any() for parameter in trained.parameters())


def test_second_derivatives_are_refused():
    sample, trained = batch(), model()
    loss, _, _ = criterion(OURS)(trained, sample)
    with pytest.raises(RuntimeError, match="this loss has no second derivatives"):
        torch.autograd.grad(loss, list(trained.parameters()), create_graph=True)


def test_gradients_of_an_adaptive_softmax_are_those_of_finite_differences():
    adaptive = build(**TINY, adaptive_softmax_cutoff="10,20", adaptive_softmax_factor=2)
    softmax = adaptive.double().decoder.adaptive_softmax
    features = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: softmax.get_log_prob(x, None), (features, *softmax.parameters()))
    found = softmax.get_log_prob(features, None)
    with torch.no_grad():
        torch.testing.assert_close(found, softmax.get_log_prob(features, None))


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("arch", ARCHS)
def test_a_step_with_an_adaptive_softmax_is_fairseqs(arch):
    assert_same_step(model(arch, adaptive_softmax_cutoff="10,20"), batch())


@pytest.mark.parametrize("arch", ARCHS)
def test_autocast_is_torchs(arch):
    """Model and loss are what they are when fairseq's criterion runs under autocast, but for rounding."""
    trained, sample = model(arch), batch(sentences=20)
    with torch.autocast("cpu", torch.bfloat16), sdpa_kernel(SDPBackend.MATH):
        loss, _, _, gradients = step(trained, FAIRSEQS, sample)
    ours, _, _, our_gradients = step(trained, OURS, sample, autocast="bf16")
    torch.testing.assert_close(ours, loss, rtol=1e-5, atol=0)
    assert ours != step(trained, OURS, sample)[0]
    size = torch.stack([gradient.norm() for gradient in gradients]).norm()
    for our, gradient in zip(our_gradients, gradients, strict=True):
        assert our.dtype == torch.float32
        rounding = 1e-4 * size  # all there is of some gradients, as those of keys' biases
        assert (our - gradient).norm() < 0.02 * gradient.norm() + rounding
    with torch.no_grad():  # where torch's flash attention rounds otherwise
        torch.testing.assert_close(criterion(OURS, autocast="bf16")(trained, sample)[0], ours, rtol=2**-8, atol=0)


@pytest.mark.parametrize("arch", ARCHS)
def test_autocast_keeps_off_flash_attention_whose_gradients_are_slow(arch):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        step(model(arch), OURS, batch(sentences=20), autocast="bf16")
    names = {event.key for event in profiler.key_averages()}
    assert "aten::mm" in names
    assert not [name for name in names if "flash_attention" in name]


def test_autocast_rounds_in_each_chunk_alike(monkeypatch):
    sample = batch(sentences=20)
    whole = step(model(), OURS, sample, autocast="bf16")
    monkeypatch.setattr(smoothed_loss, "CHUNK", 11)
    chunked = step(model(), OURS, sample, autocast="bf16")
    torch.testing.assert_close(chunked[0], whole[0], rtol=1e-6, atol=0)
    for one, other in zip(chunked[3], whole[3], strict=True):
        assert (one - other).norm() < 0.01 * other.norm() + 1e-3


@pytest.mark.parametrize("there", [True, False])
def test_a_processor_without_bfloat16_is_warned_of_once(monkeypatch, caplog, there):
    monkeypatch.setattr(speed, "has_bfloat16", lambda: there)
    speed.warn_if_slow.cache_clear()
    for autocast in ("none", "bf16", "bf16"):
        criterion(OURS, autocast=autocast)(model(), batch())
        assert ("no fast matrix products in bfloat16" in caplog.text) == (autocast == "bf16" and not there)
    assert len(caplog.records) == (not there)


@pytest.mark.parametrize("flag", ["fp16", "bf16", "amp"])
def test_one_precision_at_a_time(flag):
    with pytest.raises(UserError, match="leave those out"):
        criterion(OURS, autocast="bf16", **{flag: True})


PARALLEL = """
import sys
from pathlib import Path
import torch
import torch.distributed as dist
from fairseq.distributed import LegacyDistributedDataParallel, ModuleProxyWrapper
from torch.nn.parallel import DistributedDataParallel
from criterion_steps import OURS, batch, criterion, half_of, model

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=Path("meeting").absolute().as_uri(), rank=rank, world_size=2)
wrapped = {
    "legacy_ddp": lambda: LegacyDistributedDataParallel(model(), process_group=None),
    "c10d": lambda: DistributedDataParallel(model()),
    "c10d with unused parameters": lambda: DistributedDataParallel(model(), find_unused_parameters=True),
}
gradients = {}
for name, wrap in wrapped.items():
    proxy = ModuleProxyWrapper(wrap())
    for _ in range(2):
        model().zero_grad()
        criterion(OURS)(proxy, half_of(batch(), rank))[0].backward()
        if name == "legacy_ddp":
            proxy.all_reduce_grads()
    gradients[name] = [2 * parameter.grad for parameter in model().parameters()]
torch.save(gradients, f"gradients of {rank}.pt")
dist.destroy_process_group()
"""


def test_processes_add_up_to_one(tmp_path):
    processes = [Forked("parallel", rank, cwd=tmp_path, code=PARALLEL) for rank in (0, 1)]
    for result in [process.wait() for process in processes]:
        assert result.returncode == 0, result.stdout + result.stderr
    *_, expected = step(model(), FAIRSEQS, batch())
    for rank in (0, 1):
        for gradients in torch.load(tmp_path / f"gradients of {rank}.pt").values():
            torch.testing.assert_close(gradients, expected, rtol=1e-5, atol=1e-5)


UPDATES, PART = 10, 4
EXACT = ["--dropout", "0", "--save-interval-updates", "1", "--disable-validation", "--label-smoothing", "0.1"]
AUTOCAST = ["--criterion", OURS, "--autocast", "bf16"]


def train_from(home: Path, folder: str, *flags) -> list[float]:
    """Goes on with the training in a folder, in another folder and from a checkpoint in its midst."""
    other = home / f"{folder} with {' '.join(flags)}"
    other.mkdir()
    (other / "checkpoint_last.pt").hardlink_to(home / folder / f"checkpoint_1_{PART}.pt")
    return train(home, other.name, UPDATES, *EXACT, *flags)


@pytest.fixture(scope="module")
def fairseqs(home):
    return train(home, "fairseq's", UPDATES, *EXACT, "--criterion", FAIRSEQS)


def test_trainings_by_fairseqs_criterion_go_on_with_ours(home, fairseqs):
    """Logged losses have three decimals."""
    assert train_from(home, "fairseq's", "--criterion", OURS) == pytest.approx(fairseqs[PART:], abs=0.002)


def test_trainings_under_autocast_learn_and_go_on(home, fairseqs):
    losses = train(home, "autocast", UPDATES, *EXACT, *AUTOCAST)
    assert train_from(home, "autocast", *AUTOCAST) == losses[PART:]
    assert losses != fairseqs
    assert losses == pytest.approx(fairseqs, abs=0.05)
    saved = torch.load(home / "autocast" / "checkpoint_last.pt")
    assert {tensor.dtype for tensor in saved["model"].values()} == {torch.float32}


def test_trainings_with_fast_dropout_go_on(home):
    flags = ["--criterion", OURS, "--dropout", "0.3"]
    fast = [*flags, "--fast-dropout"]
    losses = train(home, "fast dropout", UPDATES, *EXACT, *fast)
    assert train_from(home, "fast dropout", *fast) == losses[PART:]
    slow = train(home, "dropout", UPDATES, *EXACT, *flags)
    assert losses != slow
    assert losses == pytest.approx(slow, abs=0.5)
