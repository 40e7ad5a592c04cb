"""A model against the loops of its oracle, in float64."""

import torch

from ea_fairseq.attention.attention import Attention
from loops import decode, encode
from tiny import random_tokens


def by_our_forward(model):
    """The model, its plain attentions, too, computed by our forward.

    fairseq's own rounds a softmax to float32, and hides products from torch's counter.
    """
    for module in model.modules():
        if isinstance(module, Attention):
            module.is_plain = False
    return model


@torch.no_grad()
def assert_equals_loops(model, oracle):
    """Encoder and decoder, of two sentences of which one has padding."""
    model = by_our_forward(model.double())
    generator = torch.Generator().manual_seed(5)
    source, target = random_tokens(generator, 2, 5), random_tokens(generator, 2, 4)
    source[1, 3:] = target[1, 2:] = model.encoder.padding_idx
    embedded, _ = model.encoder.forward_embedding(source)
    embedded_target, _ = model.decoder.embed_target(target, None)
    encoded = model.encoder(source)
    decoded, _ = model.decoder.extract_features(target, encoded)
    for sentence, (length, words) in enumerate([(5, 4), (3, 2)]):
        vectors = embedded[sentence] * source[sentence].ne(model.encoder.padding_idx).unsqueeze(-1)
        x = encode(model, vectors, length, oracle)
        torch.testing.assert_close(encoded["encoder_out"][0][:length, sentence], x[:length], rtol=0, atol=1e-10)
        expected = decode(model, embedded_target[:, sentence], x, words, length, oracle)
        torch.testing.assert_close(decoded[sentence, :words], expected[:words], rtol=0, atol=1e-10)
