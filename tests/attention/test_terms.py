"""What must hold for every term of own logits by distance, under evolving attention and in pairs with all families."""

import math
from types import SimpleNamespace

import pytest
import torch

import loops
from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.term import weights_by_head
from ea_fairseq.attention.term_options import CONVOLUTIONS, POSITIONS, TermOptions
from ea_fairseq.attention.widened import widen
from ea_fairseq.errors import UserError
from ea_fairseq.terms.concatenative import Concatenative
from ea_fairseq.terms.dot_product import DotProduct
from ea_fairseq.terms.image_positions import IMAGE_POSITIONS
from ea_fairseq.terms.mixture import Mixture
from ea_fairseq.terms.quadratic import QuadraticPositions
from ea_fairseq.terms.t5 import T5Positions
from laws import FURTHER_LAWS, LAWS, assert_causal, draw_padded, scores
from mechanisms import ROWS, build_family
from model_checks import assert_equals_loops, assert_kernels_agree, assert_torch_counts_the_same, native_only
from terms import TERMS, convolution, positions
from tiny import TINY, build

PAD = 1
OF_SENTENCES = dict.fromkeys(
    term for name, terms in (POSITIONS | CONVOLUTIONS).items() if name not in IMAGE_POSITIONS for term in terms
)
each_term = pytest.mark.parametrize("options", TERMS.values(), ids=TERMS)


def build_with(options, **others):
    return build_family("ea_transformer", **options, **others)


@each_term
def test_a_model_equals_loops(options):
    assert_equals_loops(build_with(options), ROWS["ea_transformer"].oracle)


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
@pytest.mark.parametrize("term", OF_SENTENCES)
@torch.no_grad()
def test_a_term_equals_its_loop_at_any_distance(term, kind):
    """Of all keys, those later than the query of a decoder included, which fairseq may ask for."""
    torch.manual_seed(1)
    heads, width, length = 2, 3, 140
    term = term(LayerContext(kind, 0), heads * width, heads).double()
    for parameter in term.parameters():
        parameter.normal_()
    projected = dict(zip("qkv", torch.randn(3, heads, length, width).double(), strict=True))
    words = torch.arange(length)
    batches = {part: x.unsqueeze(0) for part, x in projected.items()}
    found = term(SimpleNamespace(positions=(words, words), scale=width**-0.5, **batches)).expand(1, heads, -1, -1)[0]
    tokens = SimpleNamespace(kind=kind, projected=projected)
    for t in (0, 1, 9, 70, 139):
        for s in range(length):
            for head in range(heads):
                expected = loops.TERMS[type(term).__name__](term, tokens, head, t, s)
                assert found[head, t, s].item() == pytest.approx(float(expected), abs=1e-10), (t, s)


@pytest.mark.parametrize("law", LAWS + FURTHER_LAWS, ids=lambda law: law.__name__)
@each_term
def test_law_holds(options, law, short_reach):
    law(build_with(options), seed=3)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@each_term
def test_law_holds_without_absolute_positions(options, law, short_reach):
    law(build_with(options, no_token_positional_embeddings=True), seed=5)


@each_term
def test_torchs_own_counter_of_flops_agrees(options, monkeypatch):
    monkeypatch.setattr("ea_fairseq.kernels.dispatch.backend", "reference")
    assert_torch_counts_the_same(build_with(options))


def step(model, source, target):
    """The loss of a training step, and each parameter's gradient."""
    output = model.train()(source, None, target)[0]
    loss = output[target.ne(PAD)].cos().sum()
    return loss, torch.autograd.grad(loss, list(model.parameters()))


DEEP = {"layers": 6, "embed_dim": 16, "ffn_embed_dim": 16, "attention_heads": 8}
SLOWLY_INTERPRETED = ("composite convolution and key", "quadratic alone")  # Triton, without a GPU


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        *(pytest.param(name, "native", marks=native_only) for name in TERMS),
        *(pytest.param(name, "triton", marks=pytest.mark.slow) for name in SLOWLY_INTERPRETED),
    ],
)
def test_kernels_compute_what_the_equations_do(name, backend, monkeypatch):
    assert_kernels_agree(build_with(TERMS[name]), backend, monkeypatch)


