"""NaN and infinities come out of kernels wherever they come out of PyTorch, and nowhere else.

Of masked entries the kernels say nothing: they clear them before the convolution and after it, where PyTorch clears
them before it and lets the softmax hide them. So what may not get lost is what PyTorch has when it clears them, too.
Where all logits that a query sees are -inf, kernels give NaN, as PyTorch does of a row without masked keys; with some
it would look at those instead.
"""

import random
from contextlib import nullcontext
from dataclasses import dataclass, replace
from unittest import mock

import pytest
import torch
from torch import Tensor

from beam_search import generator_of, sample
from checkpoints import loud_trainer, save_dictionaries
from ea_fairseq.attention import mechanism
from ea_fairseq.attention.evolution import Evolution
from ea_fairseq.attention.inputs import Passed
from ea_fairseq.kernels import dispatch as backends
from ea_fairseq.kernels import triton
from ea_fairseq.kernels.cpu import evolution as native_evolution
from ea_fairseq.kernels.cpu import native_library
from ea_fairseq.kernels.masks import AttentionMasks, probabilities
from ea_fairseq.kernels.triton import evolution as triton_evolution
from ea_fairseq.kernels.window import CROSS_WINDOW, DECODER_WINDOW, WINDOWS
from ea_fairseq.mechanisms.evolving import EvolvingAttention
from evolution_cases import CONVOLUTIONS, draw_case
from model_checks import SETS, native_only
from tiny import SKIPS, build_loud, random_tokens

WEIGHTS = [(0.0, 0.3), (0.4, 0.0), (0.4, 0.3), (0.6, 0.7), (1.0, 1.0)]


class Cleared(EvolvingAttention):
    """Clears the logits that its masks leave nothing of."""

    def transform(self, logits, inputs):
        return inputs.masks.cleared(super().transform(logits, inputs))


def cleared_probabilities(logits: Tensor, masks: AttentionMasks) -> Tensor:
    weights, masked = probabilities(logits, masks), masks.masked
    return weights if masked is None else weights.masked_fill(masked & ~masked.all(-1, keepdim=True), 0.0)


@dataclass
class Case:
    """An attention and what it reads, something of which is not finite."""

    attention: EvolvingAttention
    inputs: dict[str, Tensor]
    masks: dict[str, Tensor]
    blank: Tensor
    need_weights: bool

    def __call__(self, backend: str, clear: bool = False) -> dict[str, Tensor]:
        """Output, logits of words and all gradients."""
        self.attention.__class__ = Cleared if clear else EvolvingAttention
        kept = cleared_probabilities if clear else probabilities
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in self.inputs.items()}
        inputs = dict(leaves)
        inputs.setdefault("key", inputs["query"])
        inputs["value"] = inputs["key"]
        with (
            mock.patch.object(backends, "backend", backend),
            mock.patch.object(mechanism, "probabilities", kept),
        ):
            output, _, (logits, _) = self.attention(**inputs, **self.masks, need_weights=self.need_weights)
            wordless = self.blank.all(-1).any(1).T.unsqueeze(-1)
            results = output.masked_fill(wordless, 0.0), logits.masked_fill(self.blank, 0.0)
            generator = torch.Generator().manual_seed(1)
            value = sum((x * torch.randn(x.shape, generator=generator)).sum() for x in results)
            leaves |= dict(self.attention.named_parameters())
            gradients = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
        gradients = dict(zip(leaves, gradients, strict=True))
        if gradients.get("previous") is not None:
            gradients["previous"] = gradients["previous"].masked_fill(self.blank, 0.0)
        return {"output": results[0], "logits": results[1]} | {
            f"gradient of {name}": tensor for name, tensor in gradients.items() if tensor is not None
        }

    @property
    def has_finite_weights(self) -> bool:
        return self.attention.conv is None or bool(self.attention.conv.weight.isfinite().all())

    def sees_only_infinities(self, logits: Tensor) -> bool:
        """Whether there is a query all of whose keys have -inf."""
        none = (logits == -torch.inf) | self.blank
        return bool((none & ~self.blank).any(-1).logical_and(none.all(-1)).any())


def draw(seed: int, most: int) -> Case:
    """Of up to ``most`` words."""
    choose, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    kind, heads, width = choose.choice(list(WINDOWS)), choose.choice([1, 2, 5]), choose.randint(1, 6)
    alpha, beta = choose.choice(WEIGHTS)
    evolution = Evolution(WINDOWS[kind], alpha, beta, choose.choice([1, 3, 5]))
    attention = EvolvingAttention(heads * width, heads, evolution)
    sentences, queries = choose.randint(1, 2), choose.randint(1, most)
    keys = choose.randint(1, most) if kind == "cross" else queries

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=generator)

    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.copy_(normal(*parameter.shape) / 2)
    inputs = {"query": normal(queries, sentences, heads * width)}
    if kind == "cross":
        inputs["key"] = normal(keys, sentences, heads * width)
    if alpha > 0:
        inputs["previous"] = normal(sentences, heads, queries, keys)
    padded = torch.rand(sentences, keys, generator=generator) < 0.2
    padded[:, choose.randrange(keys)] = False
    masks = {"key_padding_mask": padded}
    blank = padded[:, None, None, :].expand(-1, -1, queries, -1)
    if kind == "decoder":
        masks["attn_mask"] = torch.full((queries, keys), -torch.inf).triu(1)
        blank = blank | masks["attn_mask"].isinf()
    else:
        masks["query_padding_mask"] = padded if kind == "encoder" else torch.rand(sentences, queries) < 0.2
        blank = blank | masks["query_padding_mask"][:, None, :, None]
    case = Case(attention, inputs, masks, blank, choose.random() < 0.3)
    spoil(case, choose)
    return case


