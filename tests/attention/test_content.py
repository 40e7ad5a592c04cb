"""Scores in place of dot products: attention types and synthesizers, of evolving and of plain attention."""

import argparse
import logging
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq import options
from fairseq.data import LanguagePairDataset
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.fairseq_task import FairseqTask
from torch.export import Dim

from commands import PLUGIN
from ea_fairseq.attention.term_options import LONGEST
from ea_fairseq.errors import UserError
from forked import run_forked, run_forked_well
from laws import FURTHER_LAWS, LAWS, assert_close, draw_padded, scores
from mechanisms import ROWS
from model_checks import (
    assert_equals_loops,
    assert_every_parameter_learns,
    assert_kernels_agree,
    assert_torch_counts_the_same,
    loss_of,
    native_only,
)
from oracles_content import CONTENT_TERMS, LENGTH
from reversal import DATA, train_command
from tiny import TINY, build, dictionary, make_loud, random_tokens

FAMILIES = {
    "ea_transformer": ROWS["ea_transformer"].options,
    "synthesizer": {"synthesizer": "none"},
}  # the latter plain
SYNTHESIZERS = [name for name, given in CONTENT_TERMS.items() if "synthesizer" in given]
each_family = pytest.mark.parametrize("family", FAMILIES)
each_term = pytest.mark.parametrize("term", CONTENT_TERMS)
compiling = pytest.mark.parametrize(  # which takes long
    "term", [pytest.param(term, marks=pytest.mark.slow) for term in CONTENT_TERMS]
)
each_synthesizer = pytest.mark.parametrize("term", SYNTHESIZERS)


