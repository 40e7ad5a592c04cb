"""The attention maps that a trained model shows obey the equations and are those that its forward pass used."""

import pytest
import torch
import torch._dynamo.testing
from fairseq.modules import MultiheadAttention
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import save_dictionaries, save_loud
from commands import OFF
from ea_fairseq import EATransformerModel, UserError
from ea_fairseq.attention.maps import by_layer
from ea_fairseq.attention.recording import recording
from ea_fairseq.mechanisms.evolving import EvolvingAttention
from laws import draw, draw_padded, scores
from loops import convolve
from tiny import TINY, build

SETTINGS = {
    "paper": [],
    "skips": ["--decoder-skip", "--cross-skip", "--ea-alpha", "0.3", "--ea-kernel-size", "5"],
    "encoder without convolution, cross-attention off": ["--no-encoder-conv", "--no-cross-conv"],
    "off": OFF,
}
KINDS = {"encoder": ["self_attn"], "decoder": ["self_attn", "encoder_attn"]}
NAMES = [f"{side}.layers.{layer}.{kind}" for side, kinds in KINDS.items() for layer in (0, 1) for kind in kinds]
SOURCE, TARGET = "w1 w2 w3 w4 w5", "w9 w8 w7"


def window(name: str) -> str:
    """The name that loops.py has for an attention's window."""
    return "cross" if name.endswith("encoder_attn") else name.split(".")[0]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return save_dictionaries(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module", params=SETTINGS.values(), ids=SETTINGS)
def hub(request, data):
    """A hub of an ensemble of two, the second of which the tests look at."""
    for seed in (1, 2):
        save_loud(data, data / f"{seed}.pt", *request.param, seed=seed)
    return EATransformerModel.from_pretrained(data, "1.pt:2.pt")


@pytest.fixture(scope="module")
def maps(hub):
    return hub.attention(SOURCE, TARGET, model=1)


def inputs(hub, source=SOURCE, target=TARGET):
    """The batch of one pair that a model reads."""
    tokens = hub.tgt_dict.encode_line(target, add_if_not_exist=False).long()
    return {
        "src_tokens": hub.encode(source).unsqueeze(0),
        "src_lengths": torch.tensor([len(source.split()) + 1]),
        "prev_output_tokens": tokens.roll(1).unsqueeze(0),
    }


@pytest.fixture(scope="module")
def passed(hub):
    """(model's output, {attention's name: (query, key, its output)}) of a pass that nobody records."""
    model, calls, handles = hub.models[1], {}, []
    for name, module in model.named_modules():
        if isinstance(module, EvolvingAttention):

            def keep(module, args, kwargs, output, name=name):
                calls[name] = args[0], args[1], output[0]

            handles.append(module.register_forward_hook(keep, with_kwargs=True))
    with torch.no_grad():
        output = model(**inputs(hub))
    for handle in handles:
        handle.remove()
    return output, calls


def close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


def test_every_attention_has_its_maps_and_words(maps):
    assert set(maps) == set(NAMES)
    source, target = [*SOURCE.split(), "</s>"], ["</s>", *TARGET.split()]
    for name, found in maps.items():
        assert found.queries == (source if name.startswith("encoder") else target)
        assert found.keys == (target if window(name) == "decoder" else source)
        for tensor in (found.own, found.input, found.logits, found.probabilities):
            assert tensor.shape == (2, len(found.queries), len(found.keys))


def test_probabilities_are_the_softmax_of_the_logits_and_sum_to_one(maps):
    for found in maps.values():
        close(found.logits.softmax(-1), found.probabilities)
        close(found.probabilities.sum(-1), torch.ones(found.probabilities.shape[:2]))


def test_only_later_words_in_the_decoder_are_masked(maps):
    for name, found in maps.items():
        length = len(found.queries)
        later = torch.ones(length, length).triu(1).bool() if window(name) == "decoder" else torch.tensor(False)
        for tensor in (found.own, found.input, found.logits):
            assert torch.equal(tensor.isinf(), later.expand_as(tensor))
        assert torch.equal(found.probabilities.eq(0), later.expand_as(found.probabilities))


def test_maps_follow_the_equations(hub, maps):
    attentions = dict(hub.models[1].named_modules())
    for name, found in maps.items():
        attention = attentions[name]
        evolution = attention.evolution
        own, mixed, logits = (
            tensor.masked_fill(tensor.isinf(), 0) for tensor in (found.own, found.input, found.logits)
        )
        expected = own
        if "layers.1" in name:
            previous = maps[name.replace("layers.1", "layers.0")].logits
            previous = previous.masked_fill(previous.isinf(), 0)
            expected = evolution.alpha * previous + (1 - evolution.alpha) * own
        close(mixed, expected)
        expected = mixed
        if evolution.beta > 0:
            convolved = convolve(mixed, attention.conv.weight, attention.conv.bias, window(name))
            expected = evolution.beta * convolved + (1 - evolution.beta) * mixed
        close(logits, expected.masked_fill(found.logits.isinf(), 0))


@torch.no_grad()
def test_an_unrecorded_pass_computes_the_same_maps(hub, maps, passed):
    output, calls = passed
    for name, found in maps.items():
        attention, (query, key, attended) = hub.models[1].get_submodule(name), calls[name]
        heads = [
            x.squeeze(1).unflatten(-1, (attention.num_heads, -1)).transpose(0, 1)
            for x in (attention.q_proj(query), attention.k_proj(key), attention.v_proj(key))
        ]
        own = heads[0] @ heads[1].transpose(1, 2) / attention.head_dim**0.5
        close(found.own, own.masked_fill(found.own.isinf(), -torch.inf))
        close(attention.out_proj((found.probabilities @ heads[2]).transpose(0, 1).flatten(1)), attended.squeeze(1))
    alignment = output[1]["attn"][0][0]
    close(maps["decoder.layers.1.encoder_attn"].probabilities.mean(0), alignment)


def test_maps_of_a_target_word_do_not_depend_on_later_words(hub, maps):
    changed = hub.attention(SOURCE, TARGET.replace("w7", "w30 w31"), model=1)
    for name, found in maps.items():
        if name.startswith("decoder"):
            for tensor in ("own", "input", "logits", "probabilities"):
                keys = 3 if window(name) == "decoder" else None
                before, after = (getattr(x, tensor)[:, :3, :keys] for x in (found, changed[name]))
                close(after, before)


def test_the_model_is_left_as_it_was_even_after_an_error(hub, passed):
    model = hub.models[1]
    with pytest.raises(RuntimeError, match="on purpose"), recording(model):
        raise RuntimeError("on purpose")
    hub.attention(SOURCE, TARGET, model=1)
    assert all(module.recorded is None for module in model.modules() if isinstance(module, EvolvingAttention))
    with torch.no_grad():
        assert torch.equal(model(**inputs(hub))[0], passed[0][0])


def test_the_argument_says_which_model_of_an_ensemble(hub, maps):
    for first, default in zip(
        hub.attention(SOURCE, TARGET, model=0).values(), hub.attention(SOURCE, TARGET).values(), strict=True
    ):
        assert torch.equal(first.logits, default.logits)
    assert not torch.equal(default.logits, maps["decoder.layers.1.encoder_attn"].logits)
    for absent in (-1, 2):
        with pytest.raises(UserError, match="from 0 to 1"):
            hub.attention(SOURCE, TARGET, model=absent)


@torch.no_grad()
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_plain_transformer_shows_what_fairseqs_attention_returns_and_computes_the_same_to_the_last_bit(seed):
    plain = build("transformer", **TINY)
    source, target = draw_padded(plain, seed)[1], draw(seed, 4)[2]
    target[0, 1:] = plain.encoder.padding_idx
    before = scores(plain, source, target)
    calls, hooks = {}, []
    for name, attention in plain.named_modules():
        if isinstance(attention, MultiheadAttention):

            def keep(attention, args, kwargs, name=name):
                calls[name] = args, kwargs

            hooks.append(attention.register_forward_pre_hook(keep, with_kwargs=True))
    with recording(plain) as records:
        assert torch.equal(scores(plain, source, target), before)
    for hook in hooks:
        hook.remove()
    assert torch.equal(scores(plain, source, target), before)
    assert set(records) == set(NAMES) == set(calls)
    for name, (args, kwargs) in calls.items():
        by_head = {
            "need_head_weights": True,
            "static_kv": True,
        }  # static_kv: fairseq's own code, which keeps heads apart
        expected = plain.get_submodule(name)(*args, **{**kwargs, **by_head})[1]
        close(records[name]["probabilities"], expected.transpose(0, 1))
        assert torch.equal(records[name]["own"], records[name]["logits"])
        assert torch.equal(records[name]["own"], records[name]["input"])


def test_maps_are_in_the_order_of_layers():
    layers = (0, 1)
    assert by_layer({name: name for name in reversed(NAMES)}) == {
        "encoder": [f"encoder.layers.{layer}.self_attn" for layer in layers],
        "decoder": [f"decoder.layers.{layer}.self_attn" for layer in layers],
        "cross": [f"decoder.layers.{layer}.encoder_attn" for layer in layers],
    }
    assert by_layer({f"encoder.layers.{layer}.self_attn": layer for layer in (10, 9, 2)}) == {"encoder": [2, 9, 10]}


def test_recording_leaves_a_compiled_attention_whole_and_compiles_nothing(data):
    save_loud(data, data / "compiled.pt")
    attention = EATransformerModel.from_pretrained(data, "compiled.pt").models[0].encoder.layers[0].self_attn
    x = torch.randn(5, 1, attention.embed_dim, generator=torch.Generator().manual_seed(1))
    counter = torch._dynamo.testing.CompileCounter()
    attention.compile(backend=counter, fullgraph=True)
    with torch.no_grad():
        expected = attention(x, x, x)[2].logits
        compiled = counter.frame_count
        assert compiled > 0
        with recording(attention) as records:
            attention(x, x, x)
        assert torch.equal(attention(x, x, x)[2].logits, expected)
    close(records[""]["logits"], expected)
    assert counter.frame_count == compiled
