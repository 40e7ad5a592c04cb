"""A BERT in the files of today, and its features by the equations of its paper, in float64 and loops."""

import json
import math
from pathlib import Path

import torch
from torch import Tensor

from ea_fairseq.subwords.wordpiece import SYMBOLS

PIECES = ["[PAD]", *"abcdef", "[UNK]", "[CLS]", "##g", "[SEP]", "[MASK]", "zebra"]
CONFIG = {"model_type": "bert", "num_attention_heads": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12}
LAYERS, WIDTH, INNER, POSITIONS = 3, 8, 12, 20


def random_bert(seed: int = 1, head: bool = False) -> dict[str, Tensor]:
    """The parameters of a tiny BERT by its names, with a pooler and, where asked for, the language model's head."""
    generator = torch.Generator().manual_seed(seed)
    modules = {"word": len(PIECES), "position": POSITIONS, "token_type": 2}
    shapes = {f"embeddings.{name}_embeddings.weight": (size, WIDTH) for name, size in modules.items()}
    linear = {"pooler.dense": (WIDTH, WIDTH)} | ({"cls.predictions.transform.dense": (WIDTH, WIDTH)} if head else {})
    norms = ["embeddings.LayerNorm", *["cls.predictions.transform.LayerNorm"] * head]
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        linear |= {f"{layer}.attention.self.{name}": (WIDTH, WIDTH) for name in ("query", "key", "value")}
        linear |= {f"{layer}.attention.output.dense": (WIDTH, WIDTH)}
        linear |= {f"{layer}.intermediate.dense": (INNER, WIDTH), f"{layer}.output.dense": (WIDTH, INNER)}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    for name, shape in linear.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    shapes |= {f"{name}.{part}": (WIDTH,) for name in norms for part in ("weight", "bias")}
    shapes |= {"cls.predictions.bias": (len(PIECES),)} if head else {}
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def write_bert(folder: Path, parameters: dict[str, Tensor] | None = None, pieces=PIECES, **config) -> list[Path]:
    """Writes a BERT as others publish theirs; returns the files that are to be imported."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    model, vocabulary = folder / "model.safetensors", folder / "vocab.txt"
    save_file(random_bert() if parameters is None else parameters, model)
    vocabulary.write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    return [model, vocabulary]


def bert_features(
    parameters: dict[str, Tensor], rows: list[int], segments: list[int], heads: int, eps: float
) -> Tensor:
    """What BERT's last layer returns for a sentence, (S, C) in float64, from rows of its own embeddings."""
    weights = {name: tensor.double() for name, tensor in parameters.items() if tensor.is_floating_point()}

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name: str, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    words, positions, types = (
        weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
    )
    summed = [words[row] + positions[place] + types[segments[place]] for place, row in enumerate(rows)]
    x = norm("embeddings.LayerNorm", torch.stack(summed))
    layers = {int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")}
    for layer in (f"encoder.layer.{number}" for number in sorted(layers)):
        query, key, value = (linear(f"{layer}.attention.self.{name}", x) for name in ("query", "key", "value"))
        mixed, size = torch.zeros_like(x), x.size(1) // heads
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            for place in range(len(rows)):
                logits = torch.stack([query[place, part] @ other / math.sqrt(size) for other in key[:, part]])
                mixed[place, part] = sum(
                    weight * other for weight, other in zip(logits.softmax(0), value[:, part], strict=True)
                )
        x = norm(f"{layer}.attention.output.LayerNorm", x + linear(f"{layer}.attention.output.dense", mixed))
        inner = linear(f"{layer}.intermediate.dense", x)
        inner = inner * (1 + torch.erf(inner / math.sqrt(2))) / 2
        x = norm(f"{layer}.output.LayerNorm", x + linear(f"{layer}.output.dense", inner))
    return x


def symbol_rows(pieces: list[str], symbols: list[str]) -> list[int]:
    """The rows of BERT's embeddings of symbols of fairseq's dictionary."""
    names = {symbol: piece for piece, symbol in SYMBOLS.items()}
    return [pieces.index(names.get(symbol, symbol)) for symbol in symbols]
