"""Models of images as plain loops over the papers' equations, and one score of each term of pixels."""

import math

import torch
from torch import Tensor

from ea_fairseq.models.aa_resnet import AugmentedConvolution
from loops import TERMS, attend

# Terms of pixels -----------------------------------------------------------------------------------------------------


def offset(term, t: int, s: int) -> tuple[int, int] | None:
    """Rows and columns from a query to a key, or None if one of them is a class token."""
    grid = term.grid
    query, key = t - grid.leading, s - grid.leading
    if query < 0 or key < 0:
        return None
    return key // grid.columns - query // grid.columns, key % grid.columns - query % grid.columns


def image(term, tokens, head: int, t: int, s: int):
    """EA eq. 3."""
    if (found := offset(term, t, s)) is None:
        return 0.0
    query, (down, right) = tokens.projected["q"][head, t], found
    row, column = term.row_weight[down + term.grid.rows - 1], term.column_weight[right + term.grid.columns - 1]
    return (query @ row + query @ column) / math.sqrt(len(query))


def quadratic_image(term, tokens, head: int, t: int, s: int):
    """CONV-SA eq. 9."""
    if (found := offset(term, t, s)) is None:
        return 0.0
    squares = sum((distance - centre) ** 2 for distance, centre in zip(found, term.centre[head], strict=True))
    return -(term.sharpness[head] ** 2) / 2 * squares


def quadratic_image_general(term, tokens, head: int, t: int, s: int):
    if (found := offset(term, t, s)) is None:
        return 0.0
    away, root = torch.tensor(found, dtype=torch.float64) - term.centre[head], term.root[head]
    return -away @ root @ root.T @ away / 2


def learned_image(term, tokens, head: int, t: int, s: int):
    if (found := offset(term, t, s)) is None:
        return 0.0
    rows, columns = term.embeddings.rows, term.embeddings.columns
    row, column = rows[found[0] + term.grid.rows - 1], columns[found[1] + term.grid.columns - 1]
    return term.row_weight[head] @ row + term.column_weight[head] @ column


TERMS |= {
    "ImagePositions": image,
    "QuadraticImage": quadratic_image,
    "GeneralQuadraticImage": quadratic_image_general,
    "LearnedImage": learned_image,
}

# Models --------------------------------------------------------------------------------------------------------------


def gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / 2**0.5)) / 2


def patches(conv, pixels: Tensor) -> Tensor:
    """Patches of an image (C, H, W), row after row, projected: (T, D)."""
    size, (_, height, width) = conv.weight.size(-1), pixels.shape
    return torch.stack(
        [
            conv.weight.flatten(1) @ pixels[:, row : row + size, column : column + size].flatten() + conv.bias
            for row in range(0, height, size)
            for column in range(0, width, size)
        ]
    )


def vit(encoder, pixels: Tensor, oracle) -> Tensor:
    """An image (C, H, W) through a vision transformer: (D,)."""
    x, previous = patches(encoder.embed_patches, pixels), None
    if encoder.class_token is not None:
        x = torch.cat([encoder.class_token[None], x])
    x = x + encoder.embed_positions
    for layer in encoder.layers:
        normed = layer.self_attn_layer_norm(x)
        out, previous = attend(layer.self_attn, normed, normed, "encoder", previous, len(x), len(x), oracle)
        x = x + out
        hidden = layer.fc1(layer.final_layer_norm(x))
        if layer.fc2.in_features == hidden.size(1):
            x = x + layer.fc2(gelu(hidden))
        else:  # SwiGLU
            gates, units = hidden.chunk(2, dim=1)
            x = x + layer.fc2(gates / (1 + (-gates).exp()) * units)
    x = encoder.layer_norm(x)
    return x.mean(0) if encoder.class_token is None else x[0]


class OfPixels:
    """A pixel attention, whose values are tokens times W_h, as the loops read attentions."""

    def __init__(self, pixels):
        self.pixels, self.q_proj, self.k_proj = pixels, pixels.q_proj, pixels.k_proj

    def __getattr__(self, name: str):
        return getattr(self.pixels.mechanism, name)

    def v_proj(self, x: Tensor) -> Tensor:
        return torch.cat([x @ weight for weight in self.pixels.weight], dim=1)

    def out_proj(self, by_head: Tensor) -> Tensor:
        """The sum over heads and the bias, projected."""
        summed = sum(by_head.split(self.pixels.width, dim=1))
        return self.pixels.out_proj(summed + self.pixels.bias)


def conv_image(encoder, pixels: Tensor, oracle) -> Tensor:
    """An image (C, H, W) through a model of attention as convolution: (D,)."""
    x, previous = patches(encoder.embed_patches, pixels), None
    for layer in encoder.layers:
        attention = OfPixels(layer.self_attn)
        if previous is not None and len(previous) != attention.num_heads:
            previous = None
        out, previous = attend(attention, x, x, "encoder", previous, len(x), len(x), oracle)
        x = layer.self_attn_layer_norm(x + out)
        x = layer.final_layer_norm(x + layer.fc2(gelu(layer.fc1(x))))
    return x.mean(0)


