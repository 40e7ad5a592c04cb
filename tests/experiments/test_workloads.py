"""What benchmark.py times and counts: equal work on both sides, and exact counts."""

from mmap import mmap

import pytest
import torch
from torch import nn

from ea_fairseq.analysis.cost import saved_for_backward
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.bench import WORKLOADS, count_operations, memory
from ea_fairseq.experiments.benchmark.cases import (
    ENCODER_PARTS,
    EVOLVING,
    EVOLVING_BF16,
    PLAIN,
    PLAIN_SERIES,
    Case,
    Settings,
    Variant,
)
from ea_fairseq.experiments.benchmark.workloads import SHORTEST, batch, lengths
from ea_fairseq.experiments.costs.built_model import dictionary

CPU = torch.device("cpu")
TOKENS = 20


def workload(case: Case, variant: Variant):
    return WORKLOADS[case.part](case, variant, Settings(dictionary=TOKENS))


@pytest.mark.parametrize("seed", range(5))
def test_batches_are_padded_as_fairseq_pads_and_have_few_lengths(seed):
    words = dictionary(TOKENS)
    made = batch(words, 7, 10, CPU, seed)
    source, target = made["net_input"]["src_tokens"], made["target"]
    assert source.shape == target.shape == (7, 10)
    sizes = sorted(lengths(7, 10, seed), reverse=True)
    assert sizes[0] == 10
    assert sizes[-1] >= SHORTEST * 10
    assert made["net_input"]["src_lengths"].tolist() == sizes
    assert source.ne(words.pad()).sum() == target.ne(words.pad()).sum() == made["ntokens"] == sum(sizes)
    assert source[:, -1].eq(words.eos()).all()
    assert target[:, 0].ne(words.pad()).all()


@pytest.mark.parametrize("part", ["block", "training", "generation"])
def test_both_sides_do_the_same_work(part):
    case = Case(part, "lite", length=5, sentences=3, beam=2 if part == "generation" else 0)
    sides = [workload(case, variant) for variant in (PLAIN, EVOLVING)]
    assert sides[0].words == sides[1].words
    if part == "block":
        assert torch.equal(sides[0].padding, sides[1].padding)
        assert sides[0].query.shape == sides[1].query.shape
    else:
        for name in ("src_tokens", "prev_output_tokens"):
            assert torch.equal(*(side.batch["net_input"][name] for side in sides))
    added = sum(parameter.numel() for parameter in sides[1].parameters)
    added -= sum(parameter.numel() for parameter in sides[0].parameters)
    assert added == (4 * 4 * 9 + 4) * (1 if part == "block" else 18)  # the convolutions
    for side in sides:
        side.step()


@pytest.mark.parametrize("part", ENCODER_PARTS)
def test_encoders_do_the_same_work_beside_fairseqs_roberta(part):
    case = Case(part, "tiny", length=5, sentences=3)
    sides = [workload(case, variant) for variant in (PLAIN, EVOLVING)]
    assert sides[0].words == sides[1].words == sum(lengths(3, 5, 1))
    assert torch.equal(*(side.batch["net_input"]["src_tokens"] for side in sides))
    sizes = [sum(parameter.numel() for parameter in side.parameters) for side in sides]
    assert sizes[1] - sizes[0] == 4 * (4 * 4 * 9 + 4)  # the convolutions
    for side in sides:
        before = [parameter.clone() for parameter in side.parameters]
        side.step()
        changed = any(not torch.equal(*pair) for pair in zip(before, side.parameters, strict=True))
        assert changed == side.has_backward == (part == "tuning")


def test_a_family_without_encoders_is_named():
    with pytest.raises(UserError, match="shaw has no encoders"):
        workload(Case("inference", "tiny", 5, 3), EVOLVING.of_family("shaw"))


def test_a_generation_decodes_all_words_of_all_sentences():
    made = workload(Case("generation", "lite", 6, 3, beam=2), EVOLVING)
    output_layer = made.model.decoder.output_layer

    def wish_to_end(features: torch.Tensor) -> torch.Tensor:
        return output_layer(features).index_fill(-1, torch.tensor(made.dictionary.eos()), 100.0)

    made.model.decoder.output_layer = wish_to_end
    hypotheses = made.generator.generate([made.model], made.batch)
    assert [len(of_sentence[0]["tokens"]) for of_sentence in hypotheses] == [6] * 3
    assert made.words == 18


