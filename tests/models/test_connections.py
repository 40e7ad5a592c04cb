"""What connects sub-layers in place of sums: equations as plain loops, laws, starts."""

import itertools
import math

import pytest
import torch

from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.errors import UserError
from ea_fairseq.models.layer_options import WITH_STREAMS
from ea_fairseq.models.streams import Sinkhorn
from ea_fairseq.search.support import unsupported_reasons
from encoders import TINY as TINY_ENCODER
from encoders import build as build_encoder
from encoders import draw
from laws import FURTHER_LAWS, LAWS, assert_close, assert_decodes_stepwise, draw_padded, scores
from mechanisms import ROWS
from model_checks import assert_loss_changes_along_its_gradient, assert_torch_counts_the_same, loss_of
from tiny import TINY, build, make_loud, random_tokens, sizes

PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
BLOCK = 3  # sub-layers, and a layer of an encoder has two
OPTIONS = {name: {"connections": name} for name in ("attention", "delta", "hyper", "mhc", "dense", "mudd")}
OPTIONS["blocks"] = {"connections": "attention", "residual_block": BLOCK}
NAMES = (*OPTIONS,)
each = pytest.mark.parametrize("name", NAMES)


def build_with(name, family="ea_transformer", **options):
    """A loud model whose connections are not as they start, of evolving attention."""
    streams = {"streams": 3} if name in WITH_STREAMS else {}
    given = {**TINY, **PRE_NORM, **ROWS[family].options, **streams, **options}
    model = make_loud(build(family, **OPTIONS[name], **given))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if ".connections." in parameter_name:
                parameter += 0.3 * torch.randn_like(parameter)
    return model


def rms(x, epsilon=1e-6):
    return x / math.sqrt(sum(number**2 for number in x.tolist()) / len(x) + epsilon)


def softmax_mean(module, sources):
    powers = [math.exp((rms(source) * module.norm.weight) @ module.query) for source in sources]
    return sum(power / sum(powers) * source for power, source in zip(powers, sources, strict=True))


def hyper(module, streams):
    """Weights of reading (n), of mixing [to][from] and of writing (n)."""
    n, read, mixing, write = len(streams), [], [], []
    for h in streams:
        centred = h - h.mean()
        dynamic = torch.tanh(module.dynamic.weight @ (centred / math.sqrt(centred.square().mean() + 1e-5)))
        read.append(module.scales[0] * dynamic[0])
        mixing.append(module.scales[0] * dynamic[1 : n + 1])
        write.append(module.scales[1] * dynamic[n + 1])
    read = [module.read_weights[s] + read[s] for s in range(n)]
    to_from = [[module.stream_weights[to, s] + mixing[s][to] for s in range(n)] for to in range(n)]
    return read, to_from, [module.write_weights[s] + write[s] for s in range(n)]


def gates(module, streams):
    numbers = module.weight @ rms(torch.cat(streams))
    scales = [scale for scale, size in zip(module.scales.tolist(), module.groups, strict=True) for _ in range(size)]
    return [1 / (1 + math.exp(-(x * c + b))) + 1e-6 for x, c, b in zip(numbers, scales, module.bias, strict=True)]


def sinkhorn(matrix):
    for _ in range(20):
        matrix = [[x / (sum(row) + 1e-6) for x in row] for row in matrix]
        columns = [sum(column) + 1e-6 for column in zip(*matrix, strict=True)]
        matrix = [[x / column for x, column in zip(row, columns, strict=True)] for row in matrix]
    return matrix


def read(name, module, streams):
    """What a sub-layer reads of one word's streams, each (C,)."""
    if name in ("attention", "blocks"):
        return softmax_mean(module, streams)
    if name == "delta":
        return sum(streams) + (softmax_mean(module, streams) if len(streams) > 1 else 0)
    weights = hyper(module, streams)[0] if name == "hyper" else gates(module.gates, streams)[: len(streams)]
    return sum(weight * h for weight, h in zip(weights, streams, strict=True))


def write(name, module, streams, y, number):
    """The streams after the output of a stack's sub-layer of this number."""
    if name == "blocks" and number % BLOCK:
        return [*streams[:-1], streams[-1] + y]
    if name in ("attention", "delta", "blocks"):
        return [*streams, y]
    n = len(streams)
    if name == "hyper":
        _, mixing, post = hyper(module, streams)
    else:
        numbers = gates(module.gates, streams)[n:]
        post, mixing = numbers[:n], sinkhorn([numbers[n + n * row : 2 * n + n * row] for row in range(n)])
    return [sum(mixing[to][s] * streams[s] for s in range(n)) + post[to] * y for to in range(n)]


