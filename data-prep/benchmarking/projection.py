"""The cost of preparing WMT'14 English-French, projected from the costs of a smaller text."""

from benchmarking.corpus import GROWTH

ENFR_BYTES = 12_810_000_000  # of raw text, in 40,842,333 pairs


def seconds(stage: dict, times: float, cores: int) -> float:
    """The seconds that a stage would take with ``times`` as much text on ``cores`` cores.

    The workers' time is divided by the cores; the rest is serial. Learning BPE merges takes time by the number of
    types, which grows by Heaps' law, not by the text.
    """
    of_step = times**GROWTH if stage["name"].startswith("bpe.") else times
    return stage["step_cpu"] * of_step + stage["workers_cpu"] * times / cores


def project(run: dict, cores: int) -> dict[str, object]:
    """Hours of each stage and of all for English-French on ``cores`` cores, and bytes on disk, from a measured run."""
    times = ENFR_BYTES / run["bytes"]
    hours = {stage["name"]: seconds(stage, times, cores) / 3600 for stage in run["stages"]}
    return {"cores": cores, "hours": hours | {"all": sum(hours.values())}, "disk": round(run["disk"] * times)}
