"""Code that the Transformer's encoder and decoder share: layers that pass logits or values on to the next layer."""

from collections.abc import Callable
from typing import Any

from fairseq.models.transformer import TransformerDecoderBase
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.term import Term
from ea_fairseq.models.activation_checkpointing import wrap_layer
from ea_fairseq.models.layer_options import LayerOptions

# The names of dropouts in fairseq's classes, if they are not the class name.
DROPOUT_NAMES = {"TransformerEncoderBase": "TransformerEncoder", "TransformerDecoderBase": "TransformerDecoder"}


class MechanismStack(nn.Module):
    """Code that encoder and decoder share: building layers that have an index and shared modules."""

    # Attributes that fairseq's encoders and decoders set.
    adaptive_softmax: nn.Module | None
    dropout_module: nn.Module
    embed_positions: nn.Module | None
    embed_scale: float
    embed_tokens: nn.Embedding
    forward_embedding: Callable[..., tuple[Tensor, Tensor]]
    layer_norm: nn.Module | None
    layernorm_embedding: nn.Module | None
    layers: nn.ModuleList
    num_layers: int
    padding_idx: int
    project_in_dim: nn.Module | None
    project_out_dim: nn.Module | None
    quant_noise: nn.Module | None

    def __init__(
        self, cfg: Any, *args: Any, attention: type[Attention], cross: type[Attention] | None = None, **kwargs: Any
    ):
        """
        Args:
            attention: the class of self-attentions.
            cross: the class of encoder-decoder attentions, by default the same.
        """
        # fairseq's constructor calls build_layer, which reads these.
        self._layers_built, self._attention, self._cross = 0, attention, cross or attention
        self._shared: dict[str, nn.Module] = {}
        super().__init__(cfg, *args, **kwargs)
        options = LayerOptions.from_namespace(cfg)
        options.replace_norms(self)
        side = cfg.decoder if isinstance(self, TransformerDecoderBase) else cfg.encoder
        self.connections = options.stack(side.embed_dim, self._layers_built, side.layerdrop)
        drops_out = options.final_dropout
        self.final_dropout = FairseqDropout(cfg.dropout, type(self).__name__) if drops_out else nn.Identity()
        name_dropouts(self)

    def build_layer(self, kind: type[nn.Module], cfg: Any, *args: Any) -> nn.Module:
        """Builds the next layer; ``kind`` is the class of an encoder's or a decoder's layers."""
        classes = {"attention": self._attention, "cross": self._cross}
        layer = kind(cfg, *args, **classes, layer=self._layers_built, shared=self._shared)
        self._layers_built += 1
        return wrap_layer(layer, cfg)

    def layer_input(self, states: list[Tensor]) -> Tensor:
        """Returns the next layer's input from the states so far, (T, B, C) each: by default the last one."""
        return self.connections.layer_input(states)

    def readable(self, states: list[Tensor]) -> list[Tensor]:
        """Returns the states for callers of fairseq's models, (T, B, C) each; none if words have several vectors."""
        return states if states[0].dim() == 3 else []

    def max_positions(self) -> int:
        """Returns the maximum sentence length: fairseq's limit, or the lower limit of a score term."""
        limits = (module.longest for module in self.modules() if isinstance(module, Term))
        return min([super().max_positions(), *filter(None, limits)])  # type: ignore[misc]  # fairseq's


def name_dropouts(stack: nn.Module) -> None:
    """Gives dropouts the names that they have in fairseq's classes, for ``--retain-dropout-modules``."""
    for module in stack.modules():
        names = [kind.__name__ for kind in type(module).__mro__ if kind.__module__.startswith("fairseq.")]
        for child in module.children():
            if isinstance(child, FairseqDropout) and child.module_name == type(module).__name__:
                child.module_name = DROPOUT_NAMES.get(names[0], names[0])
