"""Warnings about the code of fairseq and hydra, some twenty lines before each command, are not shown to its user.

They say which function will be called otherwise in a later version, which no user of a command can change. Warnings of
other texts are shown, and with ``-W`` or ``PYTHONWARNINGS`` Python shows what these ask for.
"""

import sys
import warnings

from ea_fairseq.fairseq_patches.errors import in_fairseq_command

TEXTS = (  # how they begin
    r"hydra\.experimental\.\w+\(\) is no longer experimental",
    r"\s*The version_base parameter is not specified",
    r"In '.*': Usage of deprecated keyword in package header",
    r"\s*'config' is validated against ConfigStore schema",
    r"\s*The strict flag in the compose API is deprecated",
    r"'pin_memory' argument is set as true but no accelerator is found",
    r"`torch\.cuda\.amp\.\w+\(args\.\.\.\)` is deprecated",
)


def quiet_warnings() -> None:
    """Ignores them in fairseq's commands."""
    if in_fairseq_command() and not sys.warnoptions:
        for text in TEXTS:
            warnings.filterwarnings("ignore", text)
