"""Decoding of large state files in several processes, because decoding holds Python's lock.

Invariant: another process gives the same answer as this one, or none. A file without an answer (unreadable, or its
process was killed) is decoded here, so a read error is reported in the usual place.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from threading import Thread

from airflow_provider_ha.checkpoints.format.content import Answer, ContentCheck
from airflow_provider_ha.checkpoints.format.releases import Release
from airflow_provider_ha.checkpoints.format.store_files import StateFile
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import StorageUnavailableError


# A request to another process costs as much as decoding some 50 KB here; starting the process, some 100 MB.
LARGE, WORTH = 1 << 20, 256 << 20


@contextmanager
def helped(
    content: ContentCheck, directory: Tree, release: Release, files: Iterable[StateFile], processes: int
) -> Iterator[None]:
    """Let *processes* others decode the large ones of *files*, in order, while the block runs.

    :param content: Receives their answers on request for a file.
    :param directory: A local directory, which other processes can read too.
    """
    large = {file.path: file for file in files if file.size >= LARGE}
    if sum(file.size for file in large.values()) < WORTH:
        yield
        return
    # Not forked: a lock held by another thread of this process would stay locked forever.
    start = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=start, initializer=_begin)
    try:
        with _undisturbed(), suppress(BrokenProcessPool):
            for path, file in large.items():
                content.elsewhere[path] = _answer_of(pool.submit(_look, directory, release, file))
        yield
    finally:
        content.elsewhere.clear()
        pool.shutdown(cancel_futures=True)


def cores() -> int:
    """Return the number of processes that this process may keep busy."""
    return len(os.sched_getaffinity(0))


def _answer_of(asked: Future[Answer | None]) -> Callable[[], Answer | None]:
    def answer() -> Answer | None:
        try:
            return asked.result()
        except BrokenProcessPool:
            return None

    return answer


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Shield processes started in the block from Ctrl-C, which reaches the whole group: their owner ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End with the owner. A pool whose owner was killed never ends: its processes hold the pipe open for each other."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _look(directory: Tree, release: Release, file: StateFile) -> Answer | None:
    try:
        return ContentCheck(directory, release).look(file)
    except StorageUnavailableError:
        return None