def build_with(term: str, family: str = "synthesizer", seed: int = 1, **given):
    """A loud model whose terms matter as much as all else."""
    model = make_loud(build(family, seed, **{**TINY, **FAMILIES[family], **CONTENT_TERMS[term], **given}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "_attn.terms." in name:
                parameter.normal_()
    return model


@each_family
@each_term
def test_a_model_equals_loops(term, family):
    assert_equals_loops(build_with(term, family), ROWS[family].oracle)


@pytest.mark.parametrize("law", LAWS + FURTHER_LAWS, ids=lambda law: law.__name__)
@each_family
@each_term
def test_law_holds(term, family, law):
    model = build_with(term, family)
    for seed in range(2):
        law(model, seed)


@pytest.mark.parametrize(
    ("backend", "term"),
    [
        *(pytest.param("native", term, marks=native_only) for term in CONTENT_TERMS),
        *(pytest.param("triton", term, marks=pytest.mark.slow) for term in CONTENT_TERMS),
    ],
)
@each_family
def test_kernels_compute_what_the_equations_do(term, family, backend, monkeypatch):
    assert_kernels_agree(build_with(term, family), backend, monkeypatch)


@each_term
def test_torchs_own_counter_of_flops_agrees(term, monkeypatch):
    monkeypatch.setattr("ea_fairseq.kernels.dispatch.backend", "reference")
    assert_torch_counts_the_same(build_with(term, "ea_transformer"))


@pytest.mark.parametrize("autocast", [False, True], ids=["stored", "autocast"])
@each_family
@each_term
def test_in_half_precision_all_parameters_learn_and_all_is_finite(term, family, autocast):
    model = build_with(term, family, attention_dropout=0.1)
    model = model if autocast else model.to(torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        assert_every_parameter_learns(model)


@compiling
def test_compiled_it_computes_the_same_for_batches_of_every_size(term):
    torch.compiler.reset()
    model = build_with(term, "ea_transformer", encoder_layers=1).train()
    generator = torch.Generator().manual_seed(1)
    batches = [[random_tokens(generator, size, length) for length in (5 + size, 9 - size)] for size in (3, 2, 4)]
    batches[1][0][0, :2] = batches[2][1][1, -2:] = model.encoder.padding_idx
    expected = [gradients(model, *batch) for batch in batches]
    compiled = torch.compile(model, backend="eager", fullgraph=True, dynamic=True)
    found = [gradients(compiled, *batches[0])]
    with torch.compiler.set_stance("fail_on_recompile"):
        found += [gradients(compiled, *batch) for batch in batches[1:]]
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def gradients(model, source, target):
    loss = loss_of(model, source, target)
    return [loss, *torch.autograd.grad(loss, list(model.parameters()))]


@compiling
def test_exported_it_computes_the_same(term):
    model, any_size = build_with(term, "ea_transformer", encoder_layers=1), dict.fromkeys(range(2), Dim.AUTO)
    source = random_tokens(torch.Generator().manual_seed(1), 3, 7)
    encoder = torch.export.export(model.encoder, (source,), dynamic_shapes=(any_size,), strict=True).module()
    _, other, _ = draw_padded(model, seed=6)
    real = other.ne(model.encoder.padding_idx).T
    with torch.no_grad():
        found, expected = (each(other)["encoder_out"][0][real] for each in (encoder, model.encoder))
    assert_close(found, expected, 1e-5)


cached_with = cache(build_with)  # of models that take no checkpoint


@each_family
@each_term
def test_a_checkpoint_fits_these_options_alone(term, family):
    model, same = build_with(term, family), build_with(term, family, seed=2)
    same.load_state_dict(model.state_dict())
    _, source, target = draw_padded(model, seed=4)
    assert torch.equal(scores(same, source, target), scores(model, source, target))
    for other in set(CONTENT_TERMS) - {term}:
        with pytest.raises(UserError, match="does not fit the model"):
            cached_with(other, family).load_state_dict(model.state_dict())


@each_synthesizer
def test_only_mixtures_have_queries_and_keys_in_self_attention(term, caplog):
    model, plain = build_with(term), build("transformer", **TINY)
    unread = 0
    for name, attention in model.named_modules():
        if name.endswith("_attn"):
            expected = "qkv" if "dot" in term or name.endswith("encoder_attn") else "v"
            assert attention.projected == expected, name
            unread += expected == "v"
    with caplog.at_level(logging.INFO, logger="ea_fairseq"):
        model.load_state_dict(plain.state_dict())
    (message,) = caplog.messages
    assert message.startswith("the checkpoint is a plain model's: 4 maps with ")
    assert (f"{2 * unread} projections of queries and keys are not used" in message) == (unread > 0)
    weights = (each.decoder.layers[1].self_attn.v_proj.weight for each in (model, plain))
    assert torch.equal(*weights)


@each_synthesizer
def test_longer_sentences_are_fairseqs_to_refuse(term):
    model = build_with(term)
    assert model.max_positions() == (LENGTH, LENGTH)
    assert model.max_decoder_positions() == LENGTH
    fits, longer = torch.full((1, LENGTH), 5), torch.full((1, LENGTH + 1), 5)
    assert scores(model, fits, fits).isfinite().all()
    for source, target in ((longer, fits), (fits, longer)):
        with pytest.raises(
            UserError, match=f"^--synthesizer-length is {LENGTH}, but a sentence has {LENGTH + 1} tokens"
        ):
            scores(model, source, target)
    words, lengths = dictionary(), np.array([LENGTH, LENGTH + 1])
    sentences = [torch.full((length,), 5) for length in lengths]
    pairs = LanguagePairDataset(sentences, lengths, words, sentences, lengths, words)
    task = FairseqTask(argparse.Namespace())
    assert task.filter_indices_by_size(np.arange(2), pairs, model.max_positions(), True).tolist() == [0]
    with pytest.raises(Exception, match="skip this example"):
        task.filter_indices_by_size(np.arange(2), pairs, model.max_positions())


def test_a_limit_of_fairseqs_that_is_lower_stays():
    assert build_with("dense", max_source_positions=7).max_positions() == (7, LENGTH)
    assert build_with("additive").max_positions() == (1024, 1024)


@each_synthesizer
def test_beam_search_ends_where_the_map_does(term):
    model, words = build_with(term), dictionary()
    with torch.no_grad():
        model.decoder.output_projection.weight[words.eos()] = 0  # hardly ever the best word
    generator = SequenceGenerator([model], words, beam_size=2, max_len_b=200)
    source = torch.full((2, LENGTH), 6)
    source[1, :3] = words.pad()
    found = generator.generate([model], {"net_input": {"src_tokens": source, "src_lengths": None}})
    assert max(len(hypothesis["tokens"]) for sentence in found for hypothesis in sentence) == LENGTH


def test_padding_has_no_place_in_a_map():
    model = build_with("random")
    attention = model.encoder.layers[0].self_attn
    tokens = torch.tensor([[6, 7, 8, 9], [1, 1, 6, 7]])
    term = attention.terms[0]
    inputs = SimpleNamespace(
        masks=SimpleNamespace(padded_keys=tokens.eq(1)), size=(2, 2, 4, 4), v=torch.empty(0), x=torch.empty(0)
    )
    found = term(inputs)
    assert torch.equal(found[0], term.map[:, :4, :4])
    assert torch.equal(found[1, :, 2:, 2:], term.map[:, :2, :2])


@pytest.mark.parametrize("kind", ["additive", "multiplicative", "concatenative"])
def test_a_synthesizer_and_an_attention_type_are_refused(kind):
    with pytest.raises(UserError, match=f"^--attention-type {kind} and --synthesizer dense both take the place of dot"):
        build("synthesizer", **TINY, attention_type=kind)


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--attention-type", "cosine"),
        ("--synthesizer", "dot"),
        *(("--synthesizer-length", value) for value in ("0", "2.5", "many", str(LONGEST + 1), "inf")),
    ],
)
def test_a_bad_value_is_refused_in_one_line(flag, value, capsys):
    with pytest.raises(SystemExit):
        options.parse_args_and_arch(
            options.get_training_parser(), ["data", "--arch", "synthesizer_lite", f"{flag}={value}"]
        )
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert f"{flag} must be " in last_line
    assert value in last_line


def test_fairseqs_commands_leave_out_what_is_longer(home):
    """With the flag that tells them to, and otherwise refuse it."""
    batches = ["--required-batch-size-multiple", "1"]  # by default, 8, fairseq drops the rest of a few modulo 8
    flags = ["--synthesizer-length", "7", "--synthesizer", "random+dot", *batches]
    command = train_command("synthesizer", 3, *flags, arch="synthesizer")
    refused = run_forked(*command, cwd=home)
    assert refused.returncode == 1
    assert "since max_positions=(7, 7), skip this example with" in refused.stderr.splitlines()[-1]
    skip = "--skip-invalid-size-inputs-valid-test"
    assert "max_positions=(7, 7)" in run_forked_well(*command, skip, cwd=home)
    generate = ["fairseq-generate", DATA, "--path", "synthesizer/checkpoint_last.pt", "--cpu", "--user-dir", PLUGIN]
    found = run_forked_well(*generate, *batches, skip, cwd=home)
    assert "max_positions=(7, 7)" in found and "\nH-" in found