def spoil(case: Case, choose: random.Random) -> None:
    """Puts something that is not finite into a word, a logit or a parameter of the convolution."""
    number = choose.choice([torch.nan, torch.inf, -torch.inf])
    real = (~case.blank).nonzero().tolist() or [[0, 0, 0, 0]]
    sentence, _, query, key = choose.choice(real)
    name = choose.choice(list(case.inputs) + (["weight", "bias"] if case.attention.conv is not None else []))
    if name in case.inputs:
        tensor = case.inputs[name]
        at = (sentence, slice(None), query, key)
        if name != "previous":
            at = ({"query": query, "key": key}[name], sentence)
        numbers = tensor[at]
        numbers[choose.randrange(numbers.numel())] = number
    else:
        parameter = getattr(case.attention.conv, name).data
        parameter[tuple(choose.randrange(size) for size in parameter.shape)] = number


def assert_no_number_is_lost(case: Case, backend: str) -> bool:
    """Returns whether anything in the results was not finite."""
    results, plain, cleared = case(backend), case("reference"), case("reference", clear=True)
    # What PyTorch multiplies with the zeros beyond a map depends on the window.
    invents = not case.has_finite_weights or case.sees_only_infinities(plain["logits"])
    for name, tensor in results.items():
        finite, may_be, must_not_be = tensor.isfinite(), plain[name].isfinite(), cleared[name].isfinite()
        if name.endswith("conv.weight"):  # a tap that reads nothing but zeros may be multiplied or left out
            finite, may_be, must_not_be = (which.all() for which in (finite, may_be, must_not_be))
        assert not (finite & ~must_not_be).any(), f"{name} is finite, and PyTorch's is not"
        assert invents or not (~finite & may_be).any(), f"{name} is not finite, and PyTorch's is"
    return not all(tensor.isfinite().all() for tensor in cleared.values())


@pytest.mark.parametrize("instructions", SETS)
def test_native_code_keeps_what_is_not_finite(instructions, monkeypatch):
    monkeypatch.setattr(native_library, "instruction_set", lambda: instructions)
    assert sum(assert_no_number_is_lost(draw(seed, 20), "native") for seed in range(60)) > 50


@pytest.mark.slow
@pytest.mark.parametrize("instructions", SETS)
def test_native_code_keeps_what_is_not_finite_by_more_examples(instructions, monkeypatch):
    monkeypatch.setattr(native_library, "instruction_set", lambda: instructions)
    for seed in range(60, 2000):
        assert_no_number_is_lost(draw(seed, 40), "native")