def end(name, reader, streams):
    if name in ("attention", "blocks"):
        return softmax_mean(reader, streams)
    if name == "mhc":
        return sum(weight * h for weight, h in zip(gates(reader, streams), streams, strict=True))
    return sum(streams)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "mudd"])
@torch.no_grad()
def test_an_encoder_equals_loops(name):
    """Norms, attentions and networks are the model's; what is between them is of one word after another."""
    model = build_with(name, encoder_layers=3).double().eval()
    encoder, tokens = model.encoder, random_tokens(torch.Generator().manual_seed(2), 1, 4)
    x = encoder.forward_embedding(tokens)[0][0]
    found = encoder(tokens)["encoder_out"][0][:, 0]
    words = [[row] * (encoder.connections.streams if name in ("hyper", "mhc") else 1) for row in x]
    outputs, passed, number = [x], None, itertools.count()
    for layer in encoder.layers:
        if name == "dense" and len(outputs) > 1:
            x = sum(w * out for w, out in zip(encoder.connections.weights[len(outputs) - 2], outputs, strict=True))

        def network(h, layer=layer):
            return layer.fc2(layer.activation_fn(layer.fc1(h)))

        for norm in ("self_attn_layer_norm", "final_layer_norm"):
            if name != "dense":
                x = torch.stack([read(name, layer.connections[norm], streams) for streams in words])
            h = getattr(layer, norm)(x).unsqueeze(1)
            if norm == "final_layer_norm":
                y = network(h)
            else:
                y, _, passed = layer.self_attn(h, h, h, need_weights=False, previous=passed)
            x = x + y[:, 0]
            if name != "dense":
                module, index, rows = layer.connections[norm], next(number), y[:, 0]
                words = [write(name, module, *both, index) for both in zip(words, rows, strict=True)]
        outputs.append(x)
    if name == "dense":
        x = sum(w * out for w, out in zip(encoder.connections.weights[-1], outputs, strict=True))
    else:
        x = torch.stack([end(name, getattr(encoder.connections, "reader", None), streams) for streams in words])
    torch.testing.assert_close(found, encoder.layer_norm(x), rtol=0, atol=1e-10)


def ways(module, vectors):
    """What each way reads of one word's X_i (C,)."""
    hidden = module.first.weight @ rms(vectors[-1])
    hidden = torch.stack([x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in hidden])
    dynamic, found = module.second.weight @ hidden, []
    for c, static in enumerate(module.bias):
        weights = [static[i] + dynamic[c * len(vectors) + i] for i in range(len(vectors))]
        found.append(sum(weight * x for weight, x in zip(weights, vectors, strict=True)))
    return found


@torch.no_grad()
@pytest.mark.parametrize("family", ["ea_transformer", "gated_attention"])
def test_an_encoder_with_mudd_equals_loops(family):
    """Attentions are as they are without connections, of three tensors of words."""
    model = build_with("mudd", family, encoder_layers=3).double().eval()
    plain = build(family, **{**TINY, **PRE_NORM, **ROWS[family].options, "encoder_layers": 3}).double().eval()
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if ".connections." not in k})
    encoder, tokens = model.encoder, random_tokens(torch.Generator().manual_seed(2), 1, 4)
    outputs, passed = [encoder.forward_embedding(tokens)[0][0]], None
    for layer in plain.encoder.layers:
        query = key = value = x = outputs[0]
        if len(outputs) > 1:
            of_words = [
                ways(encoder.connections.mixtures[len(outputs) - 2], [*xs]) for xs in zip(*outputs, strict=True)
            ]
            query, key, value, x = map(torch.stack, zip(*of_words, strict=True))
        tensors = [layer.self_attn_layer_norm(tensor).unsqueeze(1) for tensor in (query, key, value)]
        y, _, passed = layer.self_attn(*tensors, need_weights=False, previous=passed)
        x = x + y[:, 0]
        outputs.append(x + layer.fc2(layer.activation_fn(layer.fc1(layer.final_layer_norm(x)))))
    last = [ways(encoder.connections.mixtures[-1], [*xs])[0] for xs in zip(*outputs, strict=True)]
    found = encoder(tokens)["encoder_out"][0][:, 0]
    torch.testing.assert_close(found, encoder.layer_norm(torch.stack(last)), rtol=0, atol=1e-10)


@pytest.mark.parametrize("law", LAWS + FURTHER_LAWS, ids=lambda law: law.__name__)
@each
def test_law_holds(name, law):
    law(build_with(name), seed=3)


@each
def test_the_loss_changes_along_its_gradient(name):
    assert_loss_changes_along_its_gradient(build_with(name))


@each
def test_every_parameter_has_a_gradient_which_is_not_zero_but_where_there_is_one_source(name):
    model = build_with(name).train()
    loss_of(model).backward()
    for parameter_name, parameter in model.named_parameters():
        first = "layers.0.connections.self_attn_layer_norm" in parameter_name
        assert parameter.grad is not None and parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.any() or parameter_name.endswith("k_proj.bias") or first, parameter_name


