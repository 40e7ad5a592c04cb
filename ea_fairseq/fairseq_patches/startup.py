"""Changes that importing this package makes to fairseq's commands before they start.

- PyPI's fairseq 0.12.2 is refused: it trains and evaluates models wrongly, without an error. Its
  ``TransformerEncoderLayerBase`` (fairseq/modules/transformer_layer.py) calls, in evaluation, a fused kernel of torch
  in place of the layer's own attention, and holds every encoder weight twice. That cannot be patched from outside.
- ``fairseq.utils.import_user_module`` refuses a user-dir whose module is imported, unless its path is spelled as in the
  module's ``__path__``. It looks for ``ea_fairseq`` in ``.../fairseq/../ea_fairseq``, and no import spells a path so.
  That spelling is added to ``__path__``, so that ``--user-dir ea_fairseq`` works.
- Warnings about the code of fairseq and hydra, some twenty lines before each command, are hidden. They announce changes
  of functions in later versions, which a command's user cannot act on. Other warnings are shown, and ``-W`` and
  ``PYTHONWARNINGS`` work as usual.
"""

import sys
import warnings
from pathlib import Path

from ea_fairseq.fairseq_patches.errors import in_fairseq_command

REMEDY = (
    "ea_fairseq needs fairseq-fixed, not PyPI's fairseq 0.12.2: run "
    "`pip uninstall -y fairseq && pip install fairseq-fixed==0.12.3.1` (Python 3.11 to 3.14)."
)
HIDDEN_WARNINGS = (  # beginnings of their messages, as regular expressions
    r"hydra\.experimental\.\w+\(\) is no longer experimental",
    r"\s*The version_base parameter is not specified",
    r"In '.*': Usage of deprecated keyword in package header",
    r"\s*'config' is validated against ConfigStore schema",
    r"\s*The strict flag in the compose API is deprecated",
    r"'pin_memory' argument is set as true but no accelerator is found",
    r"`torch\.cuda\.amp\.\w+\(args\.\.\.\)` is deprecated",
)


def require_working_fairseq() -> None:
    """Checks that fairseq can be imported and is not the broken release.

    Later, fixed sources have the same version number, so the release is recognized by its second copy of the weights.

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


def alias_user_dir(package_path: list[str]) -> None:
    """Appends fairseq's spelling of a package's folder to its ``__path__`` if both are the same folder."""
    import fairseq

    beside_fairseq = f"{Path(fairseq.__file__).parent}/../{Path(package_path[0]).name}"
    if Path(beside_fairseq).is_dir() and Path(beside_fairseq).samefile(package_path[0]):
        package_path.append(beside_fairseq)


def quiet_warnings() -> None:
    """Hides the warnings above in fairseq's commands."""
    if in_fairseq_command() and not sys.warnoptions:
        for text in HIDDEN_WARNINGS:
            warnings.filterwarnings("ignore", text)
