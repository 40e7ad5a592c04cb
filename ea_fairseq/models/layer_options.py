"""Flags for the parts of a Transformer's layers: norms, feed-forward networks, biases, and the scale of scores."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from ea_fairseq.attention.query_key import QueryKey
from ea_fairseq.attention.rms_norm import RMSNorm
from ea_fairseq.errors import UserError
from ea_fairseq.models.connections import CONNECTIONS, AttentionResidual, Stack
from ea_fairseq.models.mudd import separate_inputs
from ea_fairseq.options import Options, one_of, option, require_defaults, switch, whole

GATES: dict[str, Callable[[Tensor], Tensor]] = {  # Shazeer, GLU Variants Improve Transformer, 2020, by --ffn
    "swiglu": F.silu,
    "geglu": partial(F.gelu, approximate="tanh"),  # as in T5 1.1
}
FFNS = ("plain", *GATES)
WITH_STREAMS = ("hyper", "mhc")
OF_LAYERS = ("dense", "mudd")  # connections of layers, not of sub-layers
CONNECTED = ("residual", *CONNECTIONS, *OF_LAYERS)
MULTIPLE = 8  # of hidden units, if their number is not given


@dataclass(frozen=True)
class LayerOptions(Options):
    """The parts of a layer; by default those of fairseq's Transformer.

    Raises:
        UserError: naming the flag, if a value is invalid.
    """

    norm: str = option(
        "layer",
        one_of("layer", "rms"),
        "norms of all sub-layers: layer norm, or root mean square norm (rms) without means and biases",
    )
    ffn: str = option(
        "plain",
        one_of(*FFNS),
        "feed-forward networks: plain, with --activation-fn; swiglu or geglu, whose hidden units are gated",
    )
    gated_ffn_dim: int = option(
        0,
        whole(0),
        "hidden units of gated feed-forward networks; 0: two thirds of those of plain ones, to the nearest multiple of "
        f"{MULTIPLE}",
    )
    no_biases: bool = switch("linear layers and norms of the layers have no biases")
    qk_norm: bool = switch("normalize the queries and keys of each head by their root mean square")
    no_scale_attention: bool = switch("do not divide scores by the square root of a head's width")
    scale_logits: bool = switch("divide the logits of tokens by the square root of the decoder's width")
    head_dim: int = option(
        0,
        whole(0),
        "channels of the queries, keys and values of each head; 0: those of the layer, divided by the number of heads",
    )
    connections: str = option(
        "residual",
        one_of(*CONNECTED),
        "what connects sub-layers: their sum (residual), attention residuals (attention) or their delta form (delta), "
        "hyper-connections (hyper) or manifold-constrained ones (mhc); or weighted sums of layers: DenseFormer's "
        "(dense), or MUDD's, which are separate for queries, keys, values and residuals (mudd)",
    )
    streams: int = option(4, whole(1, 64), "streams of --connections hyper and mhc")
    residual_block: int = option(
        1, whole(1), "number of sub-layers whose outputs --connections attention sums into one vector"
    )
    start_with_padding: bool = switch("the decoder reads <pad>, not </s>, before the first token")
    final_dropout: bool = switch("apply --dropout to the output of encoder and decoder, too")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.residual_block > 1 and self.connections != "attention":
            raise UserError("--residual-block is for --connections attention: leave it out")

        if self.connections not in WITH_STREAMS:
            require_defaults(self, f"--connections {self.connections} has no streams", ("streams",))

    def norm_of(self, width: int, epsilon: float) -> nn.Module:
        """Builds a norm of vectors (..., width); ``epsilon`` is for layer norms."""
        if self.norm == "rms":
            return RMSNorm(width)
        return nn.LayerNorm(width, epsilon, bias=not self.no_biases)

    def replace_norms(self, module: nn.Module) -> None:
        """Replaces a module's own layer norms by the norms of these options."""
        for name, child in module.named_children():
            if isinstance(child, nn.LayerNorm) and (self.norm != "layer" or self.no_biases):
                setattr(module, name, self.norm_of(child.normalized_shape[0], child.eps))

    def hidden_units(self, width: int) -> int:
        """Returns the number of hidden units, for networks whose plain form has ``width``."""
        if self.ffn not in GATES:
            return width
        return self.gated_ffn_dim or max(1, round(2 * width / 3 / MULTIPLE)) * MULTIPLE

    def first_outputs(self, width: int) -> int:
        """Returns the number of outputs of the first linear layer: hidden units and, if gated, as many gates."""
        return (2 if self.ffn in GATES else 1) * self.hidden_units(width)

    def activation(self, plain: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """Returns the function between the two linear layers; ``plain`` is for networks without gates."""
        return partial(gated, GATES[self.ffn]) if self.ffn in GATES else plain

    def connect(self, module: nn.Module, width: int, layer: int) -> nn.ModuleDict | None:
        """Builds the connections of a layer's sub-layers, by the names of their norms; None for sums.

        Raises:
            UserError: if norms come after sub-layers, where states cannot be normalized; or if MUDD's inputs do not
                fit the self-attention.
        """
        if self.connections in ("residual", "dense"):
            return None
        if not module.normalize_before:
            raise UserError(
                f"--connections {self.connections} needs norms before sub-layers: give --encoder-normalize-before and "
                "--decoder-normalize-before"
            )
        if self.connections == "mudd":
            if layer:  # the first one reads the embedding
                separate_inputs(module)
            return None
        names = [name for name, _ in module.named_children() if name.endswith("_layer_norm")]
        connections = {name: CONNECTIONS[self.connections](width, layer, self.streams) for name in names}
        for number, connection in enumerate(connections.values(), start=layer * len(names)):
            if isinstance(connection, AttentionResidual):
                connection.begins_block = number % self.residual_block == 0
        return nn.ModuleDict(connections)

    def stack(self, width: int, layers: int, layerdrop: float) -> Stack:
        """Builds the connections of a stack's layers.

        Raises:
            UserError: if layers that others read may be dropped.
        """
        if self.connections in OF_LAYERS and layerdrop:
            raise UserError(
                f"--connections {self.connections} reads all layers, and --encoder-layerdrop and --decoder-layerdrop "
                "drop some: leave them out"
            )
        return Stack(self.connections, width, layers, self.streams)

    def query_key(self, width: int, rotates: bool) -> QueryKey | None:
        """Builds the norms and rotations of projected queries and keys of one head's ``width``; None without any."""
        return QueryKey(width, self.qk_norm, rotates) if self.qk_norm or rotates else None


def gated(gate: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Returns gated hidden units (..., H) from gates and units side by side, x (..., 2 H) (GLU Variants eq. 6)."""
    gates, units = x.chunk(2, dim=-1)
    return gate(gates) * units
