"""The loops of terms by distance: one logit of each, by the name of the term's class."""

import math

from loops import TERMS


def t5(term, tokens, head: int, t: int, s: int):
    """The buckets as a list of where each begins, in words."""
    if tokens.kind == "decoder":
        starts, distance = [*range(16), *(math.ceil(16 * 8 ** (step / 16)) for step in range(16))], max(t - s, 0)
    else:
        starts, distance = [*range(8), *(math.ceil(8 * 16 ** (step / 8) - 1e-9) for step in range(8))], abs(t - s)
    bucket = max(index for index, start in enumerate(starts) if start <= distance)
    return term.weight[bucket + 15 if s > t and tokens.kind == "encoder" else bucket, head]


def tap(term, tokens, t: int, s: int):
    """The tap of a key, or None beyond the kernel."""
    after = 0 if tokens.kind == "decoder" else 8
    return s - t + 8 if -8 <= s - t <= after else None


def fixed(term, tokens, head: int, t: int, s: int):
    index = tap(term, tokens, t, s)
    return 0.0 if index is None else term.weight[head, index]


def dynamic(term, tokens, head: int, t: int, s: int):
    index, query = tap(term, tokens, t, s), tokens.projected["q"][head, t]
    return 0.0 if index is None else query @ term.weight[:, index] / math.sqrt(len(query))


def from_key(term, tokens, head: int, t: int, s: int):
    index, key = tap(term, tokens, t, s), tokens.projected["k"][head, s]
    return 0.0 if index is None else key @ term.weight[:, index] / math.sqrt(len(key))


def quadratic(term, tokens, head: int, t: int, s: int):
    centre = -abs(term.centre[head]) if tokens.kind == "decoder" else term.centre[head]
    return -(term.sharpness[head] ** 2) / 2 * (s - t - centre) ** 2


TERMS |= {
    "T5Positions": t5,
    "FixedConvolution": fixed,
    "DynamicConvolution": dynamic,
    "KeyConvolution": from_key,
    "QuadraticPositions": quadratic,
}
