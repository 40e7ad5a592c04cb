"""Whether native code is faster in bfloat16 on this processor, found out by a measurement of some milliseconds.

Instructions for bfloat16 are not everywhere faster than those for float32, and inputs have to be rounded for them.
"""

import logging
import time
from collections.abc import Callable

ROUNDS = 3


def is_faster_in_bfloat16(search: Callable[[bool], object], name: str) -> bool:
    """Times a search in float32 and in bfloat16, in turns, and compares the fastest of each.

    Args:
        search: called with whether linear layers multiply in bfloat16.
        name: of the search, for the warning that float32 is taken because it is faster.
    """
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for number in range(1 + ROUNDS):
        for bfloat16, found in seconds.items():
            begin = time.perf_counter()
            search(bfloat16)
            if number:  # the first warms up
                found.append(time.perf_counter() - begin)
    float32, halves = (1000 * min(found) for found in seconds.values())
    if halves > float32:
        logging.getLogger(__name__).warning(
            "native code computes in float32, not in bfloat16, which is slower on this processor: "
            f"{halves:.1f} ms instead of {float32:.1f} for {name}"
        )
    return halves <= float32
