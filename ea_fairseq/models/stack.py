"""fairseq's Transformer encoder and decoder, their layers passing something on."""

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
from ea_fairseq.models.layer import MechanismDecoderLayer, MechanismEncoderLayer, wrap

# The dimension of the rows in what an encoder returns.
OUTPUT_ROWS = {
    "encoder_out": 1,
    "encoder_padding_mask": 0,
    "encoder_embedding": 0,
    "encoder_states": 1,
    "src_tokens": 0,
    "src_lengths": 0,
}
EncoderOutput = dict[str, Sequence[Tensor]]  # what fairseq's encoders return
# What fairseq calls the dropout of its classes, where that is not the class name.
DROPOUT_NAMES = {"TransformerEncoderBase": "TransformerEncoder", "TransformerDecoderBase": "TransformerDecoder"}


class MechanismStack(nn.Module):
    """What builds the layers of encoder and decoder: each knows its number and what it shares with the others."""

    # Of fairseq's encoders and decoders.
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

    def __init__(self, cfg: Any, *args: Any, attention: type[Attention], **kwargs: Any):
        self._built, self._attention = 0, attention  # read while fairseq builds the layers
        self._shared: dict[str, nn.Module] = {}
        super().__init__(cfg, *args, **kwargs)
        name_dropouts(self)

    def build_layer(self, kind: type[nn.Module], cfg: Any, *args: Any) -> nn.Module:
        """The next layer, of an encoder's or decoder's kind."""
        layer = kind(cfg, *args, attention=self._attention, layer=self._built, shared=self._shared)
        self._built += 1
        return wrap(layer, cfg)

    def max_positions(self) -> int:
        """The most words of a sentence: fairseq's limit or, where it is lower, that of a term of own logits."""
        limits = (module.longest for module in self.modules() if isinstance(module, Term))
        return min([super().max_positions(), *filter(None, limits)])  # type: ignore[misc]  # fairseq's


class MechanismEncoder(MechanismStack, TransformerEncoderBase):
    """fairseq's Transformer encoder whose layers pass on what their attention does."""

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
            src_tokens: (B, S); token_embeddings: (B, S, C), looked up when absent.

        Returns:
            fairseq's dictionary of encoder outputs.
        """
        padding_mask = src_tokens.eq(self.padding_idx)
        x, embedding = self.forward_embedding(src_tokens, token_embeddings)  # (B, S, C)
        states = self.encode(x, padding_mask)
        return {
            "encoder_out": [states[-1] if self.layer_norm is None else self.layer_norm(states[-1])],  # (S, B, C)
            "encoder_padding_mask": [padding_mask],  # (B, S)
            "encoder_embedding": [embedding],  # (B, S, C)
            "encoder_states": states if return_all_hiddens else [],  # each (S, B, C)
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [(~padding_mask).sum(dim=1, keepdim=True).int()],  # (B, 1)
        }

    def encode(self, x: Tensor, padding_mask: Tensor) -> list[Tensor]:
        """Passes vectors (B, S, C), of tokens or of anything else, through the layers.

        Args:
            padding_mask: (B, S), true at padding, whose vectors become zero.

        Returns:
            What goes into the first layer and what comes out of each, (S, B, C).
        """
        x = x.masked_fill(padding_mask.unsqueeze(-1), 0).transpose(0, 1)  # (S, B, C)
        states, passed, padding = [x], (), unless_empty(padding_mask)
        masks = AttentionMasks(padding, padding)
        for layer in self.layers:
            x, *passed = layer(self.layer_input(states), masks, *passed)
            states.append(x)
        return states

    def layer_input(self, states: list[Tensor]) -> Tensor:
        """What the next layer reads of what went into the layers so far and came out, (S, B, C) each."""
        return states[-1]

    def reorder_encoder_out(self, encoder_out: EncoderOutput, new_order: Tensor) -> EncoderOutput:
        """Row i becomes what row ``new_order[i]`` was; copied only where somebody reads it."""
        return select(encoder_out, OUTPUT_ROWS, new_order)


class MechanismDecoder(MechanismStack, TransformerDecoderBase):
    """fairseq's Transformer decoder whose layers pass on what both their attentions do."""

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
            prev_output_tokens: (B, T); with ``incremental_state`` only its last column is new.
            full_context_alignment: let every target word see all others.
            alignment_layer, alignment_heads: layer and number of heads whose encoder-decoder probabilities are
                returned as alignment; the last layer and all heads by default.

        Returns:
            Features (B, T, C), and a dictionary with the alignment (B, T, S) and the states (T, B, C).
        """
        if alignment_layer is None:
            alignment_layer = self.num_layers - 1
        x, padding_mask = self.embed_target(prev_output_tokens, incremental_state)
        if incremental_state is not None:
            encoder_out = begin_step(incremental_state, encoder_out, padding_mask, x)
        source = first(encoder_out, "encoder_out")
        source_padding_mask = first(encoder_out, "encoder_padding_mask")
        future = None if incremental_state is not None or full_context_alignment else future_mask(x)
        self_masks = AttentionMasks(padding_mask, future=future)
        cross_masks = AttentionMasks(source_padding_mask, padding_mask)

        alignment = None
        states = [x]
        passed = ()
        for index, layer in enumerate(self.layers):
            x, weights, *passed = layer(
                x,
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

        if self.layer_norm is not None:
            x = self.layer_norm(x)
        x = x.transpose(0, 1)  # (B, T, C)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        return x, {"attn": [alignment], "inner_states": states, "is_step": incremental_state is not None}

    def get_normalized_probs_scriptable(
        self, net_output: tuple[Tensor, dict], log_probs: bool, sample: dict | None = None
    ) -> Tensor:
        """Probabilities of the words, or their logarithms: those of a decoding step in place of its scores.

        The vocabulary's scores of all hypotheses are the largest tensors of a step, and memory for them is slow to get.
        """
        scores, is_step = net_output[0], isinstance(net_output[-1], dict) and net_output[-1].get("is_step")
        in_place = is_step and log_probs and self.adaptive_softmax is None
        if in_place and scores.dtype == torch.float32 and not scores.requires_grad:
            return torch.log_softmax(scores, dim=-1, out=scores)
        return super().get_normalized_probs_scriptable(net_output, log_probs, sample)

    def embed_target(self, tokens: Tensor, incremental_state: dict | None) -> tuple[Tensor, Tensor | None]:
        """Embeds target tokens (B, T), or only the last of them with ``incremental_state``.

        Returns:
            x (T, B, C) and, if there is padding, its mask (B, T).
        """
        positions = None
        if self.embed_positions is not None:
            positions = self.embed_positions(tokens, incremental_state=incremental_state)
        if incremental_state is not None:
            tokens = tokens[:, -1:]
            positions = positions[:, -1:] if positions is not None else None
        x = self.embed_scale * self.embed_tokens(tokens)
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        if positions is not None:
            x = x + positions
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        x = self.dropout_module(x).transpose(0, 1)
        return x, unless_empty(tokens.eq(self.padding_idx))

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Lets all KV caches follow beam search: row i becomes what row ``new_order[i]`` was; ``new_order`` is (B,)."""
        if BeamState.KEY in incremental_state:
            incremental_state[BeamState.KEY].reorder(new_order)


