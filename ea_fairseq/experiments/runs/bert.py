"""Reads a BERT from a safetensors file, with its parameters by the names and in the order of fairseq's RoBERTa."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from ea_fairseq.analysis.cost import UNUSED_POSITIONS
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.imported import FORMAT, read_config, read_weights, renamed, require_sizes
from ea_fairseq.subwords.wordpiece import SYMBOLS

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_accurate", "gelu_pytorch_tanh": "gelu_accurate", "relu": "relu"}
ENCODER, HEAD = "encoder.sentence_encoder", "encoder.lm_head"
MODULES = {  # BERT's module names, and fairseq's
    "embeddings.word_embeddings": f"{ENCODER}.embed_tokens",
    "embeddings.position_embeddings": f"{ENCODER}.embed_positions",
    "embeddings.token_type_embeddings": f"{ENCODER}.segment_embeddings",
    "embeddings.LayerNorm": f"{ENCODER}.layernorm_embedding",
    "pooler.dense": "pooler.dense",
    "cls.predictions.transform.dense": f"{HEAD}.dense",
    "cls.predictions.transform.LayerNorm": f"{HEAD}.layer_norm",
    "cls.predictions": HEAD,
}
IN_LAYERS = {
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
}
LAYER = re.compile(r"encoder\.layer\.(0|[1-9]\d{0,2})\.(.+)")
UNREAD = re.compile(r"embeddings\.position_ids|cls\.(seq_relationship|predictions\.decoder)\.(weight|bias)")
TIED = {  # parameters of BERT, and those that fairseq ties them to
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
SIZES = {  # names in config.json, and fairseq's options for the same sizes
    "num_hidden_layers": "encoder_layers",
    "hidden_size": "encoder_embed_dim",
    "intermediate_size": "encoder_ffn_embed_dim",
    "max_position_embeddings": "max_positions",
    "type_vocab_size": "segments",
}
OLD = {"gamma": "weight", "beta": "bias"}  # TensorFlow's names in layer norms, and PyTorch's


@dataclass(frozen=True)
class Config:
    """The content of a model's config.json; the weights must have the sizes that it gives."""

    model_type: Literal["bert"]
    num_attention_heads: int
    hidden_act: Literal["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"] = "gelu"
    layer_norm_eps: float = 1e-12
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: bool = False
    add_cross_attention: bool = False
    num_hidden_layers: int | None = None
    hidden_size: int | None = None
    intermediate_size: int | None = None
    vocab_size: int | None = None
    max_position_embeddings: int | None = None
    type_vocab_size: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.layer_norm_eps < 1:
            raise ValueError("'layer_norm_eps' must be a number between 0 and 1")
        if self.is_decoder or self.add_cross_attention:
            raise ValueError("'is_decoder' or 'add_cross_attention' is true, and a BERT is an encoder")


