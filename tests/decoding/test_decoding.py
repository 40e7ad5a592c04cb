"""A decoding step remembers what the steps before it left, whichever code computes it and whoever changes places."""

import copy
import gc
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from fairseq.models.transformer import TransformerEncoderBase
from hypothesis import given, settings
from hypothesis import strategies as st

import evolution_cases
from beam_search import found, generator_of, sample
from ea_fairseq.attention.beam import BeamState
from ea_fairseq.attention.cache import AttentionCache
from ea_fairseq.attention.evolution import Evolution
from ea_fairseq.attention.inputs import Passed
from ea_fairseq.attention.recording import recording
from ea_fairseq.kernels import dispatch as backends
from ea_fairseq.kernels.cpu import native_library
from ea_fairseq.kernels.window import CROSS_WINDOW, DECODER_WINDOW
from ea_fairseq.mechanisms.evolving import EvolvingAttention
from laws import assert_close, scores
from model_checks import SETS, native_only
from tiny import KERNELS, SKIPS, TINY, build, build_loud, random_tokens

seeds = st.integers(0, 2**32 - 1)


@st.composite
def attentions(draw):
    """An attention of target or source words, of any odd size, in float32."""
    heads, width, kernel = draw(st.integers(1, 6)), draw(st.integers(1, 37)), draw(st.sampled_from(KERNELS))
    is_cross = draw(st.booleans())
    alpha, beta = draw(st.sampled_from([(0.0, 0.3), (0.4, 0.0), (0.4, 0.3), (1.0, 1.0)]))
    torch.manual_seed(draw(seeds))
    evolution = Evolution(CROSS_WINDOW if is_cross else DECODER_WINDOW, alpha, beta, kernel)
    kind = {"encoder_decoder_attention": True} if is_cross else {"self_attention": True}
    return EvolvingAttention(heads * width, heads, evolution, **kind).eval()


@torch.no_grad()
def decode(attention, steps: int, seed: int, sentences: int = 7) -> list[torch.Tensor]:
    """What an attention returns for the words of each step, of hypotheses that change places, multiply and end."""
    generator = torch.Generator().manual_seed(seed)
    rows, keys = torch.randint(1, sentences + 1, (2,), generator=generator).tolist()
    source = torch.randn(keys, rows, attention.embed_dim, generator=generator)
    source_padding = torch.rand(rows, keys, generator=generator) < 0.3
    is_cross, dtype = attention.encoder_decoder_attention, attention.out_proj.weight.dtype
    state, results = {}, []
    padded = source_padding if is_cross else torch.empty(rows, 0, dtype=torch.bool)
    for _ in range(steps):
        x = torch.randn(1, rows, attention.embed_dim, generator=generator)
        padding = torch.rand(rows, 1, generator=generator) < 0.2
        if not is_cross:
            padded = torch.cat([padded, padding], 1)
        previous = torch.randn(rows, attention.num_heads, 1, padded.size(1), generator=generator).to(dtype)
        memory = (source if is_cross else x).to(dtype)
        masks = {"key_padding_mask": source_padding, "query_padding_mask": padding} if is_cross else {}
        if not is_cross and padding.any():
            masks = {"key_padding_mask": padding}
        options = {"incremental_state": state, "static_kv": is_cross, "need_head_weights": True, **masks}
        output, weights, passed = attention(x.to(dtype), memory, memory, previous=Passed(previous), **options)
        words = ~padding.squeeze(1)
        results += [output[:, words], weights[:, words]]
        if attention.evolution.alpha > 0:
            results.append(passed.logits.masked_fill(padded[:, None, None], 0.0)[words])
        order = torch.randint(rows, (int(torch.randint(1, rows + 2, (), generator=generator)),), generator=generator)
        attention.reorder_incremental_state(state, order)
        rows, padded = len(order), padded[order]
    return results


@native_only
@pytest.mark.parametrize("instructions", SETS)
@given(attention=attentions(), steps=st.integers(1, 36), seed=seeds)
@settings(max_examples=40)
def test_native_steps_are_those_of_torch_in_float64(instructions, attention, steps, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "backend", "native")
        patch.setattr(native_library, "instruction_set", lambda: instructions)
        native = decode(attention, steps, seed)
    exact = decode(copy.deepcopy(attention).double(), steps, seed)
    evolution_cases.assert_close(native, exact, 1e-6)


