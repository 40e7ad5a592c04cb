"""The versions of the tools that a preparation uses."""

import platform
from argparse import Namespace
from importlib import metadata
from importlib.util import find_spec

from ea_fairseq.data.moses import moses_version
from ea_fairseq.errors import UserError

FAIRSEQ = ("fairseq-fixed", "fairseq")


def tool_version(tool: str) -> str:
    """The version of an installed tool; raises UserError where it is not installed."""
    if find_spec(tool.replace("-", "_")) is not None:
        for distribution in FAIRSEQ if tool == "fairseq" else (tool,):
            try:
                return metadata.version(distribution)
            except metadata.PackageNotFoundError:
                pass
    raise UserError(f"{tool} is not installed: install it with 'python -m pip install {tool}'.")


def tool_versions(options: Namespace) -> dict[str, str]:
    """The version of each tool that these options of a preparation ask for, and of Python.

    Raises:
        UserError: where one is not installed.
    """
    tools = ["fairseq"]
    if options.tokenizer == "moses" and not options.moses:
        tools += ["sacremoses", "regex"]
    tools += {"bpe": ["subword-nmt"], "sentencepiece": ["sentencepiece"]}.get(options.subword, [])
    versions = {"python": platform.python_version()} | {tool: tool_version(tool) for tool in tools}
    if options.moses:
        moses = moses_version(options.moses)
        versions["moses"] = f"{moses['commit'] or 'of unknown commit,'} scripts sha256:{moses['sha256']}"
    return versions