@pytest.mark.parametrize("norm", ["layer", "rms"])
@each
def test_a_classifier_learns_under_autocast(name, norm):
    """Its embeddings, which a linear layer projects, are of half precision then."""
    options = {**TINY_ENCODER, "encoder_normalize_before": True, "norm": norm, **OPTIONS[name]}
    model, (_, tokens) = build_encoder("ea_transformer_classifier", **options).train(), draw(1)
    with torch.autocast("cpu", torch.bfloat16):
        output = model(tokens, features_only=True)[0]
    output.float().cos().sum().backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients and all(gradient.isfinite().all() for gradient in (output, *gradients))


@each
def test_activation_checkpointing_changes_no_gradient(name):
    gradients = []
    for options in ({}, {"checkpoint_activations": True}):
        torch.manual_seed(1)
        model = build_with(name, **options).train()
        loss_of(model).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@each
def test_torchs_own_counter_of_flops_agrees(name, monkeypatch):
    monkeypatch.setattr("ea_fairseq.kernels.dispatch.backend", "reference")
    assert_torch_counts_the_same(build_with(name))


@pytest.mark.parametrize("name", ["hyper", "dense", "mudd"])
def test_a_model_starts_as_with_sums(name):
    """The norm at the end takes n times the sum for the sum, but for its epsilon."""
    plain = make_loud(build("ea_transformer", **TINY, **PRE_NORM)).double()
    model = build("ea_transformer", **TINY, **PRE_NORM, connections=name).double()
    model.load_state_dict(plain.state_dict() | {k: v for k, v in model.state_dict().items() if ".connections." in k})
    _, source, target = draw_padded(plain, seed=4)
    assert_close(scores(model, source, target), scores(plain, source, target), 1e-3 if name == "hyper" else 1e-12)


def test_attention_residuals_start_as_means():
    model = build("ea_transformer", **TINY, **PRE_NORM, connections="attention")
    connection, state = model.encoder.layers[0].connections["final_layer_norm"], torch.randn(5, 2, 3, 8)
    torch.testing.assert_close(connection.mean(state), state.mean(-2))


@each
def test_fairseqs_search_translates_and_the_reason_is_given(name):
    reason = f"native code does not support --connections {OPTIONS[name]['connections']}"
    assert reason in {*unsupported_reasons(build_with(name).eval())}


@each
def test_layers_that_are_read_must_not_be_dropped(name):
    options = {**TINY, **PRE_NORM, **OPTIONS[name], "encoder_layerdrop": 0.5}
    if name in ("dense", "mudd"):
        with pytest.raises(UserError, match=f"--connections {name} reads all layers, and --encoder-layerdrop"):
            build("ea_transformer", **options)
    else:
        build("ea_transformer", **options)


@pytest.mark.parametrize("family", [name for name in ROWS if name in FAMILIES])
def test_mudd_goes_with_every_mechanism_that_has_no_branch(family):
    if FAMILIES[family].attention.has_branch:
        with pytest.raises(UserError, match="--connections mudd does not support convolutions in parallel"):
            build_with("mudd", family)
    else:
        assert_decodes_stepwise(build_with("mudd", family), seed=3)


def test_mudd_has_no_inputs_for_convolved_projections():
    with pytest.raises(UserError, match="three inputs, and --conv-projections supports only one"):
        build("ea_transformer", **TINY, **PRE_NORM, connections="mudd", conv_projections="q,k")


def test_blocks_are_counted_over_layers_and_of_attention_residuals_alone():
    model = build("ea_transformer", **TINY, **PRE_NORM, **OPTIONS["blocks"])
    for stack in (model.encoder, model.decoder):
        found = [one.begins_block for layer in stack.layers for one in layer.connections.values()]
        assert found == [number % BLOCK == 0 for number in range(len(found))] and len(found) > BLOCK
    with pytest.raises(UserError, match="--residual-block is for --connections attention"):
        build("ea_transformer", **TINY, **PRE_NORM, connections="delta", residual_block=2)


def test_sinkhorns_gradient_is_that_of_its_numbers():
    matrices = torch.rand(3, 2, 4, 4, dtype=torch.float64).add_(0.1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: Sinkhorn.apply(x, 3, 1e-6), matrices)


@pytest.mark.parametrize("name", ["hyper", "mudd"])
def test_without_norms_before_sub_layers_they_are_refused(name):
    with pytest.raises(UserError, match=f"--connections {name} needs norms before sub-layers"):
        build("ea_transformer", **TINY, connections=name)
    build("ea_transformer", **sizes(layers=1), connections="dense")
