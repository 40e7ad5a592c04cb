"""Print the version of each tool that a preparation uses, one `tool version` a line."""

import argparse
from importlib import metadata
from importlib.util import find_spec

from step import StepError, run

FAIRSEQ = ("fairseq-fixed", "fairseq")


def tool_version(tool: str) -> str:
    """The version of an installed tool."""
    if find_spec(tool.replace("-", "_")) is not None:
        for distribution in FAIRSEQ if tool == "fairseq" else (tool,):
            try:
                return metadata.version(distribution)
            except metadata.PackageNotFoundError:
                pass
    raise StepError(f"{tool} is not installed: install it with 'python -m pip install {tool}'.")


def main() -> None:
    """Print the versions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", nargs="+", metavar="TOOL", help="name of a tool, as pip knows it")
    for tool in parser.parse_args().tools:
        print(tool, tool_version(tool))


if __name__ == "__main__":
    run(main)
