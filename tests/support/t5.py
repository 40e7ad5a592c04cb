"""A tiny T5 of random weights in the files of today, as the library that most people load it with writes them."""

import importlib.util
import io
import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

WORDS = ("the a one my", "cat dog house garden", "sees ran thinks", "well far away often")
TEXT = [" ".join(words) + " ." for words in product(*map(str.split, WORDS))]
TASK = "when sentence1: sentence2:"  # what comes before the sentences of a pair in text to text
needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed: pip install transformers"
)
SIZES = {"d_model": 16, "d_kv": 6, "num_heads": 3, "d_ff": 20, "num_layers": 3, "num_decoder_layers": 2}
VERSIONS = {
    "1.0": {"feed_forward_proj": "relu", "tie_word_embeddings": True},
    "1.1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
}
PIECES = 34  # of SentencePiece
ROWS = PIECES + 100 + 8  # with the sentinels, and some that nothing uses


def learn_pieces(path: Path, **options) -> None:
    """Learns a SentencePiece model with the symbols of T5."""
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    symbols = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "character_coverage": 1.0}
    lines = iter([*TEXT, TASK])
    options = {"vocab_size": PIECES, "minloglevel": 2, **symbols, **options}
    SentencePieceTrainer.train(sentence_iterator=lines, model_writer=model, **options)
    path.write_bytes(model.getvalue())


def random_t5(version: str, **sizes: int) -> dict[str, Tensor]:
    """The parameters of a T5 by its names."""
    sizes = {**SIZES, "rows": ROWS, **sizes}
    width, heads, units = sizes["d_model"], sizes["num_heads"] * sizes["d_kv"], sizes["d_ff"]
    attention = {"q": (heads, width), "k": (heads, width), "v": (heads, width), "o": (width, heads)}
    shapes: dict[str, tuple[int, ...]] = {"shared": (sizes["rows"], width)}
    if version == "1.1":
        shapes["lm_head"] = (sizes["rows"], width)
    for side, kinds, layers in (
        ("encoder", ["SelfAttention"], sizes["num_layers"]),
        ("decoder", ["SelfAttention", "EncDecAttention"], sizes["num_decoder_layers"]),
    ):
        shapes[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias"] = (32, sizes["num_heads"])
        shapes[f"{side}.final_layer_norm"] = (width,)
        for block in range(layers):
            for number, kind in enumerate([*kinds, "DenseReluDense"]):
                layer = f"{side}.block.{block}.layer.{number}"
                shapes[f"{layer}.layer_norm"] = (width,)
                first = dict.fromkeys(["wi"] if version == "1.0" else ["wi_0", "wi_1"], (units, width))
                parts = attention if kind != "DenseReluDense" else {**first, "wo": (width, units)}
                shapes |= {f"{layer}.{kind}.{part}": shape for part, shape in parts.items()}
    generator = torch.Generator().manual_seed(1)
    return {f"{name}.weight": 0.5 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def write_t5(folder: Path, version: str, parameters: dict[str, Tensor] | None = None, **config) -> Path:
    """Writes a T5 as others publish theirs; returns the folder."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file(random_t5(version) if parameters is None else parameters, folder / "model.safetensors")
    learn_pieces(folder / "spiece.model")
    described = {"model_type": "t5", "vocab_size": ROWS, "layer_norm_epsilon": 1e-6, "decoder_start_token_id": 0}
    (folder / "config.json").write_text(json.dumps({**described, **SIZES, **VERSIONS[version], **config}))
    return folder


def theirs(folder: Path) -> Any:
    """The model of ``transformers`` that a folder's files are, in evaluation mode."""
    sys.modules.setdefault("torchaudio", None)  # type: ignore[arg-type]  # which it imports where it is installed
    from transformers import T5ForConditionalGeneration

    return T5ForConditionalGeneration.from_pretrained(folder).eval()
