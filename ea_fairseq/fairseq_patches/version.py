"""Refuses a fairseq that would train and translate wrongly, and makes the plugin known to the right one."""

from pathlib import Path

REMEDY = (
    "ea_fairseq needs fairseq-fixed, not PyPI's fairseq 0.12.2: run "
    "`pip uninstall -y fairseq && pip install fairseq-fixed==0.12.3.1` (Python 3.11 to 3.13)."
)


def require_working_fairseq():
    """Raises ImportError with one sentence when fairseq is missing or is the broken release 0.12.2.

    That release bypasses a layer's own attention in evaluation (a fast path inside torch) and holds every
    encoder weight twice. Its version number is also that of later, sound sources, so the twin weights tell it.
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


def know_all_paths(package_path: list[str]):
    """Adds to a package's ``__path__`` the spelling under which fairseq looks for it beside itself.

    fairseq refuses a ``--user-dir`` whose module is imported already from a path spelled otherwise, and looks for
    ``--user-dir ea_fairseq`` in ``.../fairseq/../ea_fairseq``, which no import spells so.
    """
    import fairseq

    beside_fairseq = f"{Path(fairseq.__file__).parent}/../{Path(package_path[0]).name}"
    if Path(beside_fairseq).is_dir() and Path(beside_fairseq).samefile(package_path[0]):
        package_path.append(beside_fairseq)
