"""Maps of long series in blocks of steps."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from ea_fairseq.attention.maps import STAGES, AttentionMaps
from ea_fairseq.explorer.blocks import Blocks


def draw_maps(steps: int, causal: bool) -> AttentionMaps:
    generator = torch.Generator().manual_seed(steps)
    own, mixed, logits = (torch.randn(2, steps, steps, generator=generator) for _ in range(3))
    if causal:
        later = torch.ones(steps, steps, dtype=torch.bool).triu(1)
        own, mixed, logits = (maps.masked_fill(later, -torch.inf) for maps in (own, mixed, logits))
    names = [str(step + 1) for step in range(steps)]
    return AttentionMaps(own, mixed, logits, logits.softmax(-1), names, names)


@given(st.integers(1, 30), st.integers(1, 12), st.booleans())
def test_an_entry_is_the_mean_of_what_queries_see_in_its_block(steps, most, causal):
    blocks, maps = Blocks.of(steps, most), draw_maps(steps, causal)
    found = blocks.maps(maps)
    ranges = [range(first, min(first + blocks.size, steps)) for first in range(0, steps, blocks.size)]
    assert len(ranges) == len(found.queries) == len(found.keys) <= most
    assert steps <= most or steps > (blocks.size - 1) * most  # no smaller block would do
    for stage in STAGES:
        for query, rows in enumerate(ranges):
            for key, columns in enumerate(ranges):
                entries = getattr(maps, stage)[:, rows][:, :, columns]
                seen = maps.own[0, rows][:, columns].isfinite()
                value = getattr(found, stage)[:, query, key]
                if seen.any():
                    torch.testing.assert_close(value.float(), entries[:, seen].mean(-1), rtol=1e-5, atol=1e-6)
                else:
                    assert value.tolist() == ([0, 0] if stage == "probabilities" else [-torch.inf] * 2)


@given(st.integers(1, 30), st.integers(1, 12))
def test_a_series_goes_in_the_same_blocks(steps, most):
    blocks, series = Blocks.of(steps, most), np.random.default_rng(steps).standard_normal((steps, 3))
    expected = [series[first : first + blocks.size].mean(0) for first in range(0, steps, blocks.size)]
    np.testing.assert_allclose(blocks.series(series), expected)


def test_blocks_are_named_by_their_first_and_last_step():
    assert Blocks.of(7, 3).names == ["1-3", "4-6", "7"]
    assert Blocks.of(3, 3).names == ["1", "2", "3"]