@pytest.mark.parametrize("variant", [EVOLVING, EVOLVING_BF16], ids=lambda variant: variant.name)
def test_a_block_passes_logits_with_gradients(variant):
    block = workload(Case("block", "lite", 5, 3), variant)
    output, logits = block.forward()
    assert logits.shape == block.previous.shape == (3, 4, 5, 5)
    assert block.previous.dtype == logits.dtype == output.dtype == (torch.bfloat16 if variant.bf16 else torch.float32)
    block.step()
    gradients = [tensor.grad.clone() for tensor in (block.query, block.previous, *block.parameters)]
    assert all(gradient.abs().sum() > 0 for gradient in gradients[:-1])
    block.step()
    assert torch.equal(block.previous.grad, gradients[1])  # not added up from step to step


def test_training_updates_parameters():
    training = workload(Case("training", "lite", 5, 3), PLAIN)
    before = [parameter.clone() for parameter in training.parameters]
    training.step()
    assert all(not torch.equal(*pair) for pair in zip(before, training.parameters, strict=True))
    assert training.words == sum(lengths(3, 5, 1))


def test_an_unknown_criterion_is_named():
    with pytest.raises(UserError, match="no_such_criterion"):
        workload(Case("training", "lite", 5, 3), Variant("odd", criterion="no_such_criterion"))


def test_views_are_no_operations():
    x, weight = torch.randn(3, 4), torch.randn(5, 4)

    def step():
        flat = (x.t().t().view(2, 6)[1:] + 1).reshape(-1)  # one: the sum
        return torch.nn.functional.linear(x, weight).relu().unsqueeze(0), flat  # two: product and ReLU

    assert count_operations(step) == 3
    assert count_operations(lambda: torch.ones(2, 3, 4) @ weight.t()) == 2  # ones and a product


def test_the_backward_pass_counts_too():
    x = torch.randn(4, requires_grad=True)
    assert count_operations(lambda: (x * x).sum()) == 2
    # beside these: ones_like of the sum, its expansion is a view, two products and their sum
    assert count_operations(lambda: (x * x).sum().backward()) == 2 + 4


def test_saved_storages_count_once_and_parameters_not_at_all():
    x, weight = torch.randn(8, 4, requires_grad=True), nn.Parameter(torch.randn(4, 4))
    numbers = 4 * 8 * 4

    assert saved_for_backward(lambda: x.exp(), []) == numbers  # its output
    assert saved_for_backward(lambda: x * x, []) == numbers
    assert saved_for_backward(lambda: (x[:4] * x[4:]).exp(), []) == numbers + numbers // 2
    assert saved_for_backward(lambda: x @ weight, [weight]) == numbers
    assert saved_for_backward(lambda: x @ weight, []) == numbers + 4 * 4 * 4
    assert saved_for_backward(lambda: x + 1, []) == 0


def test_the_peak_of_memory_does_not_fall_with_what_is_freed():
    before = memory(CPU, "VmRSS")
    with mmap(-1, 64 << 20) as large:
        large.write(b"x" * len(large))
        assert memory(CPU, "VmRSS") > before + (32 << 20)
    assert memory(CPU, "VmHWM") > before + (32 << 20)


def test_series_in_plain_pytorch_compute_what_the_kernels_do():
    case = Case("series", "", length=7, sentences=3)
    plain, evolving = (workload(case, variant) for variant in (PLAIN_SERIES, EVOLVING))
    assert plain.words == evolving.words == 21
    outputs, gradients = [], []
    for side in (plain, evolving):
        for module in side.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        outputs.append(side.forward()[0])
        gradients.append(torch.autograd.grad(outputs[-1], side.parameters))
    torch.testing.assert_close(*outputs)
    assert len(gradients[0]) == len(gradients[1])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)
    before = [parameter.clone() for parameter in plain.parameters]
    plain.step()
    assert any(not torch.equal(*pair) for pair in zip(before, plain.parameters, strict=True))


def test_a_family_without_models_of_series_is_named():
    with pytest.raises(UserError, match="lite_transformer has no models of time series"):
        workload(Case("series", "", 5, 3), EVOLVING.of_family("lite_transformer"))
