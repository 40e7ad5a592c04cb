"""fairseq-generate in the process of the tests, which has imported all that it needs."""

from pathlib import Path

from fairseq import options
from fairseq_cli import generate

from commands import PLUGIN
from ea_fairseq.search.generation_options import StoreSearchOption


def generated(data: Path, results: Path, *flags) -> str:
    """What fairseq-generate writes of the test set into ``results``.

    No process loads batches: torch waits 5 seconds for one that was forked of tests that had run for long.
    """
    always = ["--user-dir", PLUGIN, "--cpu", "--required-batch-size-multiple", 1, "--num-workers", 0]
    command = [data, *always, "--results-path", results, *flags]
    try:
        generate.main(options.parse_args_and_arch(options.get_generation_parser(), list(map(str, command))))
    finally:
        StoreSearchOption.values = {}  # which would end with a process of its own
    return (results / "generate-test.txt").read_text(encoding="utf-8")
