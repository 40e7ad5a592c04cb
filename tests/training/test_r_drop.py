"""The criterion ``r_drop`` computes the paper's loss of two passes."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from fairseq.logging import metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from criterion_steps import FAIRSEQS, PAD, batch, criterion, model, step
from ea_fairseq.criterions import smoothed_loss
from ea_fairseq.errors import UserError
from forked import run_forked_well
from reversal import logged, train_command
from tiny import TINY, build

SMOOTHING = 0.1
NOISY = {**TINY, "dropout": 0.3}


def paper_loss(sample: dict, both: torch.Tensor, alpha: float) -> torch.Tensor:
    """R-Drop eq. 3 to 5 of the logits of two passes, (2, B, T, V), word by word."""
    loss = 0.0
    for sentence, words in enumerate(sample["target"]):
        for place, word in enumerate(words):
            if word == PAD:
                continue
            first, second = both[:, sentence, place].double().log_softmax(-1)
            spread = SMOOTHING / (len(first) - 1)
            for passed in (first, second):
                loss -= (1 - SMOOTHING - spread) * passed[word] + spread * passed.sum()
            there, back = (
                F.kl_div(p, q, reduction="sum", log_target=True) for p, q in ((first, second), (second, first))
            )
            loss += alpha * (there + back) / 2
    return loss / 2


@given(seed=st.integers(0, 2**32 - 1), alpha=st.floats(0, 10), sentences=st.integers(1, 4))
@settings(max_examples=10)
def test_the_loss_is_half_of_the_papers(seed, alpha, sentences):
    torch.manual_seed(seed)
    sample = batch(seed, sentences, 6)
    noisy = build("ea_transformer", **NOISY).train()
    outputs = []
    handle = noisy.register_forward_hook(lambda module, inputs, output: outputs.append(output[0]))
    loss, size, figures = criterion("r_drop", r_drop_alpha=alpha)(noisy, sample)
    handle.remove()
    (features,) = outputs
    logits = noisy.decoder.output_layer(features)
    assert size == sample["ntokens"] and figures["nsentences"] == sentences
    expected = paper_loss(sample, logits.unflatten(0, (2, sentences)).detach(), alpha)
    torch.testing.assert_close(loss.double(), torch.as_tensor(expected).double(), rtol=1e-4, atol=1e-4)


@given(
    seed=st.integers(0, 2**32 - 1),
    chunk=st.sampled_from([2, 6, 60]),
    options=st.fixed_dictionaries({"r_drop_alpha": st.floats(0, 10), "ignore_prefix_size": st.integers(0, 2)}),
)
@settings(max_examples=10)
def test_gradients_are_those_of_a_model_whose_logits_are_of_its_own(seed, chunk, options):
    """Of features the gradients are written down, of logits they are autograd's."""
    ours = build("ea_transformer", **NOISY).double().train()
    strangers = copy.deepcopy(ours)
    strangers.decoder.output_projection.register_forward_hook(lambda module, inputs, logits: logits)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smoothed_loss, "CHUNK", chunk)
        for noisy in (ours, strangers):
            torch.manual_seed(seed)
            loss, _, logged, gradients = step(noisy, "r_drop", batch(seed, 4, 6), **options)
            figures = torch.stack([loss, logged["nll_loss"], logged["divergence"]]).double()
            found.append((figures, torch.cat([gradient.flatten() for gradient in gradients])))
    (figures, gradient), (expected_figures, expected) = found
    torch.testing.assert_close(figures, expected_figures, rtol=1e-5, atol=1e-6)
    assert (gradient - expected).norm() <= 1e-5 * expected.norm()  # fairseq's probabilities are float32


@pytest.mark.parametrize("sentence_avg", [False, True])
def test_without_dropout_it_is_the_ordinary_loss(sentence_avg):
    sample = batch(3)
    (loss, size, logged, gradients), (ours, our_size, ours_logged, our_gradients) = (
        step(model(), name, sample, sentence_avg=sentence_avg, report_accuracy=True, **options)
        for name, options in ((FAIRSEQS, {}), ("r_drop", {"r_drop_alpha": 5.0}))
    )
    torch.testing.assert_close(ours, loss)
    assert our_size == size and ours_logged.pop("divergence") == pytest.approx(0, abs=1e-6)
    assert ours_logged["n_correct"] / ours_logged["total"] == logged["n_correct"] / logged["total"]
    same = logged.keys() - {"n_correct", "total"}
    assert {name: float(ours_logged[name]) for name in same} == pytest.approx(
        {name: float(logged[name]) for name in same}
    )
    for found, expected in zip(our_gradients, gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_autocast_rounds_and_no_more():
    sample = batch(3, 20)
    loss, rounded = (step(model(), "r_drop", sample, **options)[0] for options in ({}, {"autocast": "bf16"}))
    assert rounded != loss
    torch.testing.assert_close(rounded, loss, rtol=0.01, atol=0)


def test_validation_is_one_pass_and_logs_no_divergence():
    noisy, sample = build("ea_transformer", **NOISY).eval(), batch(4)
    found = [criterion(name)(noisy, sample) for name in (FAIRSEQS, "r_drop")]
    torch.testing.assert_close(found[0][0], found[1][0])
    assert found[0][2].keys() == found[1][2].keys()


def test_divergence_is_logged_in_bits_per_word():
    with metrics.aggregate() as seen:
        criterion("r_drop").reduce_metrics(
            [{"loss": 1.0, "nll_loss": 1.0, "ntokens": 10, "sample_size": 10, "divergence": 10 * math.log(2)}]
        )
    assert seen.get_smoothed_values()["divergence"] == 1.0


@pytest.mark.parametrize("alpha", [-1.0, math.inf, math.nan])
def test_a_weight_that_is_none_is_refused(alpha):
    with pytest.raises(UserError, match="--r-drop-alpha must be a number of at least 0, not"):
        criterion("r_drop", r_drop_alpha=alpha)


@pytest.mark.slow
def test_a_training_brings_the_passes_together(home):
    flags = ["--criterion", "r_drop", "--label-smoothing", "0.1", "--dropout", "0.3"]
    apart = {}
    for alpha in ("0", "20"):
        command = train_command(f"alpha {alpha}", 120, *flags, "--r-drop-alpha", alpha)
        apart[alpha] = sum(logged(run_forked_well(*command, cwd=home), "divergence")[-30:])
    assert 0 < apart["20"] < 0.5 * apart["0"]
