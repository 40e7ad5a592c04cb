"""Options of evolving attention are checked, and fairseq's own options keep their meaning."""

import argparse
import math
from types import SimpleNamespace

import pytest
import torch
from fairseq import options
from fairseq.criterions.adaptive_loss import AdaptiveLoss
from fairseq.criterions.cross_entropy import CrossEntropyCriterion

from ea_fairseq.attention.evolution import EvolutionOptions
from ea_fairseq.models.transformer import UNSUPPORTED
from laws import assert_decodes_stepwise
from tiny import OFF, SKIPS, TINY, build, build_loud, built, dictionary, make_loud, random_tokens, sizes

BAD_VALUES = [
    *((f"ea_{name}", value) for name in ("alpha", "beta") for value in ("-0.1", "1.1", "nan", "inf", "much")),
    *(("ea_kernel_size", value) for value in ("2", "0", "-1", "2.5", "inf", "big")),
]
FAIRSEQ_OPTIONS = {
    "share_all_embeddings": {"share_all_embeddings": True},
    "share_decoder_input_output_embed": {"share_decoder_input_output_embed": True},
    "merge_src_tgt_embed": {"merge_src_tgt_embed": True},
    "normalize_before": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "no_decoder_final_norm": {"decoder_normalize_before": True, "no_decoder_final_norm": True},
    "learned_pos": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "no_token_positional_embeddings": {"no_token_positional_embeddings": True},
    "layernorm_embedding": {"layernorm_embedding": True},
    "no_scale_embedding": {"no_scale_embedding": True},
    "layerdrop": {"encoder_layerdrop": 0.5, "decoder_layerdrop": 0.5},
    "layers_to_keep": {"encoder_layers_to_keep": "1", "decoder_layers_to_keep": "0"},
    "checkpoint_activations": {"checkpoint_activations": True},
    "offload_activations": {"offload_activations": True},
    "dropout": {"dropout": 0.2, "attention_dropout": 0.2, "activation_dropout": 0.2},
    "relu_dropout": {"relu_dropout": 0.2},
    "gelu": {"activation_fn": "gelu"},
    "adaptive_softmax": {"adaptive_softmax_cutoff": "10,20"},
    "adaptive_softmax_dropout": {"adaptive_softmax_cutoff": "10,20", "adaptive_softmax_dropout": 0.2},
    "adaptive_input": {"adaptive_input": True, "quant_noise_pq": 0.1},
    "quant_noise_pq": {"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 4},
    "quant_noise_scalar": {"quant_noise_scalar": 0.1},
    "no_cross_attention": {"no_cross_attention": True},
    "different sides": {"decoder_embed_dim": 12, "decoder_ffn_embed_dim": 6, "decoder_attention_heads": 3},
    "different depths": {"encoder_layers": 1, "decoder_layers": 3},
    "different embeddings": {"decoder_input_dim": 6, "decoder_output_dim": 10},
}


def parse(*flags, arch="ea_transformer"):
    return options.parse_args_and_arch(options.get_training_parser(), ["data", "--arch", arch, *flags])


@pytest.mark.parametrize(("name", "value"), BAD_VALUES)
def test_a_bad_value_on_the_command_line_is_refused(name, value, capsys):
    flag = "--" + name.replace("_", "-")
    with pytest.raises(SystemExit) as stopped:
        parse(f"{flag}={value}")
    assert stopped.value.code == 2
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert f"{flag} must be " in last_line
    assert value in last_line


@pytest.mark.parametrize(("name", "value"), BAD_VALUES)
def test_a_bad_value_in_a_namespace_is_refused(name, value):
    number = value if value in ("much", "big") else float(value)
    with pytest.raises(ValueError, match=f"^--{name.replace('_', '-')} must be [^.]*, not {number!r}$"):
        build(**TINY, **{name: number})


def test_a_value_counts_as_the_number_it_stands_for():
    assert EvolutionOptions(ea_alpha="0.25", ea_kernel_size=5.0) == EvolutionOptions(ea_alpha=0.25, ea_kernel_size=5)
    assert build(**TINY, ea_kernel_size=5.0).encoder.layers[0].self_attn.conv.kernel_size == (5, 5)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_an_unsupported_option_is_refused(name):
    with pytest.raises(ValueError, match=f"^ea_transformer does not support --{name.replace('_', '-')}: "):
        build(**TINY, **{name: "1"})


PRUNED = {
    "transformer": ("0,2,3", "1,3"),
    "ea_transformer": ("1,3", "1,3"),
    "realformer": ("0,3", "0,2"),
    "talking_heads": ("1,2", "0,3"),
    "pa_transformer": ("0,2,3", "1,3"),
    "value_residual": ("0,3", "0,2"),
    "mta_transformer": ("0,1,2", "0,1"),
    "lite_transformer": ("0,1,2", "0"),
}


@torch.no_grad()
@pytest.mark.parametrize(("arch", "kept"), PRUNED.items())
def test_layers_that_are_kept_compute_what_they_did(arch, kept):
    """--encoder-layers-to-keep and --decoder-layers-to-keep."""
    given = sizes(layers=4) | ({"mta_every": 2} if arch == "mta_transformer" else {})
    whole = make_loud(build(arch, **given))
    parameters, (source, target) = whole.state_dict(), batch()
    for side, numbers in zip((whole.encoder, whole.decoder), kept, strict=True):
        side.layers = torch.nn.ModuleList(side.layers[number] for number in map(int, numbers.split(",")))
        side.num_layers = len(side.layers)
    expected = whole(source, None, target)[0]
    keep = dict(zip(("encoder_layers_to_keep", "decoder_layers_to_keep"), kept, strict=True))
    for name in ("args", "model_cfg"):  # by which fairseq tells what is kept
        pruned = build(arch, **given, **keep)
        pruned.load_state_dict(parameters, **{name: argparse.Namespace(arch=arch, **keep)})
        assert torch.equal(pruned(source, None, target)[0], expected)


@pytest.mark.parametrize(
    ("arch", "kept"),
    [("pa_transformer", "1,3"), ("value_residual", "1,3"), ("mta_transformer", "0,2"), ("lite_transformer", "0,2")],
)
def test_layers_that_would_compute_something_else_are_not_kept(arch, kept):
    with pytest.raises(ValueError, match=f"^--encoder-layers-to-keep {kept} changes the indices of layers"):
        build(arch, **sizes(layers=4), encoder_layers_to_keep=kept)
    with pytest.raises(ValueError, match=r"^--encoder-layers-to-keep must be layer indices such as 0,2,4"):
        build(arch, **sizes(layers=4), encoder_layers_to_keep="two")


@pytest.mark.parametrize(
    ("arch", "alpha"), [("ea_transformer", 0.5), ("ea_transformer_base", 0.5), ("ea_transformer_lite", 0.1)]
)
def test_defaults_depend_on_the_architecture_and_flags_win(arch, alpha):
    assert EvolutionOptions.from_namespace(parse(arch=arch)) == EvolutionOptions(alpha, 0.1, 3)
    given = parse("--ea-alpha", "0.7", "--ea-beta", "0.2", "--ea-kernel-size", "5", "--cross-skip", arch=arch)
    assert EvolutionOptions.from_namespace(given) == EvolutionOptions(0.7, 0.2, 5, cross_skip=True)


def batch():
    generator = torch.Generator().manual_seed(1)
    source, target = random_tokens(generator, 3, 7), random_tokens(generator, 3, 6)
    source[0, :2] = target[1, 4:] = dictionary().pad()
    return source, target


def train_step(model):
    """(loss, gradients by parameter) of one step with the loss that goes with the model's output."""
    source, target = batch()
    net_input = {"src_tokens": source, "src_lengths": None, "prev_output_tokens": target}
    sample = {"net_input": net_input, "target": target, "ntokens": target.numel()}
    task = SimpleNamespace(target_dictionary=dictionary())
    adaptive = model.decoder.adaptive_softmax is not None
    criterion = (AdaptiveLoss if adaptive else CrossEntropyCriterion)(task, sentence_avg=False)
    torch.manual_seed(5)
    model.train().zero_grad()
    loss = criterion(model, sample)[0] / target.numel()
    loss.backward()
    return loss.item(), {name: parameter.grad for name, parameter in model.named_parameters()}


def unreached(gradients):
    """The attentions and parameters without a gradient, a convolution counting as a part of its attention."""
    return {name.replace(".conv.", ".q_proj.") for name, gradient in gradients.items() if gradient is None}


def assert_same_step(step, expected, tolerance):
    assert step[0] == pytest.approx(expected[0], abs=tolerance)
    assert step[1].keys() == expected[1].keys()
    for name, gradient in step[1].items():
        assert (gradient is None) == (expected[1][name] is None), name
        if gradient is not None:
            torch.testing.assert_close(gradient, expected[1][name], atol=tolerance, rtol=0, msg=name)


@pytest.mark.parametrize("given", FAIRSEQ_OPTIONS.values(), ids=FAIRSEQ_OPTIONS)
def test_with_evolution_off_an_option_of_fairseq_does_what_it_does_for_fairseq(given):
    plain, ours = build("transformer", **{**TINY, **given}), build(**{**TINY, **OFF, **given})
    assert_same_step(train_step(ours), train_step(plain), tolerance=1e-6)


@pytest.mark.parametrize("given", FAIRSEQ_OPTIONS.values(), ids=FAIRSEQ_OPTIONS)
def test_with_evolution_on_an_option_of_fairseq_trains_and_decodes(given):
    model = build_loud(**SKIPS, **given)
    loss, gradients = train_step(model)
    assert math.isfinite(loss)
    assert all(gradient.isfinite().all() for gradient in gradients.values() if gradient is not None)
    assert unreached(gradients) == unreached(train_step(build("transformer", **{**TINY, **given}))[1])
    assert_decodes_stepwise(model.eval(), seed=1)


@pytest.mark.parametrize("option", ["checkpoint_activations", "offload_activations"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_activation_checkpointing_changes_no_gradient(option, dropout):
    drops = {"dropout": dropout, "attention_dropout": dropout}
    expected = train_step(build_loud(**SKIPS, **drops))
    assert_same_step(train_step(build_loud(**SKIPS, **drops, **{option: True})), expected, tolerance=1e-6)


def test_merged_embeddings_hold_the_words_of_both_languages():
    source_words, target_words = dictionary(10), dictionary(10)
    target_words.add_symbol("only-in-target")
    task = SimpleNamespace(source_dictionary=source_words, target_dictionary=target_words)
    model = built("ea_transformer", task, 1, merge_src_tgt_embed=True, **TINY)
    assert model.encoder.embed_tokens is model.decoder.embed_tokens
    assert model.decoder.output_projection.out_features == len(target_words)
