"""fairseq's Transformer encoder and decoder, whose layers pass logits or values on to the next layer."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.beam import BeamState, SelectedRows, by_sentence, select
from ea_fairseq.attention.term import Term
from ea_fairseq.kernels.masks import AttentionMasks
from ea_fairseq.models.activation_checkpointing import wrap_layer
from ea_fairseq.models.layer import MechanismDecoderLayer, MechanismEncoderLayer
from ea_fairseq.models.layer_options import LayerOptions

# The batch dimension of each tensor that an encoder returns.
OUTPUT_BATCH_DIMS = {
    "encoder_out": 1,
    "encoder_padding_mask": 0,
    "encoder_embedding": 0,
    "encoder_states": 1,
    "src_tokens": 0,
    "src_lengths": 0,
}
EncoderOutput = dict[str, Sequence[Tensor]]  # the type of what fairseq's encoders return
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
        """Builds the next layer, of the class of an encoder's or a decoder's layers."""
        classes = {"attention": self._attention, "cross": self._cross}
        layer = kind(cfg, *args, **classes, layer=self._layers_built, shared=self._shared)
        self._layers_built += 1
        return wrap_layer(layer, cfg)

    def layer_input(self, states: list[Tensor]) -> Tensor:
        """Chooses the next layer's input from the states so far, (T, B, C) each: the last one without flags."""
        return self.connections.layer_input(states)

    def readable(self, states: list[Tensor]) -> list[Tensor]:
        """The states that callers of fairseq's models may read: those of one vector a word, (T, B, C) each."""
        return states if states[0].dim() == 3 else []

    def max_positions(self) -> int:
        """Returns the maximum sentence length: fairseq's limit, or the lower limit of a score term."""
        limits = (module.longest for module in self.modules() if isinstance(module, Term))
        return min([super().max_positions(), *filter(None, limits)])  # type: ignore[misc]  # fairseq's


class MechanismEncoder(MechanismStack, TransformerEncoderBase):
    """fairseq's Transformer encoder, in which each attention receives what that of the layer below passes on."""

    def build_encoder_layer(self, cfg: Any) -> nn.Module:
        return self.build_layer(MechanismEncoderLayer, cfg)

    def forward_scriptable(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
    ) -> EncoderOutput:
        """
        Args:
            src_tokens: (B, S).
            token_embeddings: (B, S, C), looked up if None.

        Returns:
            fairseq's dictionary of encoder outputs.
        """
        # Embed tokens and positions, (B, S, C).
        padding_mask = src_tokens.eq(self.padding_idx)
        x, embedding = self.forward_embedding(src_tokens, token_embeddings)
        # Layers, from the bottom to the top.
        states = self.encode(x, padding_mask)
        # Final norm.
        x = self.connections.end(states)
        x = x if self.layer_norm is None else self.layer_norm(x)
        return {
            "encoder_out": [self.final_dropout(x)],  # (S, B, C)
            "encoder_padding_mask": [padding_mask],  # (B, S)
            "encoder_embedding": [embedding],  # (B, S, C)
            "encoder_states": self.readable(states) if return_all_hiddens else [],  # each (S, B, C)
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [(~padding_mask).sum(dim=1, keepdim=True).int()],  # (B, 1)
        }

    def encode(self, x: Tensor, padding_mask: Tensor) -> list[Tensor]:
        """Runs the layers on embeddings (B, S, C).

        Args:
            padding_mask: (B, S), true at padding, where embeddings are set to zero.

        Returns:
            The input of the first layer and the output of each, (S, B, C), or states (n, S, B, C).
        """
        # Set embeddings to zero at padding, and put the time dimension first.
        x = x.masked_fill(padding_mask.unsqueeze(-1), 0).transpose(0, 1)
        states, passed, padding = [self.connections.begin(x)], (), none_if_empty(padding_mask)
        masks = AttentionMasks(padding, padding)
        # Each layer takes what the one below passes on.
        for layer in self.layers:
            x, *passed = layer(self.layer_input(states), masks, *passed)
            states.append(x)
        return states

    def reorder_encoder_out(self, encoder_out: EncoderOutput, new_order: Tensor) -> EncoderOutput:
        """Moves row ``new_order[i]`` to row i; tensors are copied only if they are read."""
        return select(encoder_out, OUTPUT_BATCH_DIMS, new_order)