def pooled(x: Tensor) -> Tensor:
    """The means of 3 x 3 pixels, every other row and column, (C, H, W) -> (C, H // 2, W // 2), within the image."""
    rows, columns = x.size(1) // 2, x.size(2) // 2
    return torch.stack(
        [
            torch.stack([x[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3].mean((1, 2)) for j in range(columns)], dim=1)
            for i in range(rows)
        ],
        dim=1,
    )


def between(target: int, source: int) -> list[tuple[int, int, float]]:
    """For each of the pixels of a larger side, the two of the smaller side next to it, and the weight of the second."""
    places = [max((i + 0.5) * source / target - 0.5, 0.0) for i in range(target)]
    return [(int(place), min(int(place) + 1, source - 1), place - int(place)) for place in places]


def enlarged(x: Tensor, height: int, width: int) -> Tensor:
    """An image (C, H, W), bilinearly resized."""
    result = torch.zeros(len(x), height, width, dtype=x.dtype)
    for i, (up, down, low) in enumerate(between(height, x.size(1))):
        for j, (left, right, far) in enumerate(between(width, x.size(2))):
            upper = (1 - far) * x[:, up, left] + far * x[:, up, right]
            lower = (1 - far) * x[:, down, left] + far * x[:, down, right]
            result[:, i, j] = (1 - low) * upper + low * lower
    return result


def augmented(module, x: Tensor, previous: Tensor | None, oracle) -> tuple[Tensor, Tensor]:
    """An augmented convolution of an image (C, H, W), and the logits for the next one."""
    convolved = module.conv(x[None])[0]
    for _ in range(module.poolings):
        x = pooled(x)
    tokens = torch.stack([x[:, i, j] for i in range(x.size(1)) for j in range(x.size(2))])
    if previous is not None and previous.size(1) != len(tokens):
        previous = None
    out, passed = attend(module.self_attn, tokens, tokens, "encoder", previous, len(tokens), len(tokens), oracle)
    attended = out.unflatten(0, (x.size(1), x.size(2))).permute(2, 0, 1)
    return torch.cat([convolved, enlarged(attended, *convolved.shape[1:])]), passed


def aa_resnet(encoder, pixels: Tensor, oracle) -> Tensor:
    """An image (C, H, W) through a small residual network: (D,)."""
    x, previous = encoder.stem_norm(encoder.stem(pixels[None])).relu()[0], None
    for block in encoder.blocks:
        found = x
        for i, (conv, norm) in enumerate(zip(block.convs, block.norms, strict=True)):
            found = found.relu() if i else found
            if isinstance(conv, AugmentedConvolution):
                found, previous = augmented(conv, found, previous, oracle)
            else:
                found = conv(found[None])[0]
            found = norm(found[None])[0]
        x = (found + block.shortcut(x[None])[0]).relu()
    return x.mean((1, 2))


def quarter(x: Tensor) -> Tensor:
    """The means of 2 x 2 pixels, (C, H, W) -> (C, H // 2, W // 2)."""
    rows, columns = x.size(1) // 2, x.size(2) // 2
    found = [x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean((1, 2)) for i in range(rows) for j in range(columns)]
    return torch.stack(found, dim=1).unflatten(1, (rows, columns))


def conv_transformer_image(encoder, pixels: Tensor, oracle) -> Tensor:
    """An image (C, H, W) through densely connected convolutions, with attention beside the last ones: (D,)."""
    x, before, previous = encoder.stem_norm(encoder.stem(pixels[None])).relu()[0], [], None
    stage = len(encoder.layers) // 4
    for i, layer in enumerate(encoder.layers):
        if i and i % stage == 0:
            before, previous = [quarter(one) for one in before], None
        if before:
            weight = layer.dense.weight[:, :, 0, 0]
            parts = weight.split([len(one) for one in before], dim=1)
            x = sum(torch.einsum("oc,chw->ohw", part, one) for part, one in zip(parts, before, strict=True))
        half = len(x) // 2
        first, _, middle, _, last = layer.branch
        convolved = last(middle(first((x if not layer.attended else x[half:])[None]).relu()).relu())[0]
        if layer.attended:
            tokens = torch.stack([x[:, r, c] for r in range(x.size(1)) for c in range(x.size(2))])
            length = len(tokens)
            out, previous = attend(layer.self_attn, tokens, tokens, "encoder", previous, length, length, oracle)
            convolved = torch.cat([out.T.unflatten(1, x.shape[1:]), convolved])
        x = layer.norms[0]((x + convolved)[None])
        x = layer.norms[1](x + layer.fc2(layer.fc1(x).relu()))[0]
        before.append(x)
    return x.mean((1, 2))


MODELS = {
    "vit_tiny": vit,
    "aa_resnet_20": aa_resnet,
    "conv_image_small": conv_image,
    "conv_transformer_image": conv_transformer_image,
}