@native_only
def test_native_steps_do_not_depend_on_the_number_of_threads():
    torch.manual_seed(1)
    evolution = Evolution(DECODER_WINDOW, alpha=0.3, beta=0.3, kernel_size=3)
    attention = EvolvingAttention(96, 3, evolution, self_attention=True).eval()
    threads = torch.get_num_threads()
    results = []
    for count in (1, 3):
        torch.set_num_threads(count)
        results.append(decode(attention, steps=5, seed=11, sentences=600))
    torch.set_num_threads(threads)
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_padded_words_stay_padding(backend, monkeypatch):
    """Prefixes padded on the left; fairseq's positions do not count their padding, so the model has none."""
    monkeypatch.setattr(backends, "backend", backend)
    model = build_loud(no_token_positional_embeddings=True, **SKIPS)
    generator = torch.Generator().manual_seed(5)
    source, target = random_tokens(generator, 3, 5), random_tokens(generator, 3, 20)
    target[0, :2] = target[2, :18] = model.decoder.padding_idx
    state = {}
    with torch.no_grad():
        encoded = model.encoder(source)
        steps = [model.decoder(target[:, : t + 1], encoded, incremental_state=state)[0] for t in range(20)]
    words = target.ne(model.decoder.padding_idx)
    assert_close(torch.cat(steps, 1)[words], scores(model, source, target)[words], 1e-4)


@given(data=st.data())
@settings(max_examples=60)
def test_hypotheses_know_their_ancestors(data):
    """Each keeps a list of its own: here copied at each step, there never."""
    rows = data.draw(st.integers(1, 6))
    hypotheses, lists = BeamState(torch.arange(rows)), [[] for _ in range(rows)]
    sentences = list(range(rows))
    for _ in range(data.draw(st.integers(1, 40))):
        padding = data.draw(st.none() | st.lists(st.booleans(), min_size=rows, max_size=rows))
        hypotheses.advance(None if padding is None else torch.tensor(padding)[:, None])
        lists = [[*known, (row, padding is not None and padding[row])] for row, known in enumerate(lists)]
        order = data.draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=8))
        hypotheses.reorder(torch.tensor(order))
        rows, lists, sentences = len(order), [lists[row] for row in order], [sentences[row] for row in order]
        steps = hypotheses.steps
        assert hypotheses.sentence.tolist() == sentences
        assert hypotheses.back_pointers[:, :steps].tolist() == [[row for row, _ in known] for known in lists]
        if hypotheses.padded is not None:
            assert hypotheses.padded[:, :steps].tolist() == [[padded for _, padded in known] for known in lists]
        else:
            assert not any(padded for known in lists for _, padded in known)


@torch.no_grad()
def test_reordered_encoder_output_is_fairseqs_without_a_copy():
    model = build_loud()
    generator = torch.Generator().manual_seed(1)
    source, target = random_tokens(generator, 3, 5), random_tokens(generator, 6, 4)
    source[0, :2] = model.encoder.padding_idx
    ours = fairseqs = model.encoder(source, return_all_hiddens=True)
    fairseqs = copy.deepcopy(fairseqs)
    memory = {entry.data_ptr() for entries in ours.values() for entry in entries}
    for order in ([0, 0, 1, 1, 2, 2], [1, 0, 3, 2, 5, 5], [2, 3, 5, 4, 4, 1]):
        ours = model.encoder.reorder_encoder_out(ours, torch.tensor(order))
        fairseqs = TransformerEncoderBase.reorder_encoder_out(model.encoder, fairseqs, torch.tensor(order))
        assert ours.keys() == fairseqs.keys()
        for name, entries in fairseqs.items():
            assert len(ours[name]) == len(entries)
            assert all(map(torch.equal, ours[name], entries)), name
            assert {entry.data_ptr() for entry in ours[name].sources} <= memory
    assert_close(model.decoder(target, ours)[0], model.decoder(target, fairseqs)[0], 1e-6)


