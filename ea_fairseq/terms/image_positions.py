"""Positions of pixels, relative to each other: terms for tokens on a grid.

Bello et al., Attention Augmented Convolutional Networks, ICCV 2019 ("AA"; EA eq. 3); Cordonnier et al., On the
Relationship between Self-Attention and Convolutional Layers, ICLR 2020 ("CONV-SA"). A class token has no position: its
row and its column of a map are 0.
"""

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.inputs import Inputs
from ea_fairseq.attention.mechanism import Grid, LayerContext
from ea_fairseq.attention.term import Term

CENTRES_STD = 2.0  # CONV-SA's code; section 4.2 prints a variance of 2
START_STD = 0.01  # of noise added to parameters that start as one or as the identity, in CONV-SA's code


class ImageTerm(Term):
    """A term that depends on the distance in rows and columns from query to key; tokens must be pixels."""

    def __init__(self, context: LayerContext):
        super().__init__()
        assert context.grid is not None
        self.grid = context.grid

    @property
    def rows(self) -> Tensor:
        """The distance in rows from a row to another, (R, R)."""
        return self.distances(self.grid.rows)

    @property
    def columns(self) -> Tensor:
        """The distance in columns from a column to another, (C, C)."""
        return self.distances(self.grid.columns)

    def distances(self, places: int) -> Tensor:
        """Returns distances from each place to each other; not stored, because a checkpoint may ask for any size."""
        numbers = torch.arange(places, device=next(self.parameters()).device)
        return numbers - numbers.unsqueeze(1)

    def of_tokens(self, scores: Tensor, inputs: Inputs) -> Tensor:
        """Pads scores of pixels to scores of tokens (..., T, S), with zeros where query or key is not a pixel."""
        leading = self.grid.leading
        return F.pad(scores, (leading, 0, leading, 0)).type_as(inputs.v)


class ImagePositions(ImageTerm):
    """(q_i . eH[row_j - row_i] + q_i . eW[column_j - column_i]) / sqrt(d)  (EA eq. 3; AA eq. 3).

    All heads have the same embeddings, ``row_weight`` (2 R - 1, d) and ``column_weight`` (2 C - 1, d).
    """

    needs = "q"

    def __init__(self, context: LayerContext, width: int, heads: int):
        super().__init__(context)
        d, grid = width // heads, self.grid
        self.row_weight, self.column_weight = (
            nn.Parameter(torch.randn(2 * size - 1, d) * d**-0.5) for size in (grid.rows, grid.columns)
        )

    def forward(self, inputs: Inputs) -> Tensor:
        """(B, K, T, S)"""
        grid = self.grid
        # Queries of pixels, (B, K, R, C, d).
        query = (inputs.q[:, :, grid.leading :] * inputs.scale).unflatten(2, (grid.rows, grid.columns))
        # Their products with the embeddings of the distances to all rows and to all columns.
        by_row = products(query, self.row_weight[self.rows + grid.rows - 1])
        by_column = products(query.transpose(2, 3), self.column_weight[self.columns + grid.columns - 1])
        by_column = by_column.transpose(2, 3)
        # Their sum, for each pair of pixels; a product with one-hot rows and columns has a twice as fast gradient.
        if self.training:
            scores = torch.cat([by_row, by_column], dim=-1).flatten(2, 3) @ self.lines.type_as(by_row)
        else:
            scores = (by_row.unsqueeze(-1) + by_column.unsqueeze(-2)).flatten(4).flatten(2, 3)
        return self.of_tokens(scores, inputs)

    @property
    def lines(self) -> Tensor:
        """The row and the column of each pixel, one-hot, (R + C, T)."""
        rows, columns = (torch.eye(size, device=self.row_weight.device) for size in (self.grid.rows, self.grid.columns))
        return torch.cat([rows.repeat_interleave(len(columns), dim=1), columns.repeat(1, len(rows))])


class SeparableTerm(ImageTerm):
    """A sum of scores by row and scores by column, the same for all images.

    The softmax of this term alone is a product: a probability of the row times one of the column.
    """

    def along(self) -> tuple[Tensor, Tensor]:
        """Scores of rows (K, R, R) and of columns (K, C, C), from queries to keys."""
        raise NotImplementedError

    def forward(self, inputs: Inputs) -> Tensor:
        """(K, T, S)"""
        rows, columns = (limited(scores, inputs.v) for scores in self.along())
        scores = rows[:, :, None, :, None] + columns[:, None, :, None, :]
        return self.of_tokens(scores.flatten(3).flatten(1, 2), inputs)


