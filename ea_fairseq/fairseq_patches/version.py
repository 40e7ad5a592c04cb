"""PyPI's fairseq 0.12.2 is refused: it trains and evaluates models wrongly, without an error.

Two faults of its ``TransformerEncoderLayerBase`` (fairseq/modules/transformer_layer.py): in evaluation it calls a
fused kernel of torch in place of the layer's own attention, and it holds every encoder weight twice. They cannot be
patched from outside, so importing this package raises an error that says what to install.
"""

REMEDY = (
    "ea_fairseq needs fairseq-fixed, not PyPI's fairseq 0.12.2: run "
    "`pip uninstall -y fairseq && pip install fairseq-fixed==0.12.3.1` (Python 3.11 to 3.13)."
)


def require_working_fairseq() -> None:
    """Checks that fairseq can be imported and is not the broken release.

    Later, sound sources have the same version number, so the release is told by its second copy of the weights.

    Raises:
        ImportError: with one sentence that says what to install.
    """
    try:
        from fairseq.models.transformer import TransformerConfig
        from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
    except (ImportError, ValueError) as error:  # ValueError: its dataclasses on Python >= 3.11
        raise ImportError(f"{REMEDY} (importing fairseq failed: {error})") from error
    config = TransformerConfig()
    config.encoder.embed_dim = config.encoder.ffn_embed_dim = config.encoder.attention_heads = 1
    if hasattr(TransformerEncoderLayerBase(config), "in_proj_weight"):
        raise ImportError(REMEDY)
