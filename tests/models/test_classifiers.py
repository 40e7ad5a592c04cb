"""Classifiers of sentences from scratch: PA's models, their sizes, and what holds for all of them."""

import pytest
import torch
import torch.nn.functional as F
from fairseq import checkpoint_utils
from torch._subclasses.fake_tensor import FakeTensorMode

from ea_fairseq.analysis.cost import encoder_parameters
from ea_fairseq.errors import UserError
from encoders import PAD, TINY, build, classes, draw, features
from forked import run_forked, run_forked_well
from laws import assert_close
from loops import Evolving, Oracle, attend_to_self, feed_forward
from model_checks import by_our_forward
from oracles_branches import Convolution, PredictiveBesideConvolution
from oracles_mixing import Predictive
from reversal import losses_of
from sentence_data import PAIRS, binarize_sentences, encoder_command
from tiny import dictionary, make_loud

ORACLES = {
    "transformer": (Oracle(), {}),
    "pa_transformer": (Predictive(0.4), {"pa_alpha": 0.4}),
    "conv_transformer": (Convolution(), {}),
    "pa_conv_transformer": (PredictiveBesideConvolution(0.4), {"pa_alpha": 0.4}),
    "ea_transformer": (Evolving({"encoder": 0.4}, {"encoder": 0.3}), {"ea_alpha": 0.4, "ea_beta": 0.3}),
    "cnn": (None, {}),
}
SMALL = {name: size for name, size in TINY.items() if name != "attention_dropout"} | {"embedding_dropout": 0.0}
SMALL |= {"embedding_size": 6, "shaw_distance": 4, "dense_connections": True}
each_classifier = pytest.mark.parametrize("name", ORACLES)


def build_classifier(name: str, **options):
    model = build(f"{name}_classifier", **{**SMALL, **ORACLES[name][1], **options})
    torch.manual_seed(7)
    model.register_classification_head("head", num_classes=3)
    return make_loud(model)


@torch.no_grad()
def convolved(layer, x, length):
    """The rival's convolution over three words and its projection."""
    conv, output = layer.self_attn.conv, []
    for t in range(len(x)):
        taps = [(s - t + 1, s) for s in (t - 1, t, t + 1) if 0 <= s < length]
        output.append(conv.bias + sum(conv.weight[:, :, tap] @ x[s] for tap, s in taps))
    return layer.self_attn.out_proj(torch.stack(output)), None


@torch.no_grad()
@each_classifier
def test_a_classifier_equals_loops(name):
    """Dense connections, the mean over words and the linear layer included."""
    model, oracle = by_our_forward(build_classifier(name).double()), ORACLES[name][0]
    encoder, tokens = model.encoder.sentence_encoder, draw(1, sentences=1)[1][:, :5]
    tokens = torch.cat([tokens, torch.full((1, 2), PAD)], dim=1)
    x, previous = encoder.forward_embedding(tokens)[0][0] * tokens[0].ne(PAD).unsqueeze(1), None
    states = [x]
    for index, layer in enumerate(encoder.layers):
        x = torch.cat(states, dim=1) @ encoder.dense[index - 1].weight.T + encoder.dense[index - 1].bias if index else x
        out, previous = (
            convolved(layer, x, 5) if oracle is None else attend_to_self(layer, x, "encoder", previous, 5, oracle)
        )
        x = feed_forward(layer, layer.self_attn_layer_norm(x + out))
        states.append(x)
    head = model.classification_heads["head"]
    expected = x[:5].mean(dim=0) @ head.weight.T + head.bias
    torch.testing.assert_close(classes(model, tokens)[0], expected, rtol=0, atol=1e-10)


@each_classifier
def test_padding_and_other_sentences_change_no_class(name):
    model, (_, tokens) = build_classifier(name), draw(3)
    together = classes(model, tokens)
    for row, sentence in enumerate(tokens):
        alone = sentence[sentence.ne(PAD)].unsqueeze(0)
        assert_close(together[row], classes(model, alone)[0], 1e-4)
        left = torch.cat([torch.full((1, 2), PAD), alone], dim=1)
        assert_close(together[row], classes(model, left)[0], 1e-4)
    halved = model.to(torch.bfloat16)
    assert classes(halved, tokens).isfinite().all()


@each_classifier
def test_every_parameter_gets_a_gradient(name):
    model, (_, tokens) = build_classifier(name, segments=2).train(), draw(1)
    F.cross_entropy(model(tokens, classification_head_name="head")[0], torch.tensor([0, 1, 2, 0])).backward()
    assert not [name for name, parameter in model.named_parameters() if parameter.grad is None]


@each_classifier
def test_a_classifiers_checkpoint_is_its_own(name):
    model = build_classifier(name)
    other = build_classifier(name)
    other.load_state_dict({name: tensor + 1 for name, tensor in model.state_dict().items()})
    assert not torch.equal(features(model, draw(1)[1]), features(other, draw(1)[1]))
    other.load_state_dict(model.state_dict())
    assert torch.equal(features(model, draw(1)[1]), features(other, draw(1)[1]))


SIZES = {"cnn": 2_774_277, "transformer": 2_788_005, "pa_transformer": 2_789_173, "ea_transformer": 2_789_757}
SIZES |= {"conv_transformer": 2_589_861, "pa_conv_transformer": 2_590_157}


