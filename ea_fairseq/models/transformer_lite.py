"""The baseline ``transformer_lite``: fairseq's own Transformer at the papers' smallest size."""

from typing import Any

from fairseq.models import register_model_architecture
from fairseq.models.transformer import base_architecture


def lite_sizes(args: Any) -> None:
    """Width 160, feed-forward 160, 4 heads (Transformer-Lite in EA, table 5); 6 + 6 layers are fairseq's default."""
    for side in ("encoder", "decoder"):
        for name, size in (("embed_dim", 160), ("ffn_embed_dim", 160), ("attention_heads", 4)):
            option = f"{side}_{name}"
            setattr(args, option, getattr(args, option, size))


@register_model_architecture("transformer", "transformer_lite")
def transformer_lite(args: Any) -> None:
    """fairseq's Transformer of these sizes."""
    lite_sizes(args)
    base_architecture(args)