@each_term
def test_half_precision_is_finite_and_lawful(options, short_reach):
    """Each parameter has a gradient, in bfloat16 and under autocast, and the future shows nowhere."""
    for half in (True, False):
        model = build_with(options)
        model = model.to(torch.bfloat16) if half else model
        _, source, target = draw_padded(model, seed=4)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not half):
            loss, gradients = step(model, source, target)
            assert_causal(model.eval(), seed=4)
        assert loss.isfinite() and all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("options", [positions("quadratic"), positions("quadratic", no_content_scores=True)])
def test_float16_holds_the_squares_of_long_distances(options):
    model = build_with(options).half()
    words = torch.full((1, 500), 5)
    assert scores(model, words, words).isfinite().all()


@pytest.mark.parametrize("seed", [4, 6])
def test_float16_holds_what_convolutions_make_of_them_that_have_grown_to_three_times_their_start(seed):
    sizes = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in DEEP.items()}
    model = build(seed=seed, relative_positions="quadratic", ea_beta=0.1, **sizes)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(3 if ".conv." in name else 1)
    words = torch.full((1, 200), 5)
    assert scores(model.half(), words, words).isfinite().all()


@pytest.mark.slow
@each_term
def test_one_compiled_graph_of_an_attention_serves_every_size(options):
    torch.compiler.reset()
    attention, generator = build_with(options).decoder.layers[0].self_attn, torch.Generator().manual_seed(1)
    compiled = torch.compile(attention, backend="eager", fullgraph=True, dynamic=True)
    for length in (5, 12):
        x = torch.randn(length, 3, attention.embed_dim, generator=generator)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        with torch.no_grad(), torch.compiler.set_stance("default" if length == 5 else "fail_on_recompile"):
            torch.testing.assert_close(compiled(x, x, x, attn_mask=future), attention(x, x, x, attn_mask=future))


@pytest.mark.slow
@each_term
def test_one_compiled_graph_of_a_model_serves_every_size(options):
    torch.compiler.reset()
    plain, compiled = build_with(options), build_with(options)
    compiled.compile(backend="eager", fullgraph=True, dynamic=True)
    for seed in (2, 4):
        _, source, target = draw_padded(plain, seed)
        torch.testing.assert_close(scores(compiled, source, target), scores(plain, source, target))


PLACE = LayerContext("encoder", 0)
STARTS = {  # of some parameter: its distribution, and the value, standard deviation or bound
    "weights of a mixture": (lambda: Mixture(DotProduct(), DotProduct(), 8).weight.sigmoid(), "constant", 0.5),
    "factors of concatenative scores": (lambda: Concatenative(PLACE, 128, 8).factor, "constant", 4.0),
    "T5's table": (lambda: T5Positions(PLACE, 64, 32).weight, "normal", 1 / 8),
    "quadratic centres": (lambda: QuadraticPositions(PLACE, 1000, 1000).centre, "normal", 2.0),
    "quadratic widths": (lambda: QuadraticPositions(PLACE, 8, 8).widths, "constant", 1.0),
    "matrices of heads": (lambda: weights_by_head(8, 16, 38), "uniform", 1 / 3),
    "projections of attentions that read more": (lambda: widened(38, 16).q_proj.weight, "uniform", 1 / 3 * 2**-0.5),
}


def widened(reads: int, width: int) -> Attention:
    attention = Attention(width, 2, self_attention=True)
    widen(attention, reads)
    return attention


@pytest.mark.parametrize(("draw", "distribution", "number"), STARTS.values(), ids=STARTS)
def test_parameters_start_as_their_papers_say(draw, distribution, number):
    """Matrices as Glorot and Bengio's, for attentions with fairseq's gain."""
    torch.manual_seed(1)
    found = draw().detach()
    if distribution == "constant":
        assert torch.equal(found, torch.full_like(found, number))
        return
    deviation = number / 3**0.5 if distribution == "uniform" else number
    assert found.std().item() == pytest.approx(deviation, rel=0.1)
    assert found.mean().item() == pytest.approx(0, abs=0.2 * deviation)
    largest = found.abs().max().item()
    assert 0.95 * number < largest <= number if distribution == "uniform" else largest > 2.5 * deviation


def added_by(options) -> int:
    """Parameters of the terms of an encoder of COMP's size: 12 layers, 4 heads, width 256."""
    contexts = [LayerContext("encoder", layer) for layer in range(12)]
    return sum(
        parameter.numel()
        for context in contexts
        for term in TermOptions(**options).build(context, 256, 4)
        for parameter in term.parameters()
    )