@pytest.mark.parametrize(("name", "expected"), SIZES.items())
def test_sizes_without_the_embeddings_of_words(name, expected):
    with FakeTensorMode():
        model = build(f"{name}_classifier", dense_connections=True)
        model.register_classification_head("head", num_classes=5)
        assert [*encoder_parameters(model).values()] == [expected]


@torch.no_grad()
def test_embeddings_have_a_dropout_of_their_own():
    model = build_classifier("transformer", embedding_dropout=0.25, embedding_size=0)
    encoder, (_, tokens) = model.encoder.sentence_encoder, draw(1, sentences=200)
    (expected, _), (found, _) = (encoder.train(training).forward_embedding(tokens) for training in (False, True))
    kept = found.ne(0)
    torch.testing.assert_close(found[kept], expected[kept] / 0.75)
    assert kept[tokens.ne(PAD)].float().mean().item() == pytest.approx(0.75, abs=0.03)
    still = build_classifier("transformer", dropout=0.5).train().encoder.sentence_encoder
    assert torch.equal(still.forward_embedding(tokens)[0], still.eval().forward_embedding(tokens)[0])


def test_embeddings_start_from_a_file_and_may_stay(tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("2 6\nw3 1 2 3 4 5 6\nnone-of-ours 0 0 0 0 0 0\n")
    given = {"encoder_embed_path": str(vectors), "freeze_embeddings": True}
    weight = build_classifier("pa_transformer", **given).encoder.sentence_encoder.embed_tokens.weight
    assert torch.equal(weight[dictionary().index("w3")], torch.arange(1.0, 7.0))
    assert not weight.requires_grad
    with pytest.raises(UserError, match=r"^--encoder-embed-path: there is no file"):
        build_classifier("pa_transformer", encoder_embed_path=str(tmp_path / "nothing"))
    with pytest.raises(UserError, match=r"^--encoder-embed-path .* must have a line of two counts"):
        build_classifier("pa_transformer", **given, embedding_size=5)
    vectors.write_text("w3 1 2 3 4 5 6\nw4 1 2 3 4 5 6\n")  # as GloVe's files begin
    with pytest.raises(UserError, match=r"^--encoder-embed-path .* must have a line of two counts"):
        build_classifier("pa_transformer", **given)


def test_what_does_not_go_together_is_refused():
    with pytest.raises(UserError, match=r"^--dense-connections need all layers"):
        build_classifier("transformer", encoder_layerdrop=0.1)
    with pytest.raises(UserError, match=r"^--arch cnn_classifier has no attention"):
        build_classifier("cnn", relative_positions="shaw")
    with pytest.raises(UserError, match=r"^--conv-projections needs as many input"):
        build_classifier("pa_conv_transformer", conv_projections="q")
    for name in ("conv_transformer", "pa_conv_transformer", "cnn"):
        with pytest.raises(UserError, match=r"^--head-dim is for attentions that project their outputs"):
            build_classifier(name, head_dim=6)
    with pytest.raises(UserError, match=r"^--encoder-embed-dim must be even, not 9: "):
        build_classifier("conv_transformer", encoder_embed_dim=9, encoder_attention_heads=1)
    with pytest.raises(UserError, match=r"^--mha-reg-scale-factor is for queries and keys"):
        build_classifier("cnn", mha_reg_scale_factor=1.0)
    with pytest.raises(UserError, match=r"^--arch cnn_classifier is for --task sentence_prediction"):
        build("cnn_classifier", **SMALL)(draw(1)[1])


IDLE = {
    "classification_head": "pooled",
    "pooler_activation_fn": "relu",
    "pooler_dropout": 0.9,
    "spectral_norm_classification_head": True,
    "untie_weights_roberta": True,
}


@pytest.mark.parametrize(("name", "value"), IDLE.items())
def test_a_flag_of_robertas_heads_is_refused(name, value):
    with pytest.raises(UserError, match=f"^--{name.replace('_', '-')} is for RoBERTa's heads"):
        build_classifier("transformer", **{name: value})


def test_vectors_of_segments_start_as_large_as_those_of_words():
    encoder = build("transformer_classifier", **SMALL | {"embedding_size": 300}, segments=2).encoder.sentence_encoder
    for embeddings in (encoder.embed_tokens.weight[4:], encoder.segment_embeddings.weight):
        assert embeddings.std().item() == pytest.approx(300**-0.5, rel=0.1)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return binarize_sentences(tmp_path_factory.mktemp("user"))


@pytest.mark.parametrize("name", [pytest.param("cnn", marks=pytest.mark.slow), "pa_conv_transformer"])
def test_fairseqs_command_trains_it_and_goes_on(home, name):
    arch, flags = f"{name}_classifier", ["--dense-connections", "--segments", "2"]
    log = ""
    for updates in (3, 6):
        log += run_forked_well(*encoder_command("sentence_prediction", arch, updates, *flags, arch=arch), cwd=home)
    assert list(losses_of(log)) == [1, 2, 3, 4, 5, 6]
    path, data = str(home / arch / "checkpoint_last.pt"), {"data": str(home / PAIRS)}
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([path], data)
    assert model.eval()(torch.tensor([[0, 4, 5, 2]] * 4), classification_head_name="sentence_classification_head")[
        0
    ].shape == (4, 2)
    refused = run_forked(*encoder_command("masked_lm", "refused", 1, arch=arch), cwd=home)
    assert refused.stderr.splitlines()[-1].startswith(f"fairseq-train: --arch {arch} is for --task sentence_prediction")
