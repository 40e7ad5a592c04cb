"""What must hold for every setting of evolving attention, as functions that raise AssertionError where it does not.

Each takes a model in evaluation mode and a seed that draws the sentences, their lengths and their padding.
"""

import torch

from tiny import random_tokens


def draw(seed: int, sentences: int = 2):
    generator = torch.Generator().manual_seed(seed)
    source_length, target_length = torch.randint(1, 8, (2,), generator=generator).tolist()
    source = random_tokens(generator, sentences, source_length)
    target = random_tokens(generator, sentences, target_length)
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
            order = (first_rows + torch.randint(beam, (len(staying), beam), generator=generator)).flatten()
            prefix, source = prefix[order], source[order]
            encoded = model.encoder.reorder_encoder_out(encoded, order)
            model.decoder.reorder_incremental_state_scripting(state, order)


LAWS = [assert_causal, assert_padding_invariant, assert_batch_invariant, assert_decodes_stepwise]
