"""Reads a T5 from a safetensors file, with its parameters by the names and in the order of fairseq's Transformer."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.imported import FORMAT, read_config, read_weights, renamed, require_sizes

EPSILON = 1e-6  # of T5's norms and of all RMS norms in this package
EMBEDDINGS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
OUTPUT = "decoder.output_projection.weight"
MODULES = {  # T5's module names, and fairseq's
    "shared": "encoder.embed_tokens",
    "lm_head": "decoder.output_projection",
    "encoder.final_layer_norm": "encoder.layer_norm",
    "decoder.final_layer_norm": "decoder.layer_norm",
}
FEED_FORWARD = {"DenseReluDense.wi": "fc1", "DenseReluDense.wi_0": "gates", "DenseReluDense.wi_1": "units"} | {
    "DenseReluDense.wo": "fc2",
    "layer_norm": "final_layer_norm",
}


def attention(theirs: str, ours: str) -> dict[str, str]:
    """Returns the names of an attention's modules and of the norm before it: T5's, and fairseq's."""
    parts = dict(zip("qkvo", ("q_proj", "k_proj", "v_proj", "out_proj"), strict=True))
    return {f"{theirs}.{part}": f"{ours}.{name}" for part, name in parts.items()} | {"layer_norm": f"{ours}_layer_norm"}


SELF = attention("SelfAttention", "self_attn") | {"SelfAttention.relative_attention_bias": "self_attn.terms.1"}
SUB_LAYERS = {  # of each layer of encoder and decoder, in order
    "encoder": (SELF, FEED_FORWARD),
    "decoder": (SELF, attention("EncDecAttention", "encoder_attn"), FEED_FORWARD),
}
MODULE = re.compile(r"(encoder|decoder)\.block\.(0|[1-9]\d{0,2})\.layer\.([0-2])\.(.+)")
# Copies of the embeddings, and a bias that is in the first releases but unused.
UNREAD = re.compile(r"(encoder|decoder)\.embed_tokens\.weight|.*\.EncDecAttention\.relative_attention_bias\.weight")
SIZES = ("num_layers", "num_decoder_layers", "d_model", "d_ff", "vocab_size")


@dataclass(frozen=True)
class Config:
    """The content of a model's config.json; the weights must have the sizes that it gives."""

    model_type: Literal["t5"]
    num_heads: int
    d_kv: int = 64
    feed_forward_proj: Literal["relu", "gated-gelu"] = "relu"
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool | None = None
    layer_norm_epsilon: float = EPSILON
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    pad_token_id: int = 0
    eos_token_id: int = 1
    decoder_start_token_id: int | None = None
    num_layers: int | None = None
    num_decoder_layers: int | None = None
    d_model: int | None = None
    d_ff: int | None = None
    vocab_size: int | None = None

    def __post_init__(self) -> None:
        fixed = {"layer_norm_epsilon": EPSILON, "relative_attention_num_buckets": 32, "pad_token_id": 0}
        fixed |= {"relative_attention_max_distance": 128, "eos_token_id": 1}
        fixed |= {"decoder_start_token_id": 0} if self.decoder_start_token_id is not None else {}
        fixed |= {"scale_decoder_outputs": self.is_tied} if self.scale_decoder_outputs is not None else {}
        for name, value in fixed.items():
            if getattr(self, name) != value:
                raise ValueError(f"'{name}' must be {value}")
        if self.num_heads < 1 or self.d_kv < 1:
            raise ValueError("'num_heads' and 'd_kv' must be 1 or more")

    @property
    def is_tied(self) -> bool:
        """Whether the output projection is tied to the embeddings, as in T5 1.0 but not in 1.1."""
        return self.tie_word_embeddings

    @property
    def is_gated(self) -> bool:
        """Whether feed-forward networks have gates, as in T5 1.1."""
        return self.feed_forward_proj == "gated-gelu"


