"""What must hold for every setting of evolving attention, as functions that raise AssertionError where it does not.

Each takes a model in evaluation mode and a seed that draws the sentences, their lengths and their padding.
"""

import copy

import torch

from ea_fairseq.attention.attention import Attention
from tiny import random_tokens

HEADS = {  # the dimension of heads in parameters of terms, by the term's class
    "T5Positions": {"weight": 1},
    "FixedConvolution": {"weight": 0},
    "QuadraticPositions": {"centre": 0, "sharpness": 0},
    "ImagePositions": {},
    "QuadraticImage": {"centre": 0, "sharpness": 0},
    "GeneralQuadraticImage": {"centre": 0, "root": 0},
    "LearnedImage": {"row_weight": 0, "column_weight": 0},
}
HEADS_OF_MECHANISMS = {  # the dimensions of heads in other parameters of an attention
    **{
        (name, part): dims
        for name in ("conv", "second_conv", "convs")
        for part, dims in (("weight", (0, 1)), ("bias", (0,)))
    },
    **{("learned", f"{name}_logits"): (0,) for name in ("alpha", "beta")},
    ("learned", "weight"): (0,),
    ("mix_logits", ""): (0, 1),
    ("mix_weights", ""): (0, 1),
    ("head_mixing", ""): (0, 1, 2),  # groups, and heads of a group
    ("head_norm", ""): (),
    **{("gate", part): () for part in ("weight", "bias")},
    ("lambdas", ""): (),
    ("gates", "weight"): (0,),
    ("layer_mixing", ""): (0, 2),
    ("sinks", ""): (0,),
    ("lambda_vectors", ""): (),
    ("pair_norm", ""): (),
    ("second_query", "weight"): (0,),
    **{
        (f"{side}_{maps}", part): dims
        for side in ("query", "key")
        for maps in ("logits", "weights")
        for part, dims in (("hidden", ()), ("mixing", (3,)), ("scales", (0,)))
    },
    ("query_key", "weight"): (),
}


def draw(seed: int, sentences: int = 2):
    generator = torch.Generator().manual_seed(seed)
    source_length, target_length = torch.randint(1, 8, (2,), generator=generator, device="cpu").tolist()
    source = random_tokens(generator, sentences, source_length)
    target = random_tokens(generator, sentences, target_length)
    return generator, source, target


def draw_padded(model, seed: int, sentences: int = 4):
    """Source and target sentences of different lengths, padded on both sides, with at least one word each."""
    generator, source, target = draw(seed, sentences)
    for tokens in (source, target):
        length = tokens.size(1)
        bounds = torch.randint(length + 1, (sentences, 2), generator=generator, device="cpu").sort(dim=1).values
        for row, (begin, end) in enumerate(bounds.tolist()):
            begin = min(begin, length - 1)
            tokens[row, :begin] = tokens[row, max(end, begin + 1) :] = model.encoder.padding_idx
    return generator, source, target


def scores(model, source, target):
    with torch.no_grad():
        return model(source, None, target)[0]


def assert_close(actual, expected, tolerance):
    difference = (actual - expected).abs().max().item()
    assert difference < tolerance, f"differs by {difference:.2g}, more than {tolerance}"


def assert_causal(model, seed: int, tolerance: float = 1e-5):
    """Changing the target words after step t changes no output up to t."""
    generator, source, target = draw(seed)
    expected = scores(model, source, target)
    for step in range(target.size(1)):
        changed = target.clone()
        changed[:, step + 1 :] = random_tokens(generator, *changed[:, step + 1 :].shape)
        assert_close(scores(model, source, changed)[:, : step + 1], expected[:, : step + 1], tolerance)


def assert_padding_invariant(model, seed: int, tolerance: float = 1e-4):
    """Padding on either side, of source and target, changes no output of a real word."""
    _, source, target = draw(seed)
    expected = scores(model, source, target)
    padding = torch.full((source.size(0), 1 + seed % 5), model.encoder.padding_idx)
    width = padding.size(1)
    for padded_source in (source, torch.cat([padding, source], 1), torch.cat([source, padding], 1)):
        left_padded = scores(model, padded_source, torch.cat([padding, target], 1))
        right_padded = scores(model, padded_source, torch.cat([target, padding], 1))
        assert_close(left_padded[:, width:], expected, tolerance)
        assert_close(right_padded[:, :-width], expected, tolerance)


def assert_batch_invariant(model, seed: int, tolerance: float = 1e-4):
    """A sentence alone gives what it gives beside longer ones."""
    generator, source, target = draw(seed, sentences=1)
    pad = model.encoder.padding_idx
    longer = 10

    def padded(tokens, left):
        padding = torch.full((1, longer - tokens.size(1)), pad)
        return torch.cat([padding, tokens] if left else [tokens, padding], 1)

    sources = torch.cat([padded(source, left=True), random_tokens(generator, 1, longer)])
    targets = torch.cat([padded(target, left=False), random_tokens(generator, 1, longer)])
    together = scores(model, sources, targets)[:1, : target.size(1)]
    assert_close(together, scores(model, source, target), tolerance)


