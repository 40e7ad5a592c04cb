"""Work shared out over several processes, its results in order."""

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(make: Callable[[], Callable[[Item], Result]], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """The items under the function that `make` makes once in each process, in order; only a few are held at a time."""
    if workers == 1:
        yield from map(make(), items)
        return
    items = iter(items)
    with ProcessPoolExecutor(workers, initializer=_start_worker, initargs=(make,)) as pool:
        pending = deque(pool.submit(_call, item) for item in islice(items, 2 * workers))
        try:
            while pending:
                result = pending.popleft().result()
                pending.extend(pool.submit(_call, item) for item in islice(items, 1))
                yield result
        finally:
            pool.shutdown(cancel_futures=True)


def _start_worker(make: Callable[[], Callable[[Item], Result]]) -> None:
    global _function
    _function = make()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


def _call(item: Item) -> Result:
    return _function(item)