@pytest.mark.skipif(not triton.AVAILABLE, reason="Triton is not installed")
@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize(
    "seeds", [range(10), pytest.param(range(10, 200), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_triton_keeps_what_is_not_finite(seeds):
    for seed in seeds:
        assert_no_number_is_lost(draw(seed, 4), "triton")


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize(
    ("kernels", "dtype", "most", "count"),
    [
        pytest.param(native_evolution, torch.bfloat16, 20, 60, marks=native_only),
        (triton_evolution, torch.bfloat16, 3, 2),
        (triton_evolution, torch.float16, 3, 2),
    ],
    ids=["native, bfloat16", "Triton, bfloat16", "Triton, float16"],
)
def test_half_precision_keeps_what_float32_keeps(kernels, dtype, most, count):
    """Of the same maps: what PyTorch makes of half precision on a CPU has NaN beside those of the equations."""
    for seed in range(count):
        choose = random.Random(seed)
        sizes = 2, choose.choice([1, 2, 5]), choose.randint(1, most), choose.randint(1, most)
        case = draw_case(seed, sizes, *choose.choice(CONVOLUTIONS), dtype)
        maps = [getattr(case, name) for name in ("scores", "previous", "d_probabilities")]
        tensor = choose.choice([*maps, case.weight, case.bias]).view(-1)
        tensor[choose.randrange(len(tensor))] = choose.choice([torch.nan, torch.inf, -torch.inf])
        exact = {name: getattr(case, name).float() for name in ("scores", "previous", "d_logits", "d_probabilities")}
        for rounded, right in zip(case.operate(kernels), replace(case, **exact).operate(kernels), strict=True):
            assert torch.equal(rounded.isfinite(), right.isfinite())


@pytest.mark.skipif(not triton.AVAILABLE, reason="Triton is not installed")
@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered")
@pytest.mark.parametrize("kernel", [0, 3])
def test_an_overflow_of_float16_shows_in_the_gradients(kernel):
    """So that fairseq's loss scaler sees it."""
    case = draw_case(1, (1, 2, 3, 4), DECODER_WINDOW, kernel or 1, torch.float16)
    case = replace(case, scale=1e6, **({} if kernel else {"weight": None, "bias": None}))
    logits, probabilities, _, d_scores, *_ = case.operate(triton_evolution)
    overflown = ((logits == torch.inf) | logits.isnan()).any(-1)
    assert overflown.any()
    assert probabilities[overflown].isnan().any(-1).all()
    assert not d_scores.isfinite().all()


@native_only
@pytest.mark.parametrize("instructions", SETS)
@torch.no_grad()
def test_native_steps_keep_what_is_not_finite(instructions, monkeypatch):
    monkeypatch.setattr(native_library, "instruction_set", lambda: instructions)
    kept = 0
    for seed in range(40):
        choose, generator = random.Random(seed), torch.Generator().manual_seed(seed)
        is_cross, steps, rows, keys = choose.random() < 0.5, choose.randint(1, 12), 3, choose.randint(1, 20)
        evolution = Evolution(
            CROSS_WINDOW if is_cross else DECODER_WINDOW, *choose.choice(WEIGHTS), choose.choice([1, 3])
        )
        kind = {"encoder_decoder_attention": True} if is_cross else {"self_attention": True}
        attention = EvolvingAttention(12, choose.choice([1, 2, 6]), evolution, **kind).eval()
        source = torch.randn(keys, rows, 12, generator=generator)
        words = torch.randn(steps, rows, 12, generator=generator)
        logits = [torch.randn(rows, attention.num_heads, 1, keys if is_cross else t + 1) for t in range(steps)]
        spoilt = [source if is_cross else words, words, choose.choice(logits)]
        if attention.conv is not None:
            spoilt += [attention.conv.weight, attention.conv.bias]
        numbers = choose.choice(spoilt).data.view(-1)
        numbers[choose.randrange(len(numbers))] = choose.choice([torch.nan, torch.inf, -torch.inf])
        results = []
        for backend in ("native", "reference"):
            monkeypatch.setattr(backends, "backend", backend)
            state = {}
            options = {"incremental_state": state, "static_kv": is_cross, "need_head_weights": True}
            results.append([])
            for step in range(steps):
                query = words[step : step + 1]
                memory = source if is_cross else query
                *attended, passed = attention(query, memory, memory, previous=Passed(logits[step]), **options)
                results[-1] += [*attended, passed.logits] if evolution.alpha > 0 else attended
                order = torch.randint(rows, (rows,), generator=torch.Generator().manual_seed(step))
                attention.reorder_incremental_state(state, order)
        for native, expected in zip(*results, strict=True):
            assert torch.equal(native.isfinite(), expected.isfinite())
        kept += not all(expected.isfinite().all() for expected in results[-1])
    assert kept > 30


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_a_model_with_nan_translates_nothing(backend, monkeypatch):
    """fairseq's beam search finds no end of any sentence."""
    monkeypatch.setattr(backends, "backend", backend)
    model = build_loud(**SKIPS)
    with torch.no_grad():
        model.encoder.layers[0].self_attn.conv.bias[0] = torch.nan
    with pytest.raises(AssertionError, match="20 < 20"):
        generator_of([model]).generate([model], sample(1))


@pytest.mark.parametrize(
    ("arch", "backend"), [("ea_transformer", "auto"), ("ea_transformer", "reference"), ("transformer", "auto")]
)
def test_a_training_that_has_gone_wrong_ends(arch, backend, tmp_path, monkeypatch):
    """As fairseq's own does; what it then looks for its hooks do not find under this torch."""
    monkeypatch.setattr(backends, "backend", backend)
    monkeypatch.setattr("fairseq.trainer.NanDetector", lambda *_: nullcontext())
    trainer = loud_trainer(save_dictionaries(tmp_path), "--save-dir", str(tmp_path), arch=arch)
    attention = trainer.model.decoder.layers[1].encoder_attn
    with torch.no_grad():
        (attention.conv if arch == "ea_transformer" else attention.q_proj).bias[0] = torch.nan
    words = random_tokens(torch.Generator().manual_seed(1), 3, 5)
    batch = {"net_input": {"src_tokens": words, "src_lengths": torch.full((3,), 5), "prev_output_tokens": words}}
    batch |= {"id": torch.arange(3), "target": words, "ntokens": 15, "nsentences": 3}
    loss, _, _ = trainer.criterion(trainer.model, batch)
    assert loss.isnan()
    with pytest.raises(FloatingPointError):
        trainer.train_step([batch])
