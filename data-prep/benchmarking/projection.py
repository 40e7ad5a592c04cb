"""What WMT'14 English-French would cost, told by the costs of a smaller text."""

from benchmarking.corpus import GROWTH

ENFR_BYTES = 12_810_000_000  # of raw text, in 40,842,333 pairs


def seconds(stage: dict, times: float, cores: int) -> float:
    """The seconds that a stage would take on so many cores with so many times as much text.

    What workers did is shared out over the cores and the rest is done by one of them, before or after. The merges of
    BPE are learnt of types of words, not of text.
    """
    of_step = times**GROWTH if stage["name"].startswith("bpe.") else times
    return stage["step_cpu"] * of_step + stage["workers_cpu"] * times / cores


def project(run: dict, cores: int) -> dict[str, object]:
    """The hours of each stage and of all for English-French on so many cores, and the bytes on the disk."""
    times = ENFR_BYTES / run["bytes"]
    hours = {stage["name"]: seconds(stage, times, cores) / 3600 for stage in run["stages"]}
    return {"cores": cores, "hours": hours | {"all": sum(hours.values())}, "disk": round(run["disk"] * times)}