@torch.no_grad()
def test_log_probabilities_of_a_step_take_the_place_of_its_scores():
    """And mean the same afterwards: to normalize them again changes nothing."""
    model = build_loud()
    generator = torch.Generator().manual_seed(1)
    source, target = random_tokens(generator, 3, 5), random_tokens(generator, 3, 4)
    encoded = model.encoder(source)
    for state in (None, {}):
        output = model.decoder(target[:, :1], encoded, incremental_state=state)
        expected = output[0].log_softmax(-1)
        found = model.get_normalized_probs(output, log_probs=True)
        assert torch.equal(found, expected)
        assert (found.data_ptr() == output[0].data_ptr()) == (state is not None)
        assert_close(model.get_normalized_probs(output, log_probs=True), expected, 1e-6)
        assert_close(model.get_normalized_probs(output, log_probs=False), expected.exp(), 1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gradients_pass_through_steps(dtype):
    model = build_loud(loudness=0.3, **SKIPS).to(dtype)
    generator = torch.Generator().manual_seed(1)
    source, target = random_tokens(generator, 2, 5), random_tokens(generator, 2, 18)
    state, encoded = {}, model.encoder(source)
    steps = [model.decoder(target[:, : t + 1], encoded, incremental_state=state)[0] for t in range(18)]
    parameters = list(model.parameters())
    stepwise = torch.autograd.grad(torch.cat(steps, 1).square().sum(), parameters, allow_unused=True)
    full = torch.autograd.grad(model(source, None, target)[0].square().sum(), parameters)
    tolerance = 1e-6 if dtype is torch.float64 else 1e-2
    for actual, expected in zip(stepwise, full, strict=True):
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@torch.no_grad()
def test_maps_of_a_step_are_recorded():
    model = build_loud(**SKIPS)
    generator = torch.Generator().manual_seed(1)
    source, target = random_tokens(generator, 2, 5), random_tokens(generator, 2, 3)
    state, encoded = {}, model.encoder(source)
    model.decoder(target[:, :1], encoded, incremental_state=state)
    with recording(model) as stepwise:
        model.decoder(target[:, :2], encoded, incremental_state=state)
    with recording(model) as full:
        model(source, None, target[:, :2])
    for name, record in full.items():
        if name.startswith("decoder."):
            assert_close(stepwise[name]["probabilities"], record["probabilities"][:, :, 1:], 1e-5)


@torch.no_grad()
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_rows_that_do_not_fit_are_refused(backend, monkeypatch):
    """Not read beyond their tables."""
    monkeypatch.setattr(backends, "backend", backend)
    model, words = build_loud(), random_tokens(torch.Generator().manual_seed(1), 4, 5)
    encoded, state = model.encoder(words[:3]), {}
    with pytest.raises(ValueError, match="4 hypotheses translate more than the encoder's 3 sentences"):
        model.decoder(words[:, :1], encoded, incremental_state={})
    model.decoder(words[:3, :1], encoded, incremental_state=state)
    for rows in (2, 4):
        with pytest.raises(ValueError, match=f"a step of {rows} rows cannot follow 3 hypotheses: reorder them first"):
            model.decoder(words[:rows, :2], encoded, incremental_state=copy.deepcopy(state))


def memory_of_steps() -> int:
    gc.collect()
    return sum(isinstance(thing, AttentionCache | BeamState) for thing in gc.get_objects())


def test_generating_leaves_nothing_behind():
    model = build_loud(**SKIPS)
    before = model.state_dict().keys()
    generator = generator_of([model])
    kept = memory_of_steps()
    first = found(generator.generate([model], sample(1)))
    assert memory_of_steps() == kept
    assert model.state_dict().keys() == before
    again = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    assert found(generator_of([again]).generate([again], sample(1))) == first
    assert found(generator.generate([model], sample(1))) == first


def test_threads_generate_beside_each_other():
    model = build_loud(**SKIPS)
    generator = generator_of([model])
    alone = [found(generator.generate([model], sample(seed))) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = pool.map(lambda seed: found(generator_of([model]).generate([model], sample(seed))), range(4))
    assert list(together) == alone


@pytest.mark.parametrize(
    "names",
    [["TransformerEncoder"], ["TransformerDecoderLayerBase"], ["MultiheadAttention"], ["TransformerDecoder", "other"]],
    ids=" ".join,
)
def test_dropout_is_retained_where_fairseq_retains_it(names):
    def retained(arch):
        model = build(arch, **{**TINY, "dropout": 0.5, "attention_dropout": 0.5})
        model.make_generation_fast_(retain_dropout=True, retain_dropout_modules=names)
        return {name for name, module in model.named_modules() if getattr(module, "apply_during_inference", False)}

    assert retained("ea_transformer") == retained("transformer") != set()


@torch.no_grad()
def test_retained_dropout_drops():
    model = build("ea_transformer", **TINY, attention_dropout=0.5)
    model.make_generation_fast_(retain_dropout=True)
    words = random_tokens(torch.Generator().manual_seed(1), 4, 6)
    encoded = model.encoder(words)
    torch.manual_seed(1)
    first, second = (model.decoder(words[:, :1], encoded, incremental_state={})[0] for _ in range(2))
    assert not torch.equal(first, second)
