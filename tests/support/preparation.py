"""``python -m tests.support.preparation [--s3a]``: what takes minutes to make, made before the first test starts.

Servers, jars, a browser and recorded checkpoints are made once per machine. A test that had to make one of them would
exceed its time, and so would all tests that wait for it. Each maker says what it makes; it says nothing, and needs
milliseconds, when that is there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support import browser
from tests.support.hdfs import hdfs_server
from tests.support.s3 import s3a_jars, versitygw
from tests.support.spark import class_archive, corpus, recorded_job, sink_corpus


AT_A_TIME = 2  # each is one program, which waits now and then
# After the archive: Spark records checkpoints in half the time with it.
QUICK: tuple[Callable[[], object], ...] = (
    recorded_job.recorded_job,
    corpus.corpus,
    sink_corpus.sink_corpus,
    versitygw.binary,
    s3a_jars.s3a_jars,
    hdfs_server.hdfs_jars,
    browser.executable,
)


def prepare(makers: Iterable[Callable[[], object]]) -> None:
    """Call each of *makers*, two at a time; says what cannot be had, and leaves it to the tests that need it."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(_attempt, makers))


def _attempt(make: Callable[[], object]) -> None:
    try:
        make()
    except (pytest.skip.Exception, pytest.fail.Exception, subprocess.SubprocessError, AssertionError) as error:
        print(f"going on without it: {error}", flush=True)


if __name__ == "__main__":
    prepare([class_archive.make])
    os.environ.setdefault("SPARK_SUBMIT_OPTS", class_archive.java_options())
    prepare(QUICK)
    if "--s3a" in sys.argv[1:]:
        prepare([lambda: class_archive.make(s3a_jars.s3a_jars())])
