"""fairseq's Transformer encoder, whose layers pass logits or values on to the next layer."""

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor, nn

from ea_fairseq.attention.beam import select
from ea_fairseq.kernels.masks import AttentionMasks, none_if_empty
from ea_fairseq.models.layer import MechanismEncoderLayer
from ea_fairseq.models.stack import MechanismStack

# The batch dimension of each tensor that an encoder returns.
OUTPUT_BATCH_DIMS = {
    "encoder_out": 1,
    "encoder_padding_mask": 0,
    "encoder_embedding": 0,
    "encoder_states": 1,
    "src_tokens": 0,
    "src_lengths": 0,
}
EncoderOutput = dict[str, Sequence[Tensor]]  # the type of the outputs of fairseq's encoders


class MechanismEncoder(MechanismStack, TransformerEncoderBase):
    """fairseq's Transformer encoder, in which each attention receives what the one of the layer below passes on."""

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
            The input of the first layer and the output of each, (S, B, C), or states (S, B, n, C).
        """
        # Set embeddings to zero at padding, and put the time dimension first.
        x = x.masked_fill(padding_mask.unsqueeze(-1), 0).transpose(0, 1)
        if torch.is_autocast_enabled(x.device.type):  # by frozen weights, PyTorch multiplies strided tokens one by one
            x = x.contiguous()
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