class MechanismDecoder(MechanismStack, TransformerDecoderBase):
    """fairseq's Transformer decoder, in which both attentions receive what those of the layer below pass on."""

    def __init__(self, cfg: Any, *args: Any, **kwargs: Any):
        super().__init__(cfg, *args, **kwargs)
        options = LayerOptions.from_namespace(cfg)
        self.logit_scale = cfg.decoder.embed_dim**-0.5 if options.scale_logits else 1.0
        self.start_token = self.padding_idx if options.start_with_padding else None  # None: what fairseq's batches have

    def build_decoder_layer(self, cfg: Any, no_encoder_attn: bool = False) -> nn.Module:
        return self.build_layer(MechanismDecoderLayer, cfg, no_encoder_attn)

    def extract_features_scriptable(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOutput | None,
        incremental_state: dict | None = None,
        full_context_alignment: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
    ) -> tuple[Tensor, dict]:
        """
        Args:
            prev_output_tokens: (B, T); with ``incremental_state`` only the last token of each row is new.
            full_context_alignment: whether self-attention is not causal.
            alignment_layer, alignment_heads: layer and number of heads whose encoder-decoder probabilities are
                returned as alignment; the last layer and all heads by default.

        Returns:
            Features (B, T, C), and a dictionary with the alignment (B, T, S) and the states (T, B, C).
        """
        if alignment_layer is None:
            alignment_layer = self.num_layers - 1
        # Embed tokens and positions; of a decoding step the last token only.
        x, padding_mask = self.embed_target(prev_output_tokens, incremental_state)
        if incremental_state is not None:
            encoder_out = begin_decoding_step(incremental_state, encoder_out, padding_mask, x)
        # Masks: a decoding step needs no causal one, because the cache has no future tokens.
        source = first(encoder_out, "encoder_out")
        source_padding_mask = first(encoder_out, "encoder_padding_mask")
        future = None if incremental_state is not None or full_context_alignment else future_mask(x)
        self_masks = AttentionMasks(padding_mask, future=future)
        cross_masks = AttentionMasks(source_padding_mask, padding_mask)

        # Each layer takes what both attentions of the one below pass on.
        alignment = None
        states = [self.connections.begin(x)]
        passed = ()
        for index, layer in enumerate(self.layers):
            x, weights, *passed = layer(
                self.layer_input(states),
                source,
                self_masks,
                cross_masks,
                incremental_state,
                index == alignment_layer,
                index == alignment_layer,
                *passed,
            )
            states.append(x)
            if index == alignment_layer and weights is not None:
                alignment = weights[:alignment_heads].to(x).mean(dim=0)

        # Final norm and projection, (B, T, C), and the scale of logits.
        x = self.connections.end(states)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        x = self.final_dropout(x).transpose(0, 1)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        if self.logit_scale != 1:
            x = self.logit_scale * x
        return x, {"attn": [alignment], "inner_states": self.readable(states), "is_step": incremental_state is not None}

    def get_normalized_probs_scriptable(
        self, net_output: tuple[Tensor, dict], log_probs: bool, sample: dict | None = None
    ) -> Tensor:
        """Returns probabilities or log-probabilities of the vocabulary; in decoding steps they overwrite the logits.

        The logits of all hypotheses are the largest tensor of a decoding step, and allocating another one is slow.
        """
        logits, is_step = net_output[0], isinstance(net_output[-1], dict) and net_output[-1].get("is_step")
        in_place = is_step and log_probs and self.adaptive_softmax is None
        if in_place and logits.dtype == torch.float32 and not logits.requires_grad:
            return torch.log_softmax(logits, dim=-1, out=logits)
        return super().get_normalized_probs_scriptable(net_output, log_probs, sample)

    def embed_target(self, tokens: Tensor, incremental_state: dict | None) -> tuple[Tensor, Tensor | None]:
        """Embeds target tokens (B, T), or only the last ones with ``incremental_state``.

        Returns:
            x (T, B, C) and the padding mask (B, T), or None if there is no padding.
        """
        # Look up positions and tokens.
        positions = None
        if self.embed_positions is not None:
            positions = self.embed_positions(tokens, incremental_state=incremental_state)
        # Replace the first token of each sentence.
        padding = tokens.eq(self.padding_idx)
        if self.start_token is not None:
            is_first = ~padding & (~padding).cumsum(dim=1).eq(1)
            tokens = tokens.masked_fill(is_first, self.start_token)
        if incremental_state is not None:
            tokens, padding = tokens[:, -1:], padding[:, -1:]
            positions = positions[:, -1:] if positions is not None else None
        x = self.embed_scale * self.embed_tokens(tokens)
        # Quantization noise and projection to the width of the layers.
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        # Add positions, normalize, apply dropout.
        if positions is not None:
            x = x + positions
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        x = self.dropout_module(x).transpose(0, 1)
        return x, none_if_empty(padding)

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Reorders all KV caches for beam search: row ``new_order[i]`` becomes row i; ``new_order`` is (B,)."""
        if BeamState.KEY in incremental_state:
            incremental_state[BeamState.KEY].reorder(new_order)


def name_dropouts(stack: nn.Module) -> None:
    """Gives dropouts the names that they have in fairseq's classes, for ``--retain-dropout-modules``."""
    for module in stack.modules():
        names = [kind.__name__ for kind in type(module).__mro__ if kind.__module__.startswith("fairseq.")]
        for child in module.children():
            if isinstance(child, FairseqDropout) and child.module_name == type(module).__name__:
                child.module_name = DROPOUT_NAMES.get(names[0], names[0])


def begin_decoding_step(
    incremental_state: dict, encoder_out: EncoderOutput | None, padding: Tensor | None, x: Tensor
) -> EncoderOutput | None:
    """Advances the beam state for tokens x (1, B, C); returns the encoder's output with one row per sentence."""
    if BeamState.KEY not in incremental_state:
        selected = encoder_out["encoder_out"] if encoder_out else None
        sentence = selected.rows if isinstance(selected, SelectedRows) else torch.arange(x.size(1), device=x.device)
        incremental_state[BeamState.KEY] = BeamState(sentence)
    incremental_state[BeamState.KEY].advance(padding)
    return encoder_out and {name: by_sentence(rows) for name, rows in encoder_out.items()}


def future_mask(x: Tensor) -> Tensor:
    """Returns the causal mask (T, T) for x (T, B, C), true where a key comes after the query.

    It is not cached: fairseq's buffer grows with the longest sentence so far, and each growth recompiles the graph.
    """
    length = x.size(0)
    return x.new_ones((length, length), dtype=torch.bool).triu(1)


def none_if_empty(padding_mask: Tensor) -> Tensor | None:
    """Returns None for a mask without padding, so that attentions skip the masking, as in fairseq.

    A compiled or exported graph cannot branch on a tensor's values: there the mask is returned, with the same result.
    """
    return padding_mask if torch.compiler.is_compiling() or padding_mask.any() else None


def first(encoder_out: EncoderOutput | None, name: str) -> Tensor | None:
    """Returns the only tensor in a list of the encoder's output, or None if there is none."""
    return encoder_out[name][0] if encoder_out and encoder_out[name] else None