def test_convolutions_have_as_many_parameters_as_the_papers():
    """BERT-small: COMP table 1's sizes less those without positions."""
    expected = {"fixed": 816, "dynamic": 13_056, "composite": 13_872, "composite+key": 26_928}
    assert {name: added_by(convolution(name)) for name in expected} == expected
    assert added_by(positions("composite")) == 13_872


def test_a_decoder_has_no_numbers_for_words_that_it_does_not_see():
    context = LayerContext("decoder", 0)
    sizes = {
        name: [tuple(parameter.shape) for term in terms for parameter in term(context, 32, 4).parameters()]
        for name, terms in {**CONVOLUTIONS, "t5": POSITIONS["t5"]}.items()
    }
    assert sizes["composite+key"] == [(8, 9), (4, 9), (8, 9)]
    assert sizes["t5"] == [(32, 4)]


def test_t5_has_one_table_a_stack_and_uses_every_bucket():
    model = build_with(positions("t5"))
    tables = {
        side: {attention.terms[1] for attention in (layer.self_attn for layer in getattr(model, side).layers)}
        for side in ("encoder", "decoder")
    }
    assert all(len(terms) == 1 for terms in tables.values())
    assert tables["encoder"].isdisjoint(tables["decoder"])
    for (term,), buckets in zip(tables.values(), (31, 32), strict=True):
        assert sorted(set(term.buckets.tolist())) == list(range(buckets))


def test_words_of_one_bucket_are_those_of_t5s_code():
    """A bucket's number by the formula of T5's code, for some distances on both sides of a border."""
    encoder, decoder = ([T5Positions.bucket(words, half) for words in range(200)] for half in (16, 32))
    assert [encoder[words] for words in (0, 7, 8, 11, 12, 15, 16, 22, 23, 63, 64, 90, 91, 128, 199)] == [
        *(0, 7, 8, 8, 9, 9, 10, 10, 11, 13, 14, 14, 15, 15, 15)
    ]
    for words in range(16, 128):
        assert decoder[words] == 16 + math.floor(math.log(words / 16) / math.log(128 / 16) * 16)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"relative_positions": "composite", "lightweight_conv": "composite"},
            "--relative-positions composite and --lightweight-conv composite both add scores by the distance of two "
            "tokens: set one of them to none",
        ),
        (
            {"no_content_scores": True},
            "--no-content-scores leaves self-attentions nothing to score by: give --relative-positions or "
            "--lightweight-conv",
        ),
        (
            {"relative_positions": "t5", "shaw_values": True},
            "--shaw-values is for --relative-positions shaw: give that, or leave it out",
        ),
        ({"relative_positions": "far"}, "--relative-positions must be one of none, shaw, t5, rope, composite"),
        ({"lightweight_conv": "depth"}, "--lightweight-conv must be one of none, fixed, dynamic, composite"),
    ],
)
def test_flags_that_do_not_go_together_are_refused_in_a_sentence(options, message):
    with pytest.raises(UserError) as refusal:
        build("ea_transformer", **TINY, **options)
    assert str(refusal.value).startswith(message)


def test_shaw_on_the_composite_family_is_the_plain_transformer_and_shaw():
    """Its loops are those of plain attention; and with embeddings of zero it is fairseq's Transformer."""
    model = build_family("composite_transformer", **positions("shaw"))
    assert_equals_loops(model, loops.Oracle())
    model, plain = model.float(), build("transformer", **TINY)
    model.load_state_dict(plain.state_dict())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".terms." in name:
                parameter.zero_()
    _, source, target = draw_padded(plain, seed=4)
    real = target.ne(PAD)
    torch.testing.assert_close(scores(model, source, target)[real], scores(plain, source, target)[real])


def test_without_a_term_the_flags_change_nothing():
    terms = TermOptions().build(LayerContext("encoder", 0), 8, 2)
    assert terms == () and TermOptions(relative_positions="shaw").build(LayerContext("cross", 0), 8, 2) == ()
    first, _ = TermOptions(relative_positions="shaw").build(LayerContext("encoder", 0), 8, 2)
    assert isinstance(first, DotProduct)