@dataclass(frozen=True)
class Bert:
    """A BERT's float32 parameters by fairseq's names; the rows of embeddings are still in BERT's order.

    Args:
        sizes: of the model, by their names in config.json, as the shapes of the weights show them.
    """

    config: Config
    parameters: dict[str, Tensor]
    sizes: dict[str, int]

    @classmethod
    def read(cls, path: Path) -> "Bert":
        """Reads model.safetensors and the config.json next to it.

        Raises:
            UserError: naming the file, and the parameter that is missing, unknown or not finite.
        """
        config = read_config(Config, path.with_name("config.json"), "BERT")
        tensors = read_weights(path, "BERT")
        require_tied(tensors, path)
        parameters = renamed(tensors, fairseq_name, UNREAD.search, path, "BERT", "bert.")
        sizes = sizes_of(parameters, path)
        require_sizes(config, sizes, path)
        return cls(config, parameters, sizes)

    @property
    def has_head(self) -> bool:
        """Whether it has the complete head of the language model."""
        names = ("dense.weight", "dense.bias", "layer_norm.weight", "layer_norm.bias", "bias")
        return all(f"{HEAD}.{name}" in self.parameters for name in names)

    def options(self) -> dict[str, object]:
        """Returns fairseq's options for a model of this size."""
        return {option: self.sizes[name] for name, option in SIZES.items()} | {
            "encoder_attention_heads": self.config.num_attention_heads,
            "activation_fn": ACTIVATIONS[self.config.hidden_act],
            "layer_norm_eps": self.config.layer_norm_eps,
        }

    def state(self, pieces: list[str]) -> dict[str, Tensor]:
        """Returns the parameters of fairseq's model, with rows in the order of its dictionary of these pieces.

        If the language model's head is missing, it starts as the identity.

        Raises:
            UserError: if the embeddings do not have one row for each piece.
        """
        parameters, width, types = dict(self.parameters), self.sizes["hidden_size"], self.sizes["vocab_size"]
        if types != len(pieces):
            raise UserError(f"the model has embeddings of {types:,} pieces, and its vocabulary {len(pieces):,}.")
        if not self.has_head:
            start = {"dense.weight": torch.eye(width), "dense.bias": torch.zeros(width)}
            start |= {"layer_norm.weight": torch.ones(width), "layer_norm.bias": torch.zeros(width)}
            start |= {"bias": torch.zeros(types)}
            parameters |= {f"{HEAD}.{name}": tensor for name, tensor in start.items()}
        row = {piece: number for number, piece in enumerate(pieces)}
        rows = torch.tensor([row[piece] for piece in in_order(pieces)])
        embeddings, positions = (f"{ENCODER}.{name}.weight" for name in ("embed_tokens", "embed_positions"))
        tied = parameters[embeddings] = parameters[embeddings][rows]
        parameters[positions] = torch.nn.functional.pad(parameters[positions], (0, 0, UNUSED_POSITIONS, 0))
        if parameters[f"{HEAD}.bias"].shape == rows.shape:
            parameters[f"{HEAD}.bias"] = parameters[f"{HEAD}.bias"][rows]
        return parameters | {f"{HEAD}.weight": tied, f"{ENCODER}.version": torch.tensor([FORMAT])}


def sizes_of(parameters: dict[str, Tensor], path: Path) -> dict[str, int]:
    """Returns the sizes of a model by their names in config.json.

    Raises:
        UserError: if a parameter that shows a size is missing, or such a model has more parameters than the file.
    """
    shapes = {}
    for name in ("embed_tokens", "embed_positions", "segment_embeddings", "layers.0.fc1"):
        weight = parameters.get(f"{ENCODER}.{name}.weight")
        if weight is None or weight.dim() != 2 or not weight.numel():
            raise UserError(f"{path} is not a complete BERT: it has no matrix {ENCODER}.{name}.weight.")
        shapes[name] = weight.shape
    numbers = (re.match(rf"{ENCODER}\.layers\.(\d+)", name) for name in parameters)
    layers = 1 + max(int(number[1]) for number in numbers if number)
    inner, width = shapes["layers.0.fc1"]
    if layers * (4 * width + 2 * inner) * width > sum(map(Tensor.numel, parameters.values())):
        raise UserError(
            f"{path} is not a complete BERT: it has too few parameters for {layers} layers of width {width}."
        )
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": inner,
        "vocab_size": shapes["embed_tokens"][0],
        "max_position_embeddings": shapes["embed_positions"][0],
        "type_vocab_size": shapes["segment_embeddings"][0],
    }


def in_order(pieces: list[str]) -> list[str]:
    """Returns the pieces in the order of fairseq's dictionary: its four symbols first and ``<mask>`` last."""
    *first, mask = SYMBOLS
    return [*first, *(piece for piece in pieces if piece not in SYMBOLS), mask]


def require_tied(tensors: dict[str, Tensor], path: Path) -> None:
    """Raises UserError if the output layer differs from embeddings and head, to which fairseq ties it."""
    named = {name.removeprefix("bert."): tensor for name, tensor in tensors.items()}
    for own, tied in TIED.items():
        if own in named and tied in named and not torch.equal(named[own], named[tied]):
            raise UserError(f"{path} has an output layer of its own, {own}, that is not {tied}: it cannot be imported.")


def fairseq_name(name: str) -> str | None:
    """Returns fairseq's name of a BERT parameter, which may begin with ``bert.``; None if it has none."""
    module, _, part = name.removeprefix("bert.").rpartition(".")
    part = OLD.get(part, part) if module.endswith("LayerNorm") else part
    if part not in ("weight", "bias"):
        return None
    if found := LAYER.fullmatch(module):
        return f"{ENCODER}.layers.{found[1]}.{IN_LAYERS[found[2]]}.{part}" if found[2] in IN_LAYERS else None
    return f"{MODULES[module]}.{part}" if module in MODULES else None
