"""The flags of two calls of fairseq-train, which may be the same training though its folders were moved since."""

import shlex
from os.path import relpath
from pathlib import Path

DATA = "the data"  # what comes before the first flag
FOLDER, LOG_FILE, USER_DIR, OURS = "--save-dir", "--log-file", "--user-dir", "ea_fairseq"
SHOWN = 3  # differences
Values = tuple[str, ...] | None  # of a flag; None where it is not given


def flags_of(command: list[str]) -> dict[str, tuple[str, ...]]:
    """The last values of each flag of a call of fairseq-train."""
    found, name = {}, DATA
    for word in command[1:]:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            found[name] = (value,) if equals else ()
        else:
            found[name] = (*found.get(name, ()), word)
    return found


def differences(before: list[str], now: list[str]) -> dict[str, tuple[Values, Values]]:
    """The values of the flags that two calls differ in, but for the folder of the training and our own user-dir.

    A path is the same where it leads to the same place, or to the same place as seen from the folder of the training.
    """
    calls = flags_of(before), flags_of(now)
    folders = [call.get(FOLDER, ())[-1:] for call in calls]
    for call in calls:
        if Path(*call.get(USER_DIR, ())).name == OURS:
            del call[USER_DIR]
    found = {}
    for flag in (calls[0] | calls[1]).keys() - {FOLDER, LOG_FILE}:
        one, other = values = calls[0].get(flag), calls[1].get(flag)
        if None in values or len(one) != len(other) or not all(map(is_same_word, one, other, [folders] * len(one))):
            found[flag] = values
    return found


def is_same_word(one: str, other: str, folders: list[tuple[str, ...]]) -> bool:
    """Whether two words are the same, or lead to the same place."""
    if one == other or not (one.startswith("/") and other.startswith("/")):
        return one == other
    if Path(one).resolve() == Path(other).resolve():
        return True
    return all(folders) and relpath(one, *folders[0]) == relpath(other, *folders[1])


def told(different: dict[str, tuple[Values, Values]]) -> str:
    """The first differences, with both values."""
    parts = [f"{flag} {shown(there)} there, {shown(here)} here" for flag, (there, here) in sorted(different.items())]
    more = [f"and {len(parts) - SHOWN} more"] if len(parts) > SHOWN else []
    return "; ".join([*parts[:SHOWN], *more])


def shown(values: Values) -> str:
    """The values of a flag, to read."""
    return "not given" if values is None else shlex.join(values) or "given"
