"""Self-attention with quadratic positions can be any convolution (CONV-SA theorem 1, in one dimension).

K heads of hard attention, their centres on the offsets of a kernel of K taps, equal ``F.conv1d`` wherever the kernel
stays within the sentence: one of C to as many channels as a head has, C / K, or all C with full-width heads. At its
ends they part: where the kernel would read a word that is not there, a convolution reads zero and a softmax, which
sums to one, the word nearest to it. So attention is the convolution of a sentence whose first and last words go on
(padding "replicate"); and the usual one (padding "same") if a sentence has K // 2 words of zeros at either end, as
CONV-SA says of images.
"""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.widened import widen_heads
from ea_fairseq.terms.quadratic import QuadraticPositions

SHARP = 10.0  # a = 50: CONV-SA needs 46 for probabilities that float32 cannot tell from 0 and 1
KERNELS = st.tuples(st.sampled_from([3, 5]), st.integers(1, 4), st.booleans(), st.integers(0, 2**32 - 1))
LENGTHS = st.integers(1, 12)


@torch.no_grad()
def attention_of(weight, bias, offsets, kind="encoder") -> Attention:
    """The attention that is a convolution; channels after its first D are zero.

    Args:
        weight: (D, C, K), of a convolution of K taps with D output channels, as many as a head has; bias: (D,).
        offsets: of the K taps from the word that they are computed for.
    """
    channels, width, heads = weight.shape
    term = QuadraticPositions(LayerContext(kind, 0), width, heads)
    attention = Attention(width, heads, terms=(term,), self_attention=True).eval()
    if channels == width:
        widen_heads(attention, heads * width)
    term.centre.copy_(torch.tensor(offsets))
    term.sharpness.fill_(SHARP)
    attention.v_proj.weight.copy_(weight.permute(2, 0, 1).flatten(0, 1))  # of head h, what tap h does
    attention.v_proj.bias.zero_()
    attention.out_proj.weight.zero_()
    attention.out_proj.weight[:channels] = torch.eye(channels).repeat(1, heads)  # adds the heads up
    attention.out_proj.bias.zero_()
    attention.out_proj.bias[:channels] = bias
    return attention


def draw(kernel, length):
    """A convolution's weight (D, C, K) and bias (D,), and a sentence (C, T) in a batch of one; D is C or C / K."""
    taps, channels, full, seed = kernel
    generator = torch.Generator().manual_seed(seed)
    width = taps * channels
    channels = width if full else channels
    weight = torch.randn(channels, width, taps, generator=generator) / width  # outputs of about one
    return weight, torch.randn(channels, generator=generator), torch.randn(1, width, length, generator=generator)


@torch.no_grad()
def attend(attention, x, **masks):
    """What attention makes of a batch (B, C, T), its first D channels."""
    words = x.permute(2, 0, 1)
    output = attention(words, words, words, **masks)[0].permute(1, 2, 0)
    assert not output[:, attention.head_dim :].any()
    return output[:, : attention.head_dim]


def around(taps):
    return range(-(taps // 2), taps // 2 + 1)


def assert_equal(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@given(KERNELS, LENGTHS)
@settings(max_examples=50)
def test_attention_is_a_convolution_of_a_sentence_whose_ends_go_on(kernel, length):
    weight, bias, x = draw(kernel, length)
    radius = weight.size(2) // 2
    attention = attention_of(weight, bias, around(weight.size(2)))
    found = attend(attention, x)
    assert_equal(found, F.conv1d(F.pad(x, (radius, radius), "replicate"), weight, bias))
    inside = slice(radius, max(length - radius, radius))  # where the kernel reads no word beyond the ends
    assert_equal(found[..., inside], F.conv1d(x, weight, bias, padding="same")[..., inside])


@given(KERNELS, LENGTHS)
@settings(max_examples=50)
def test_between_words_of_zeros_it_is_the_usual_convolution_to_the_ends(kernel, length):
    weight, bias, x = draw(kernel, length)
    radius = weight.size(2) // 2
    found = attend(attention_of(weight, bias, around(weight.size(2))), F.pad(x, (radius, radius)))
    assert_equal(found[..., radius : radius + length], F.conv1d(x, weight, bias, padding="same"))


@given(KERNELS, LENGTHS)
@settings(max_examples=50)
def test_a_decoders_is_a_causal_convolution(kernel, length):
    weight, bias, x = draw(kernel, length)
    taps = weight.size(2)
    attention = attention_of(weight, bias, range(1 - taps, 1), kind="decoder")
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    expected = F.conv1d(F.pad(x, (taps - 1, 0), "replicate"), weight, bias)
    assert_equal(attend(attention, x, attn_mask=future), expected)


@pytest.mark.parametrize(("taps", "full"), [(3, False), (5, False), (3, True)])
def test_padding_is_no_word_a_sentence_ends_before_it(taps, full):
    """The batch's padding is neither zeros nor a word: a shorter sentence's last word goes on, as without padding."""
    weight, bias, x = draw((taps, 2, full, 1), 9)
    attention = attention_of(weight, bias, around(taps))
    padded = torch.zeros(1, 9, dtype=torch.bool)
    padded[:, :2] = padded[:, 7:] = True
    assert_equal(attend(attention, x, key_padding_mask=padded)[..., 2:7], attend(attention, x[..., 2:7]))


def test_at_the_ends_it_is_not_the_convolution_with_zeros():
    weight, bias, x = draw((3, 2, False, 1), 6)
    found = attend(attention_of(weight, bias, around(3)), x)
    difference = (found - F.conv1d(x, weight, bias, padding="same")).abs().amax((0, 1))
    assert (difference > 1e-2).tolist() == [True, False, False, False, False, True]
