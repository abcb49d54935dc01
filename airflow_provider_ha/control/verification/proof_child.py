"""The child that runs Spark for a proof: started, listened to, and killed with all its descendants.

Invariant: when :func:`run_child` has returned, no process of the child is left. Nothing of the user's is on its command
line: the request travels in a file that only its owner can read.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from airflow_provider_ha._process import die_with_parent
from airflow_provider_ha._process.java import find_java, utf8_locale
from airflow_provider_ha._process.session import KILL_SECONDS, kill_session
from airflow_provider_ha.checkpoints.proof.answers import Answer, Event
from airflow_provider_ha.checkpoints.proof.request import ProofRequest
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.host.driver_spec import write_private
from airflow_provider_ha.jobs.host.spark_release import check_one_release, installed_spark
from airflow_provider_ha.jobs.host.this_host import host_environment


log = logging.getLogger(__name__)

PROGRAM = "airflow_provider_ha.proof.main"
_POLL_SECONDS = 0.2
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Child:
    """What is to be run.

    :param env: Environment over that of the host.
    """

    request: ProofRequest
    env: Mapping[str, str] = field(default_factory=dict)


def run_child(child: Child, deadline: float, hear: Callable[[Answer], None]) -> str:
    """Run the child to its end; return why it did not end in order, as a clause, or nothing when it did.

    :param deadline: Seconds that it may take.
    :param hear: Is given every answer, at once.
    """
    try:
        find_java()
        check_one_release(installed_spark())
    except HaError as error:
        return error.message
    scratch = child.request.scratch
    spec = scratch / "request.json"
    write_private(spec, child.request.model_dump_json().encode())
    with (scratch / "child.log").open("wb") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                die_with_parent.__file__,
                str(os.getpid()),
                sys.executable,
                "-m",
                PROGRAM,
                str(spec),
            ],
            cwd=scratch,
            env=_environment(child),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    try:
        return _listen(process, deadline, hear)
    finally:
        kill_session(process)


def _listen(process: subprocess.Popen[bytes], deadline: float, hear: Callable[[Answer], None]) -> str:
    end, done, rest = time.monotonic() + deadline, False, b""
    assert process.stdout is not None  # noqa: S101  # Popen opened a pipe
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not done:
            left = end - time.monotonic()
            if left <= 0:
                return f"Spark was not done after {deadline:g} seconds"
            if not selector.select(min(left, _POLL_SECONDS)):
                continue
            block = os.read(process.stdout.fileno(), _BLOCK)
            if not block:
                return _ended(process)
            *whole, rest = (rest + block).split(b"\n")
            for answer in filter(None, map(_parse, whole)):
                hear(answer)
                done = done or answer.event is Event.DONE
    return ""


def _parse(line: bytes) -> Answer | None:
    try:
        return Answer.model_validate_json(line)
    except ValidationError:
        return None  # not ours


def _ended(process: subprocess.Popen[bytes]) -> str:
    """Say how a child ended that did not say that it was done."""
    try:
        code = process.wait(timeout=KILL_SECONDS)
    except subprocess.TimeoutExpired:
        return "the child closed its answers and did not end"
    if code < 0:
        return f"the child was killed by {signal.Signals(-code).name}"
    return f"the child ended with code {code} before it was done"


def _environment(child: Child) -> dict[str, str]:
    """Return what a driver on this host gets, and loopback and our own directories for everything temporary."""
    scratch, application = child.request.scratch, child.request.application
    host = host_environment()
    return {
        **host,
        **utf8_locale(host),
        **child.env,
        **(application.env if application else {}),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch / "spark"),
        "TMPDIR": str(scratch),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