def name_dropouts(stack: nn.Module) -> None:
    """Calls dropouts what fairseq calls those of its own classes, which ``--retain-dropout-modules`` names."""
    for module in stack.modules():
        names = [kind.__name__ for kind in type(module).__mro__ if kind.__module__.startswith("fairseq.")]
        for child in module.children():
            if isinstance(child, FairseqDropout) and child.module_name == type(module).__name__:
                child.module_name = DROPOUT_NAMES.get(names[0], names[0])


def begin_step(
    incremental_state: dict, encoder_out: EncoderOutput | None, padding: Tensor | None, x: Tensor
) -> EncoderOutput | None:
    """Begins a step of the tokens x (1, B, C); returns the encoder's output with a row for each sentence."""
    if BeamState.KEY not in incremental_state:
        selected = encoder_out["encoder_out"] if encoder_out else None
        sentence = selected.rows if isinstance(selected, SelectedRows) else torch.arange(x.size(1), device=x.device)
        incremental_state[BeamState.KEY] = BeamState(sentence)
    incremental_state[BeamState.KEY].advance(padding)
    return encoder_out and {name: by_sentence(rows) for name, rows in encoder_out.items()}


def future_mask(x: Tensor) -> Tensor:
    """(T, T) for x (T, B, C), true where a key comes later than the query.

    Made anew each time: fairseq's buffer grows with the longest sentence so far, and a graph compiled for one size of
    it is no use for the next.
    """
    length = x.size(0)
    return x.new_ones((length, length), dtype=torch.bool).triu(1)


def unless_empty(padding_mask: Tensor) -> Tensor | None:
    """The mask, or None where it marks no padding, as fairseq does to spare its attention the masking.

    A compiled or exported graph cannot branch on what a tensor holds: there the mask stays, with the same result.
    """
    return padding_mask if torch.compiler.is_compiling() or padding_mask.any() else None


def first(encoder_out: EncoderOutput | None, name: str) -> Tensor | None:
    """The tensor that fairseq keeps in a list of one, or None where there is none."""
    return encoder_out[name][0] if encoder_out and encoder_out[name] else None