@dataclass(frozen=True)
class T5:
    """A T5's float32 parameters by fairseq's names; the rows of embeddings are still in T5's order.

    Args:
        sizes: of the model, by their names in config.json, as the shapes of the weights show them.
    """

    config: Config
    parameters: dict[str, Tensor]
    sizes: dict[str, int]

    @classmethod
    def read(cls, path: Path) -> "T5":
        """Reads model.safetensors and the config.json next to it.

        Raises:
            UserError: naming the file, and the parameter that is missing, unknown or not finite.
        """
        config = read_config(Config, path.with_name("config.json"), "T5")
        tensors = read_weights(path, "T5")
        require_tied(config, tensors, path)
        parameters = renamed(tensors, fairseq_name, UNREAD.fullmatch, path, "T5")
        if config.is_tied:
            parameters.pop(OUTPUT, None)
        for name in [name for name in parameters if name.endswith(".gates.weight")]:
            join_gates(parameters, name, path)
        sizes = sizes_of(parameters, path)
        sizes["d_ff"] //= 1 + config.is_gated
        require_sizes(config, sizes, path)
        heads = config.num_heads * config.d_kv
        query = parameters.get("encoder.layers.0.self_attn.q_proj.weight")
        if query is None or len(query) != heads:
            raise UserError(
                f"{path} has no query projection to {heads:,} numbers ('num_heads' x 'd_kv'), as its config.json says."
            )
        return cls(config, parameters, sizes)

    def options(self) -> dict[str, object]:
        """Returns fairseq's options for a model of this size."""
        sizes = self.sizes
        found: dict[str, object] = {
            "encoder_layers": sizes["num_layers"],
            "decoder_layers": sizes["num_decoder_layers"],
            "head_dim": self.config.d_kv,
        }
        for side in ("encoder", "decoder"):
            found |= {f"{side}_embed_dim": sizes["d_model"], f"{side}_attention_heads": self.config.num_heads}
            found |= {f"{side}_ffn_embed_dim": sizes["d_ff"]}
        return found

    def state(self, pieces: list[str], symbols: list[str]) -> dict[str, Tensor]:
        """Returns the parameters of fairseq's model.

        Args:
            pieces: T5's, in the order of their ids.
            symbols: of fairseq's dictionary, in its order; symbols that are not pieces get T5's unused rows and, if
                there is none, ``<s>`` gets the row of padding.

        Raises:
            UserError: if the embeddings have fewer rows than there are pieces.
        """
        rows = self.sizes["vocab_size"]
        if rows < len(pieces):
            raise UserError(f"the model has embeddings of {rows:,} pieces, and its vocabulary has {len(pieces):,}.")
        row, left = {piece: number for number, piece in enumerate(pieces)}, iter(range(len(pieces), rows))
        order = torch.tensor([row[symbol] if symbol in row else next(left, 0) for symbol in symbols])
        parameters = dict(self.parameters)
        parameters[EMBEDDINGS[0]] = parameters[EMBEDDINGS[1]] = parameters[EMBEDDINGS[0]][order]
        parameters[OUTPUT] = parameters[EMBEDDINGS[0]] if self.config.is_tied else parameters[OUTPUT][order]
        # All layers of a stack share the first one's table of positions.
        for side, layers in (("encoder", "num_layers"), ("decoder", "num_decoder_layers")):
            table = parameters[f"{side}.layers.0.self_attn.terms.1.weight"]
            parameters |= {
                f"{side}.layers.{layer}.self_attn.terms.1.weight": table for layer in range(self.sizes[layers])
            }
        return parameters | {f"{side}.version": torch.tensor([FORMAT]) for side in ("encoder", "decoder")}


def require_tied(config: Config, tensors: dict[str, Tensor], path: Path) -> None:
    """Raises UserError if encoder, decoder or a tied output projection have other embeddings than the shared ones."""
    names = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", *["lm_head.weight"] * config.is_tied]
    for name in names:
        if name in tensors and "shared.weight" in tensors and not torch.equal(tensors[name], tensors["shared.weight"]):
            raise UserError(f"{path} has a {name} that is not its shared.weight: it cannot be imported.")


def join_gates(parameters: dict[str, Tensor], name: str, path: Path) -> None:
    """Joins the two linear layers of a gated network into one, gates before units.

    Raises:
        UserError: if they are not matrices of the same size.
    """
    layer = name.removesuffix(".gates.weight")
    gates, units = parameters.pop(name), parameters.pop(f"{layer}.units.weight", None)
    if units is None or units.shape != gates.shape or gates.dim() != 2:
        raise UserError(f"{path} has no wi_0 and wi_1 of one size in {layer}.")
    parameters[f"{layer}.fc1.weight"] = torch.cat([gates, units])


def sizes_of(parameters: dict[str, Tensor], path: Path) -> dict[str, int]:
    """Returns the sizes of a model by their names in config.json; ``d_ff`` includes gates.

    Raises:
        UserError: if a parameter that shows a size is missing, or such a model has more parameters than the file.
    """
    tables = (f"{side}.layers.0.self_attn.terms.1.weight" for side in ("encoder", "decoder"))
    for name in (EMBEDDINGS[0], "encoder.layers.0.fc1.weight", *tables):
        weight = parameters.get(name)
        if weight is None or weight.dim() != 2 or not weight.numel():
            raise UserError(f"{path} is not a complete T5: it has no matrix {name}.")
    layers = {}
    for side in ("encoder", "decoder"):
        numbers = (re.match(rf"{side}\.layers\.(\d+)", name) for name in parameters)
        layers[side] = 1 + max(int(number[1]) for number in numbers if number)
    (rows, width), units = parameters[EMBEDDINGS[0]].shape, len(parameters["encoder.layers.0.fc1.weight"])
    if sum(layers.values()) * units * width > sum(map(Tensor.numel, parameters.values())):
        raise UserError(f"{path} is not a complete T5: it has too few parameters for {sum(layers.values())} layers.")
    return dict(zip(SIZES, (layers["encoder"], layers["decoder"], width, units, rows), strict=True))


def fairseq_name(name: str) -> str | None:
    """Returns fairseq's name of a T5 parameter, or None if it has none."""
    module, _, part = name.rpartition(".")
    if part != "weight":
        return None
    if module in MODULES:
        return f"{MODULES[module]}.weight"
    found = MODULE.fullmatch(module)
    if not found or int(found[3]) >= len(SUB_LAYERS[found[1]]):
        return None
    own = SUB_LAYERS[found[1]][int(found[3])].get(found[4])
    return own and f"{found[1]}.layers.{found[2]}.{own}.weight"