def assert_decodes_stepwise(model, seed: int, tolerance: float = 1e-4, sentences: int = 2, beam: int = 3):
    """Decoding step by step equals one pass over the result.

    As in beam search, hypotheses of a sentence change places and multiply, and sentences that are done leave.
    """
    generator, source, _ = draw(seed, sentences)
    source = torch.cat([torch.full((sentences, 2), model.encoder.padding_idx), source], 1)
    source = source.repeat_interleave(beam, 0)
    prefix = torch.empty(sentences * beam, 0, dtype=torch.long)
    state = {}
    with torch.no_grad():
        encoded = model.encoder(source)
        for step in range(7):
            prefix = torch.cat([prefix, random_tokens(generator, len(prefix), 1)], 1)
            last = model.decoder(prefix, encoder_out=encoded, incremental_state=state)[0][:, -1]
            assert_close(last, scores(model, source, prefix)[:, -1], tolerance)
            staying = range(sentences) if step < 4 else [sentences - 1]
            first_rows = torch.arange(len(prefix)).view(-1, beam)[-len(staying) :, :1]
            chosen = torch.randint(beam, (len(staying), beam), generator=generator, device="cpu")
            order = (first_rows + chosen.to(first_rows)).flatten()
            prefix, source = prefix[order], source[order]
            encoded = model.encoder.reorder_encoder_out(encoded, order)
            model.decoder.reorder_incremental_state_scripting(state, order)


def assert_sentences_permute(model, seed: int, tolerance: float = 1e-5):
    """Permuting the sentences of a batch permutes its outputs."""
    generator, source, target = draw_padded(model, seed)
    order = torch.randperm(len(source), generator=generator, device="cpu")
    assert_close(scores(model, source[order], target[order]), scores(model, source, target)[order], tolerance)


def assert_heads_permute(model, seed: int, tolerance: float = 1e-4):
    """The heads' order means nothing: a model whose heads, with all that is theirs, change places stays the same."""
    _, source, target = draw_padded(model, seed)
    permuted = copy.deepcopy(model)
    attentions = [module for module in permuted.modules() if isinstance(module, Attention)]
    with torch.no_grad():
        for attention in attentions:
            reverse_heads(attention)
        reverse_terms(attentions)
    assert_close(scores(permuted, source, target), scores(model, source, target), tolerance)


def reverse_terms(attentions):
    """The heads of terms that layers may share."""
    for term in {term for attention in attentions for term in attention.terms}:
        for name, heads in HEADS.get(type(term).__name__, {}).items():
            getattr(term, name).copy_(getattr(term, name).flip(heads))


def reverse_heads(attention):
    """Of all heads or, where they are pairs, of the pairs."""
    heads = attention.num_heads // (2 if getattr(attention, "has_pairs", False) else 1)
    projections = [f"{part}_proj" for part in attention.projected]
    for projection in (getattr(attention, name) for name in projections):
        for parameter in projection.parameters():
            parameter.copy_(parameter.unflatten(0, (heads, -1)).flip(0).flatten(0, 1))
    weight = attention.out_proj.weight
    weight.copy_(weight.unflatten(1, (heads, -1)).flip(1).flatten(1, 2))
    reverse_mechanism(attention)


def reverse_mechanism(attention):
    """The heads of an attention's own terms, and of what the mechanism adds."""
    heads, projections = attention.num_heads, [f"{part}_proj" for part in attention.projected]
    for term in attention.terms:
        if type(term).__name__ not in HEADS:
            for parameter in term.parameters():  # by head, of the outputs of all heads, or of no head
                if parameter.size(0) in (heads, attention.embed_dim, attention.width("q")):
                    parameter.copy_(parameter.unflatten(0, (heads, -1)).flip(0).flatten(0, 1))
    for name, parameter in attention.named_parameters():
        owner, _, rest = name.partition(".")
        if owner not in (*projections, "out_proj", "terms"):
            parameter.copy_(parameter.flip(HEADS_OF_MECHANISMS[owner, rest.rpartition(".")[2]]))


def assert_trains_as_it_evaluates(model, seed: int, tolerance: float = 1e-5):
    """Without dropout, training computes what evaluation computes."""
    _, source, target = draw_padded(model, seed)
    evaluated = scores(model, source, target)
    trained = scores(copy.deepcopy(model).train(), source, target)
    assert_close(trained, evaluated, tolerance)


def assert_gradients_causal(model, seed: int):
    """No gradient reaches a target word from the outputs before it, and some reaches it from its own."""
    _, source, target = draw(seed)
    _, words, output = embedded_and_scored(model, source, target)
    for step in range(target.size(1)):
        (gradient,) = torch.autograd.grad(output[:, step].square().sum(), words, retain_graph=True)
        assert not gradient[:, step + 1 :].any(), f"a gradient of step {step} reaches a later word"
        assert gradient[:, step].any()


def assert_gradients_avoid_padding(model, seed: int):
    """No gradient reaches padding from the outputs of real words, and some reaches every other word."""
    _, source, target = draw_padded(model, seed)
    pad = model.encoder.padding_idx
    *embedded, output = embedded_and_scored(model, source, target)
    gradients = torch.autograd.grad(output[target.ne(pad)].square().sum(), embedded)
    for gradient, tokens in zip(gradients, (source, target), strict=True):
        assert torch.equal(gradient.ne(0).any(dim=-1), tokens.ne(pad))


def embedded_and_scored(model, source, target):
    """The embedded words of source (B, S, C) and target (B, T, C), and the scores that depend on them."""
    embedded = []
    hooks = [
        side.embed_tokens.register_forward_hook(lambda *call: embedded.append(call[-1]))
        for side in (model.encoder, model.decoder)
    ]
    output = model(source, None, target)[0]
    for hook in hooks:
        hook.remove()
    return *embedded, output


# One wrong tap of one window breaks these, so the tests check them for each combination of switches ...
LAWS = [assert_causal, assert_padding_invariant, assert_batch_invariant, assert_decodes_stepwise]
# ... and these for combinations that hypothesis draws.
FURTHER_LAWS = [
    assert_sentences_permute,
    assert_heads_permute,
    assert_trains_as_it_evaluates,
    assert_gradients_causal,
    assert_gradients_avoid_padding,
]
