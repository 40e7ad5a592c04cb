"""A map over several processes that keeps the order of its results."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(make: Callable[[], Callable[[Item], Result]], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Yields the results of a function for each item, in order; at most ``2 * workers`` items are in memory.

    Args:
        make: makes the function, once in each process.
        workers: processes, at most; where there would be but one, the function runs in this one. They are forked and so
            hold the locks that this one holds.

    Raises:
        BrokenProcessPool: where a process is killed.
    """
    items = iter(items)
    first = list(islice(items, workers))
    if len(first) < 2:
        yield from map(make(), chain(first, items))
        return
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(len(first), fork, _start_worker, initargs=(make,)) as pool:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C is for this process alone
        try:
            pending = deque(pool.submit(_call, item) for item in first)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            pending.extend(pool.submit(_call, item) for item in islice(items, workers))
            while pending:
                result = pending.popleft().result()
                pending.extend(pool.submit(_call, item) for item in islice(items, 1))
                yield result
        finally:
            pool.shutdown(cancel_futures=True)


def _start_worker(make: Callable[[], Callable[[Item], Result]]) -> None:
    """Makes a worker's function, and a thread that ends the worker with its parent."""
    global _function
    _function = make()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends this process when its parent ends, even by SIGKILL."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _call(item: Item) -> Result:
    """Applies the worker's function."""
    return _function(item)
