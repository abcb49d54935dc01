"""Looking into large state files with several processes: to decode them holds Python's lock.

Invariant: another process gives the answer that this one would give, or none. A file without an answer (it could not be
read, or its process was killed) is looked into here: that something cannot be read is reported where it is met.
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


# To ask another process about a file takes as long as to decode some 50 KB of it here, and to start it as long as some
# 100 MB.
LARGE, WORTH = 1 << 20, 256 << 20


@contextmanager
def helped(
    content: ContentCheck, directory: Tree, release: Release, files: Iterable[StateFile], processes: int
) -> Iterator[None]:
    """Let *processes* others look into the large ones of *files*, in their order, while the block runs.

    :param content: Is given their answers when it is asked for a file.
    :param directory: Is given to them: one of this host, which another process can read as well.
    """
    large = {file.path: file for file in files if file.size >= LARGE}
    if sum(file.size for file in large.values()) < WORTH:
        yield
        return
    # Not forked: a lock that another thread of this process holds would be held forever.
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
    """Return how many processes this one may keep busy."""
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
    """Let no process that is started in the block hear Ctrl-C, which reaches the whole group: its owner ends it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A pool whose owner was killed never ends: each process holds the pipe open for the others."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _look(directory: Tree, release: Release, file: StateFile) -> Answer | None:
    try:
        return ContentCheck(directory, release).look(file)
    except StorageUnavailableError:
        return None
