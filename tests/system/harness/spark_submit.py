"""Runs an application under plain ``spark-submit``, without anything of ours: what a user had before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def spark_submit(
    application: Path, *arguments: str, options: Sequence[str] = (), log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run *application* while the block runs, then kill it and everything that it started.

    :param options: Options of ``spark-submit``.
    :param log: File that gets everything the application says.
    """
    executable = Path(sys.executable).with_name("spark-submit")
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    quiet = ("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2", "--master", "local[2]")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(executable), *quiet, *options, str(application), *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # it has ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
