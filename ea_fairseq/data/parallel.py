"""Work in several processes on any items, or on lines of text; results keep their order."""

import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from ea_fairseq.plain.text_lines import open_bytes, progress

CHUNK = 20_000  # lines

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Yields the results of a function for each item, in order; at most ``2 * workers`` items are in memory.

    Args:
        workers: maximum number of processes; if one is enough, the function runs in this process. Workers are forked,
            so they have the function and hold the locks that this process holds.

    Raises:
        BrokenProcessPool: if a process is killed.
    """
    items = iter(items)
    first = list(islice(items, workers))
    if len(first) < 2:
        yield from map(function, chain(first, items))
        return
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(len(first), fork, _start_worker, initargs=(function,)) as pool:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # only this process handles Ctrl-C
        try:
            pending = deque[Future](pool.submit(_call, item) for item in first)
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


_function: Callable[[Any], Any]  # of a worker


def _start_worker(function: Callable[[Item], Result]) -> None:
    """Sets a worker's function, and starts a thread that ends the worker with its parent."""
    global _function
    _function = function
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends this process when its parent ends, even by SIGKILL."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # in a worker
    parent.join()
    os._exit(1)


def _call(item: Any) -> Any:
    """Applies the worker's function."""
    return _function(item)


def read_lines(files: list[Path], label: str) -> Iterator[bytes]:
    """Yields the lines of plain or gzipped files, with a progress bar called ``label``."""
    for path in files:
        with open_bytes(path) as file:
            yield from progress(file, f"{label} in {path.name}")


def read_chunks(files: list[Path], label: str) -> Iterator[bytes]:
    """Yields the text of files, ``CHUNK`` lines at a time."""
    lines = read_lines(files, label)
    return iter(lambda: b"".join(islice(lines, CHUNK)), b"")


def count_words(files: list[Path], workers: int) -> Counter:
    """Counts how often each word occurs in plain or gzipped files, in several processes."""
    counts = Counter[str]()
    for chunk in map_in_order(_count_chunk, read_chunks(files, "counting words"), workers):
        counts.update(chunk)
    return counts


def _count_chunk(text: bytes) -> Counter:
    """Counts how often each word, separated by spaces, occurs in lines of text."""
    return Counter(word for line in text.decode().split("\n") for word in line.split(" ") if word)
