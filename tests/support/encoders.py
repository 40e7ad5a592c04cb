"""Models that are an encoder alone: one of each mechanism, tiny, and what the tests ask of them."""

from types import SimpleNamespace

import torch

from ea_fairseq.attention.registry import FAMILIES
from laws import assert_close
from loops import Oracle, encode
from mechanisms import ROWS
from model_checks import by_our_forward
from tiny import built, dictionary, make_loud, random_tokens

TINY = {
    "encoder_embed_dim": 8,
    "encoder_ffn_embed_dim": 8,
    "encoder_attention_heads": 2,
    "encoder_layers": 3,
    "max_positions": 20,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}
PAD = dictionary().pad()
OF_DECODERS = ("decoder", "cross")
OPTIONS = {  # of each family's encoder, by which its mechanism is on
    family: {name: value for name, value in row.options.items() if not name.startswith(OF_DECODERS)}
    for family, row in ROWS.items()
}


def build(arch: str = "ea_roberta", seed: int = 1, words=None, **options):
    """An encoder, in evaluation mode."""
    task = SimpleNamespace(source_dictionary=words or dictionary(), max_positions=lambda: 512)
    return built(arch, task, seed, **options)


def build_encoder(family: str, layout: str = "roberta", seed: int = 1, **options):
    """A tiny encoder of a family, loud enough for a wrong number to show."""
    return louder(build(FAMILIES[family].encoder(layout), seed, **{**TINY, **OPTIONS[family], **options}))


@torch.no_grad()
def louder(model):
    """BERT's weights start so small that attention is near uniform; mixtures of heads do not."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and "mix" not in name and not name.endswith((".hidden", ".scales")):
            parameter.mul_(15.0)
    return make_loud(model)


def features(model, tokens):
    """What the last layer returns, (B, S, C)."""
    with torch.no_grad():
        return model(tokens, features_only=True)[0]


def classes(model, tokens):
    """Logits of the classes (B, classes)."""
    with torch.no_grad():
        return model(tokens, classification_head_name="head")[0]


def draw(seed: int, sentences: int = 4, longest: int = 7):
    """A generator, and sentences of two parts, padded on both sides, (B, S)."""
    generator = torch.Generator().manual_seed(seed)
    tokens = random_tokens(generator, sentences, longest)
    tokens[:, 2] = dictionary().eos()
    for row in range(1, sentences):
        first, last = torch.randint(0, 3, (2,), generator=generator).tolist()
        tokens[row, :first] = tokens[row, longest - last :] = PAD
    return generator, tokens


@torch.no_grad()
def assert_equals_loops(model, oracle: Oracle):
    """The model, which becomes float64, computes what its oracle does, of a sentence with padding and one without."""
    by_our_forward(model.double())
    tokens = random_tokens(torch.Generator().manual_seed(5), 2, 5)
    tokens[1, 3:] = PAD
    encoder = model.encoder.sentence_encoder
    embedded, _ = encoder.forward_embedding(tokens)
    found = features(model, tokens)
    for sentence, length in enumerate([5, 3]):
        vectors = embedded[sentence] * tokens[sentence].ne(PAD).unsqueeze(-1)
        expected = encode(SimpleNamespace(encoder=encoder), vectors, length, oracle)
        torch.testing.assert_close(found[sentence, :length], expected[:length], rtol=0, atol=1e-10)


def assert_padding_invariant(model, seed: int, tolerance: float = 1e-4):
    """Padding on either side changes no output of a word."""
    generator, _ = draw(seed)
    tokens = random_tokens(generator, 2, 6)
    expected, padding = features(model, tokens), torch.full((2, 1 + seed % 3), PAD)
    width = padding.size(1)
    assert_close(features(model, torch.cat([padding, tokens], 1))[:, width:], expected, tolerance)
    assert_close(features(model, torch.cat([tokens, padding], 1))[:, :-width], expected, tolerance)


def assert_batch_invariant(model, seed: int, tolerance: float = 1e-4):
    """A sentence alone gives what it gives among others, wherever it is padded."""
    _, tokens = draw(seed)
    together = features(model, tokens)
    for row, sentence in enumerate(tokens):
        words = sentence.ne(PAD)
        assert_close(together[row, words], features(model, sentence[words].unsqueeze(0))[0], tolerance)


def assert_trains_as_it_evaluates(model, seed: int, tolerance: float = 1e-5):
    """Without dropout, training computes what evaluation computes."""
    _, tokens = draw(seed)
    expected = features(model, tokens)
    assert_close(features(model.train(), tokens), expected, tolerance)


def assert_gradients_avoid_padding(model, seed: int):
    """No gradient reaches padding from the outputs of words, and some reaches every word."""
    _, tokens = draw(seed)
    embedded = []
    hook = model.encoder.sentence_encoder.embed_tokens.register_forward_hook(lambda *call: embedded.append(call[-1]))
    output = model(tokens, features_only=True)[0]
    hook.remove()
    (gradient,) = torch.autograd.grad(output[tokens.ne(PAD)].cos().sum(), embedded)
    assert torch.equal(gradient.ne(0).any(dim=-1), tokens.ne(PAD))


def assert_gradients_are_slopes(model, seed: int):
    """In float64, gradients of all parameters are what small steps along random directions measure."""
    by_our_forward(model.double())
    for module in (module for module in model.modules() if hasattr(module, "activation_fn")):
        module.activation_fn = torch.tanh  # fairseq's GELU is of float32
    _, tokens = draw(seed)
    parameters, step = list(model.parameters()), 1e-6

    def loss():
        return model(tokens)[0][tokens.ne(PAD)].cos().sum()

    gradients = torch.autograd.grad(loss(), parameters)
    directions = [torch.randn_like(parameter) for parameter in parameters]
    losses = []
    with torch.no_grad():
        for sign in (1, -1):
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.add_(direction, alpha=sign * step)
            losses.append(loss())
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.sub_(direction, alpha=sign * step)
    slope = sum((gradient * direction).sum() for gradient, direction in zip(gradients, directions, strict=True))
    torch.testing.assert_close((losses[0] - losses[1]) / (2 * step), slope, rtol=1e-5, atol=1e-6)


LAWS = [
    assert_padding_invariant,
    assert_batch_invariant,
    assert_trains_as_it_evaluates,
    assert_gradients_avoid_padding,
    assert_gradients_are_slopes,
]