class QuadraticImage(SeparableTerm):
    """-a^2 |delta - c|^2 / 2 for the distance delta in rows and columns, with a centre c for each head (CONV-SA eq. 9).

    Attributes:
        centre: (K, 2), in rows and columns from the query.
        sharpness: (K,), a; its sign has no effect.
    """

    def __init__(self, context: LayerContext, width: int, heads: int):
        super().__init__(context)
        self.centre = nn.Parameter(torch.randn(heads, 2) * CENTRES_STD)
        self.sharpness = nn.Parameter(1 + START_STD * torch.randn(heads))

    def along(self) -> tuple[Tensor, Tensor]:
        """Parabolas around the centre's row and column."""
        exact = torch.promote_types(self.centre.dtype, torch.float32)
        centre, sharpness = self.centre.to(exact), self.sharpness.to(exact)[:, None, None]
        by_row, by_column = (
            (sharpness * (distances - centre[:, i, None, None])).pow(2) / -2
            for i, distances in enumerate((self.rows, self.columns))
        )
        return by_row, by_column


class GeneralQuadraticImage(ImageTerm):
    """-(delta - c)^T S S^T (delta - c) / 2, with a matrix S = Sigma^-1/2 for each head  (CONV-SA eq. 9 and appendix).

    Attributes:
        centre: (K, 2), in rows and columns from the query.
        root: (K, 2, 2), S.
    """

    def __init__(self, context: LayerContext, width: int, heads: int):
        super().__init__(context)
        self.centre = nn.Parameter(torch.randn(heads, 2) * CENTRES_STD)
        self.root = nn.Parameter(torch.eye(2) + START_STD * torch.randn(heads, 2, 2))

    def forward(self, inputs: Inputs) -> Tensor:
        """(K, T, S)"""
        exact = torch.promote_types(self.centre.dtype, torch.float32)
        centre, root = self.centre.to(exact), self.root.to(exact)
        # S^T (delta - c) is a sum over rows (K, 2, R, R) and columns (K, 2, C, C).
        down, right = (
            root[:, i, :, None, None] * (distances - centre[:, i, None, None, None])
            for i, distances in enumerate((self.rows, self.columns))
        )
        offsets = down[:, :, :, None, :, None] + right[:, :, None, :, None, :]
        scores = limited(offsets.pow(2).sum(1) / -2, inputs.v)
        return self.of_tokens(scores.flatten(3).flatten(1, 2), inputs)


class DistanceEmbeddings(nn.Module):
    """Embeddings of the distances between rows, r (2 R - 1, d), and between columns, s (2 C - 1, d)."""

    def __init__(self, grid: Grid, d: int):
        super().__init__()
        self.rows, self.columns = (nn.Parameter(torch.randn(2 * size - 1, d)) for size in (grid.rows, grid.columns))


class LearnedImage(SeparableTerm):
    """u_k . r[row_j - row_i] + w_k . s[column_j - column_i], embeddings of distances for all heads (CONV-SA eq. 4).

    As in the authors' code, and not as in their section 4.3, both have all d channels.

    Attributes:
        embeddings: r and s.
        row_weight, column_weight: u and w, (K, d).
    """

    def __init__(self, context: LayerContext, width: int, heads: int, embeddings: DistanceEmbeddings | None = None):
        super().__init__(context)
        d = width // heads
        self.embeddings = embeddings or DistanceEmbeddings(self.grid, d)
        self.row_weight, self.column_weight = (
            nn.Parameter(torch.empty(heads, d).uniform_(-(d**-0.5), d**-0.5)) for _ in range(2)
        )

    @classmethod
    def of_stack(cls, context: LayerContext, width: int, heads: int) -> "LearnedImage":
        """Builds a term whose embeddings all layers of a stack share, as in the authors' model with content scores."""
        term = cls(context, width, heads, cast("DistanceEmbeddings | None", context.shared.get("distances")))
        context.shared["distances"] = term.embeddings
        return term

    def along(self) -> tuple[Tensor, Tensor]:
        """The score of each head for each distance."""
        rows, columns = self.row_weight @ self.embeddings.rows.T, self.column_weight @ self.embeddings.columns.T
        return rows[:, self.rows + self.grid.rows - 1], columns[:, self.columns + self.grid.columns - 1]


def products(query: Tensor, embeddings: Tensor) -> Tensor:
    """Multiplies queries (B, K, P, Q, d) of rows or columns P by their embeddings (P, P, d), to (B, K, P, Q, P)."""
    by_line = query.permute(2, 0, 1, 3, 4)  # one product for each row or column P
    found = by_line.flatten(1, 3) @ embeddings.to(query.dtype).transpose(1, 2)
    return found.unflatten(1, by_line.shape[1:4]).permute(1, 2, 0, 3, 4)


def limited(scores: Tensor, like: Tensor) -> Tensor:
    """Limits scores so that sums and convolutions of several do not overflow in the type of ``like``."""
    return scores.clamp(min=torch.finfo(like.dtype).min / 64)


IMAGE_POSITIONS: dict[str, Callable[..., Term]] = {  # by the value of --relative-positions
    "image": ImagePositions,
    "quadratic_image": QuadraticImage,
    "quadratic_image_general": GeneralQuadraticImage,
    "learned_image": LearnedImage,
    "learned_image_shared": LearnedImage.of_stack,
}
