"""T5 and its mechanisms: sizes, the laws, where a mechanism acts, and the token that the decoder starts with."""

from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary
from torch import nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.errors import UserError
from ea_fairseq.models.t5 import MODELS
from ea_fairseq.optim.muon import MuonAndAdamW
from ea_fairseq.terms.t5 import T5Positions
from laws import FURTHER_LAWS, LAWS, scores
from mechanisms import ROWS
from model_checks import assert_every_parameter_learns, assert_kernels_agree, native_only
from tiny import TINY, build, built, make_loud, random_tokens

EVERYWHERE = "encoder,decoder,cross"
VERSIONS = {"1.0": "t5_small", "1.1": "t5_1_1_small"}
each_version = pytest.mark.parametrize("arch", VERSIONS.values(), ids=VERSIONS)
# Wider heads than the channels divided by their number, which divides no channels, as in T5 1.1 Small.
WIDE = {**TINY, **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 3), "head_dim": 4}


def build_t5(arch: str, family: str | None = None, **options):
    """A T5 with all dropouts off, its norms' weights not all 1."""
    row = ROWS[family].options if family else {}
    name = f"{FAMILIES[family].model('t5')}{arch.removeprefix('t5')}" if family else arch
    quiet = {"attention_dropout": 0.0, "activation_dropout": 0.0, "gated_ffn_dim": 5}
    model = make_loud(build(name, **{**WIDE, **quiet, **row, **options}))
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.RMSNorm):
                module.weight.uniform_(0.5, 1.5)
    return model


def count(arch: str, **options) -> int:
    """The parameters of an architecture with T5's 32,128 rows, without making their numbers."""
    words = Dictionary()
    for number in range(32_128 - len(words)):
        words.add_symbol(str(number))
    with torch.device("meta"):
        model = built(arch, Namespace(source_dictionary=words, target_dictionary=words), 1, **options)
    return sum(map(torch.numel, model.parameters()))


def test_sizes_are_the_published_ones():
    assert count("t5_small") == 60_506_624
    assert count("t5") == count("t5_base") == 222_903_552
    assert count("t5_tiny") == 15_570_688
    assert count("t5_large") == 737_668_096
    assert count("t5_1_1_small") == 76_961_152
    assert count("t5_1_1_base") == 247_577_856
    assert count("t5_1_1_large") == 783_150_080
    assert count("ea_t5_base") == 222_903_552 + 15_696
    assert count("ea_t5_base", ea_in=EVERYWHERE) == 222_903_552 + 47_088


@pytest.mark.parametrize("law", LAWS + FURTHER_LAWS, ids=lambda law: law.__name__)
@each_version
def test_law_holds(arch, law):
    law(build_t5(arch, "ea_transformer", ea_in=EVERYWHERE, share_all_embeddings=False), seed=3)


@pytest.mark.parametrize("family", ROWS)
def test_each_mechanism_decodes_step_by_step_and_learns(family):
    heads = dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4)  # as some mechanisms want
    model = build_t5("t5_1_1_small", family, ea_in=EVERYWHERE, **heads)
    assert type(model) is MODELS[FAMILIES[family].model("t5")]
    next(law for law in LAWS if law.__name__ == "assert_decodes_stepwise")(model, seed=3)
    assert_every_parameter_learns(model)


@native_only
@each_version
def test_kernels_compute_what_the_equations_do(arch, monkeypatch):
    model = build_t5(arch, "ea_transformer", ea_in=EVERYWHERE)  # whose gradients are some hundreds
    assert_kernels_agree(model, "native", monkeypatch, atol=1e-3)


@pytest.mark.parametrize("kinds", ["encoder", "decoder", "cross", "encoder,cross", EVERYWHERE])
def test_the_mechanism_acts_where_it_is_told_to(kinds):
    model = build_t5("t5_small", "ea_transformer", ea_in=kinds)
    own = FAMILIES["ea_transformer"].attention
    for layer in (*model.encoder.layers, *model.decoder.layers):
        side = "encoder" if layer in model.encoder.layers else "decoder"
        assert type(layer.self_attn) is (own if side in kinds.split(",") else Attention)
        if side == "decoder":
            assert type(layer.encoder_attn) is (own if "cross" in kinds.split(",") else Attention)


@each_version
def test_flags_of_other_transformers_count(arch, tmp_path):
    """Without encoder-decoder attentions, and with embeddings of a file."""
    assert all(layer.encoder_attn is None for layer in build_t5(arch, no_cross_attention=True).decoder.layers)
    vectors = tmp_path / "vectors.txt"
    vectors.write_text(f"2 8\nw0{' 2.5' * 8}\nw3{' -1.5' * 8}\n")
    model = build_t5(arch, encoder_embed_path=str(vectors))
    words = model.encoder.dictionary
    assert model.encoder.embed_tokens.weight[words.index("w0")].tolist() == [2.5] * 8
    assert model.decoder.embed_tokens.weight[words.index("w3")].tolist() == [-1.5] * 8


def test_other_kinds_are_refused():
    with pytest.raises(UserError, match="--ea-in must be some of encoder, decoder and cross, with commas, not 'all'"):
        build_t5("t5_small", "ea_transformer", ea_in="all")


@each_version
def test_a_plain_checkpoint_begins_as_itself_where_the_mechanism_is_off(arch):
    plain = build_t5(arch)
    evolving = build_t5(arch, "ea_transformer", ea_in=EVERYWHERE, ea_alpha=0.0, ea_beta=0.0, seed=2)
    evolving.load_state_dict(plain.state_dict())
    source, target = random_tokens(torch.Generator().manual_seed(1), 2, 7).chunk(2)
    torch.testing.assert_close(scores(evolving, source, target), scores(plain, source, target), rtol=0, atol=1e-5)


def test_the_decoder_starts_with_padding_whatever_the_batch_has_and_learns_it():
    model = build_t5("t5_small")
    source, target = random_tokens(torch.Generator().manual_seed(1), 2, 7).chunk(2)
    other = target.clone()
    other[:, 0] += 1
    assert torch.equal(scores(model, source, target), scores(model, source, other))
    untied = build_t5("t5_1_1_small")  # where gradients of embeddings come from what is read alone
    untied(source, None, target)[0].sum().backward()
    assert untied.decoder.embed_tokens.weight.grad[1].any()


def test_the_bucket_that_is_never_read_changes_nothing():
    torch.manual_seed(1)
    context = LayerContext("encoder", 0)
    ours, published = T5Positions(context, 8, 2), T5Positions(context, 8, 2, published=True)
    assert (len(ours.weight), len(published.weight)) == (31, 32)
    assert set(range(32)) - set(published.buckets.tolist()) == {16}
    rows = torch.cat([published.weight[:16], published.weight[17:]])
    assert torch.equal(published.weight[published.buckets], rows[ours.buckets])
    decoders = [T5Positions(LayerContext("decoder", 0), 8, 2, each) for each in (False, True)]
    assert torch.equal(decoders[0].buckets, decoders[1].buckets)


def test_muon_leaves_embeddings_and_the_output_projection_to_adamw():
    model = build_t5("t5_1_1_small", "ea_transformer")
    optimizer = MuonAndAdamW(model.parameters(), 0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0)
    of_muon, of_adamw = ({id(parameter) for parameter in group["params"]} for group in optimizer.param_groups)
    assert id(model.encoder.layers[0].fc1.weight) in of_muon
    for module in (model.encoder.embed_tokens, model.decoder.output_projection, model.encoder.layer_norm):
        assert id(module.weight) in of_adamw
