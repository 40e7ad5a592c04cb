"""Print the version of each tool that a preparation uses, one `tool version` a line."""

import argparse
import platform
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ea_fairseq.data.moses import moses_version
from ea_fairseq.errors import UserError
from ea_fairseq.plain.commands import run

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


def main() -> None:
    """Print the versions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moses", type=Path, help="folder of Moses")
    parser.add_argument("tools", nargs="+", metavar="TOOL", help="name of a tool, as pip knows it")
    args = parser.parse_args()
    print("python", platform.python_version())
    for tool in args.tools:
        print(tool, tool_version(tool))
    if args.moses:
        moses = moses_version(args.moses)
        print("moses", moses["commit"] or "of unknown commit,", f"scripts sha256:{moses['sha256']}")


if __name__ == "__main__":
    run(main)
