"""attention_maps.py --centres on models of images: a head's Gaussian is that of its map."""

import csv
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from ea_fairseq.attention.mechanism import Grid, LayerContext
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.maps import head_centres
from ea_fairseq.experiments.maps.head_centres import PixelHead, draw_centres, draw_pixel_head, pixel_heads_of
from ea_fairseq.terms.image_positions import IMAGE_POSITIONS

SIDE = 41  # of a grid that is wide for these Gaussians
NAME = "encoder.layers.2.self_attn.mechanism.terms.0."


def term_of(name: str, seed: int):
    """A term of three heads with wide Gaussians."""
    torch.manual_seed(seed)
    term = IMAGE_POSITIONS[name](LayerContext("encoder", 0, grid=Grid(SIDE, SIDE)), 6, 3).double()
    with torch.no_grad():
        if name == "quadratic_image":
            term.sharpness.copy_(torch.tensor([0.3, -0.4, 0.5]))
        else:
            term.root.copy_(0.5 * torch.eye(2) + 0.05 * torch.randn(3, 2, 2))
    return term


def checkpoint_of(term, update: int = 7):
    parameters = {NAME + name: tensor for name, tensor in term.state_dict().items()}
    return SimpleNamespace(state={"model": parameters}, updates=update, path="a.pt")


@torch.no_grad()
@pytest.mark.parametrize("name", ["quadratic_image", "quadratic_image_general"])
def test_centre_and_covariance_are_those_of_the_map(name):
    term = term_of(name, seed=1)
    maps = term(SimpleNamespace(v=torch.zeros(1, dtype=torch.float64))).softmax(-1)
    query = SIDE * SIDE // 2  # the middle
    places = np.array([(row - SIDE // 2, column - SIDE // 2) for row in range(SIDE) for column in range(SIDE)])
    heads = list(pixel_heads_of(checkpoint_of(term)))
    assert [(head.layer, head.head, head.update) for head in heads] == [(3, 1, 7), (3, 2, 7), (3, 3, 7)]
    for head, weights in zip(heads, maps[:, query].numpy(), strict=True):
        mean = weights @ places
        covariance = np.cov(places.T, aweights=weights, bias=True)
        assert (head.row, head.column) == pytest.approx(tuple(mean), abs=1e-6)
        found = [[head.row_variance, head.covariance], [head.covariance, head.column_variance]]
        np.testing.assert_allclose(found, covariance, rtol=1e-4, atol=1e-4)


def test_ellipses_enclose_their_share_of_the_probability():
    head = PixelHead(1, 1, 0, row=1.0, column=-2.0, row_variance=2.0, covariance=0.9, column_variance=1.0)
    panel = Figure().subplots()
    draw_pixel_head(panel, head, "red")
    drawn = np.random.default_rng(1).multivariate_normal((1.0, -2.0), [[2.0, 0.9], [0.9, 1.0]], 20_000)
    for ellipse, share in zip(panel.patches, (0.5, 0.9), strict=True):
        inside = ellipse.get_patch_transform().inverted().transform(drawn[:, ::-1])
        assert (np.linalg.norm(inside, axis=1) <= 1).mean() == pytest.approx(share, abs=4 * math.sqrt(0.25 / 20_000))


def test_files_have_each_head_at_each_update(tmp_path, monkeypatch):
    checkpoints = [checkpoint_of(term_of("quadratic_image", seed), seed) for seed in range(1, 5)]
    monkeypatch.setattr(head_centres, "checkpoints", lambda path: checkpoints)
    written = draw_centres(tmp_path, tmp_path)
    assert {path.name for path in written} == {"centres.csv", "centres.png", "centres.svg"}
    with (tmp_path / "centres.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["head"], row["update"]) for row in rows] == [(str(h), str(u)) for h in (1, 2, 3) for u in (1, 2, 3, 4)]
    assert float(rows[0]["row_variance"]) == pytest.approx(1 / 0.3**2)
    checkpoints[1] = SimpleNamespace(state={"model": {}}, updates=1, path="a.pt")
    with pytest.raises(UserError, match=r"a\.pt has no --relative-positions quadratic_image"):
        draw_centres(tmp_path, tmp_path)
