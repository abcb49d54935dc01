"""Proof of a checkpoint by Spark: copy, child process, and result. The third depth of a verification.

Invariants:

- The checkpoint is only read, sinks are not touched, and the proof leaves neither a process nor a file behind. Only a
  refusal by Spark refutes a checkpoint.
- After :func:`run_child` has returned, no process of the child is left. The child's command line has no user data: the
  request is in a file that only its owner can read.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType

from pydantic import ValidationError

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.releases import installed_version
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.proof_copy import copy_closure, scratch
from airflow_provider_ha.checkpoints.verify.proof_protocol import (
    Application,
    ProofEvent,
    ProofMessage,
    ProofRequest,
    readings,
    state_by_id,
)
from airflow_provider_ha.checkpoints.verify.proof_result import Proof, ProofDecision, ProofOutcome, StepResult, decide
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.checkpoints.verify.verification_report import VerificationReport
from airflow_provider_ha.errors import CheckpointMissingError, ConfigurationError, HaError
from airflow_provider_ha.host import die_with_parent
from airflow_provider_ha.host.java import find_java, utf8_locale
from airflow_provider_ha.host.process_tree import KILL_SECONDS, kill_session
from airflow_provider_ha.jobs.drivers.driver_spec import host_environment, write_private
from airflow_provider_ha.jobs.drivers.spark_release import check_one_release, installed_spark
from airflow_provider_ha.jobs.options.job_options import check_memory


__all__ = ["Application", "Proof", "ProofProgress", "ProofStep", "prove"]


log = logging.getLogger(__name__)

PROGRAM = "airflow_provider_ha.host.proof.main"
_POLL_SECONDS = 0.2
_BLOCK = 1 << 16


def run_child(
    request: ProofRequest,
    deadline: float,
    hear: Callable[[ProofMessage], None],
    env: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Run the child to its end; return the reason of an abnormal end as a clause, or an empty text.

    :param deadline: Longest duration in seconds.
    :param hear: Called immediately with every answer.
    :param env: Environment variables in addition to the host's.
    """
    try:
        find_java()
        check_one_release(installed_spark())
    except HaError as error:
        return error.message
    spec = request.scratch / "request.json"
    write_private(spec, request.model_dump_json().encode())
    with (request.scratch / "child.log").open("wb") as log:
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
            cwd=request.scratch,
            env=_environment(request, env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    try:
        return _listen(process, deadline, hear)
    finally:
        kill_session(process)


def _listen(process: subprocess.Popen[bytes], deadline: float, hear: Callable[[ProofMessage], None]) -> str:
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
                done = done or answer.event is ProofEvent.DONE
    return ""


def _parse(line: bytes) -> ProofMessage | None:
    try:
        return ProofMessage.model_validate_json(line)
    except ValidationError:
        return None  # other output


def _ended(process: subprocess.Popen[bytes]) -> str:
    """Return how a child ended that did not report its completion."""
    try:
        code = process.wait(timeout=KILL_SECONDS)
    except subprocess.TimeoutExpired:
        return "the child closed its answers and did not end"
    if code < 0:
        return f"the child was killed by {signal.Signals(-code).name}"
    return f"the child ended with code {code} before it was done"


def _environment(request: ProofRequest, env: Mapping[str, str]) -> dict[str, str]:
    """Return a driver's environment on this host, with loopback addresses and own directories for temporary files."""
    scratch, application, host = request.scratch, request.application, host_environment()
    return {
        **host,
        **utf8_locale(host),
        **env,
        **(application.env if application else {}),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch / "spark"),
        "TMPDIR": str(scratch),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


DEFAULT_HEAP = "1g"
DEFAULT_DEADLINE = 600.0
# Each repetition needs a purge by Spark between the verification and the copy.
ATTEMPTS = 5


class ProofStep(str, Enum):
    """Steps of a proof, in this order."""

    VERIFY = "verify"
    COPY = "copy"
    SPARK = "spark"  # start of its JVM, with a session
    LOAD = "load"
    START = "start"


@dataclass(frozen=True, slots=True)
class ProofProgress:
    """Progress of a proof.

    :param doing: Description of the current activity for users.
    :param done: Number of verified stores, or of completed readings.
    :param of: Total of *done*; 0 while unknown.
    :param step: Current step, for programs.
    :param query: Query of a cut; empty for a single query.
    """

    doing: str
    done: int = 0
    of: int = 0
    step: ProofStep = ProofStep.VERIFY
    query: str = ""


def prove(
    directory: Tree,
    *,
    batch: int | None = None,
    application: Application | None = None,
    query: str | None = None,
    sink: Tree | None = None,
    scratch_directory: Path | None = None,
    heap: str = DEFAULT_HEAP,
    deadline: float = DEFAULT_DEADLINE,
    env: Mapping[str, str] | None = None,
    progress_to: Callable[[ProofProgress], None] = lambda _: None,
) -> Proof:
    """Verify a checkpoint in full depth, then have the installed Spark load one batch and start the query on it.

    Spark gets a copy of the files that the batch needs, in a child process with its own JVM, and reads every row of
    state. With an application it then executes the next batch: the query's own plan, no input, ``noop`` instead of its
    sink. The script runs only up to the start of the query; its side effects until then are not suppressed.

    :param directory: Any Spark checkpoint directory, managed or not; its query may be running.
    :param batch: N; the newest restorable one by default.
    :param application: Application that starts the query; without it, only the state is loaded.
    :param query: Query of the application; by default the query whose checkpoint location is *directory*, else the
        query with the name of the directory.
    :param sink: Output directory of the query's file sink, included in the verification.
    :param scratch_directory: Directory for the copy, which is removed; by default next to *directory* if that is on
        this host, else the directory for temporary files.
    :param heap: Memory of the child's JVM, as ``1g``.
    :param deadline: Seconds that Spark may take, without the verification and the copy.
    :param env: Environment variables of the child, in addition to a driver's on this host.
    :param progress_to: Called with the progress at each step.
    :returns: Proven, refuted or unknown; a batch that the verification finds not restorable is refuted without Spark.
    :raises CheckpointMissingError: The batch, or any batch, is missing, or Spark has purged it.
    :raises ConfigurationError: An argument is invalid.
    :raises StorageUnavailableError: The copy could not be made.
    """
    _check(heap, deadline, application)
    began = time.monotonic()
    with scratch(directory.local_path, scratch_directory) as place:
        report, chosen, copied, size = _copied(directory, batch, sink, place, progress_to)
        if chosen is None or copied is None:
            return _not_asked(directory, chosen, report, time.monotonic() - began)
        request = ProofRequest(
            copy_directory=copied,
            original=str(directory.absolute()),
            batch=chosen,
            state_by_id=state_by_id(LocalTree(copied), chosen),
            readings=readings(LocalTree(copied), chosen),
            query=query,
            application=application,
            scratch=place,
            heap=heap.lower(),
            size=size,
        )
        decision = _ask(request, deadline, env or {}, progress_to)
    return Proof(
        directory=str(directory),
        batch=chosen,
        verification=report,
        loading=decision.loading,
        starting=decision.starting,
        state=decision.state,
        started=decision.started,
        findings=decision.findings,
        spark_version=installed_version(),
        seconds=time.monotonic() - began,
    )


def _copied(
    directory: Tree,
    batch: int | None,
    sink: Tree | None,
    place: Path,
    progress_to: Callable[[ProofProgress], None],
) -> tuple[VerificationReport, int | None, Path | None, int]:
    """Verify, choose and copy; return the report, the batch, its copy (``None`` if useless) and the copied bytes.

    A running query may purge the batch before it is copied: a newer batch is then chosen, unless the caller named one.
    """

    def tell(done: int, of: int) -> None:
        progress_to(ProofProgress("verifying in full depth", done, of))

    for attempt in range(1, ATTEMPTS + 1):
        progress_to(ProofProgress("verifying in full depth"))
        report = verify(directory.fresh(), depth="full", sink=sink, tell=tell)
        chosen = _choose(directory, report, batch)
        if chosen is None or chosen not in report.provable:
            return report, chosen, None, 0
        progress_to(ProofProgress(f"copying batch {chosen}", step=ProofStep.COPY))
        try:
            copied = place / f"copy-{attempt}"
            size = copy_closure(directory.fresh(), chosen, copied)
        except CheckpointMissingError:
            if batch is not None or attempt == ATTEMPTS:
                raise
        else:
            return report, chosen, copied, size
    raise AssertionError("the last attempt returns or raises")


def _ask(
    request: ProofRequest, deadline: float, env: Mapping[str, str], progress_to: Callable[[ProofProgress], None]
) -> ProofDecision:
    if not request.readings and request.application is None:
        return decide(request, [], "")
    progress_to(ProofProgress("starting Spark", 0, len(request.readings), ProofStep.SPARK))
    answers: list[ProofMessage] = []

    def hear(answer: ProofMessage) -> None:
        answers.append(answer)
        progress_to(after(request, answers))

    ending = run_child(request, deadline, hear, env)
    return decide(request, answers, ending)


def after(request: ProofRequest, answers: Sequence[ProofMessage]) -> ProofProgress:
    """Return the child's activity after these answers. Pure."""
    done, of = sum(item.reading is not None for item in answers), len(request.readings)
    if done == of and request.application is not None:
        return ProofProgress("starting the query", done, of, ProofStep.START)
    return ProofProgress("loading the state", done, of, ProofStep.LOAD)


def _choose(directory: Tree, report: VerificationReport, batch: int | None) -> int | None:
    """Return the batch to prove; ``None`` if the checkpoint could not be read."""
    unread = any(finding.code is Code.UNREADABLE for finding in report.findings)
    known = {verdict.batch for verdict in report.batches}
    if batch is None:
        batch = (
            report.provable[-1] if report.provable else max((b for b in known if b <= report.committed), default=None)
        )
    if batch is not None and batch in known:
        return batch
    if unread:
        return None
    asked = "any batch" if batch is None else f"batch {batch}"
    raise CheckpointMissingError(
        f"{directory} has no entry of {asked} in its logs ({progress(directory)})",
        next_step="See `spark-ha checkpoint verify` for the batches that it has",
    )


def _not_asked(directory: Tree, batch: int | None, report: VerificationReport, seconds: float) -> Proof:
    reason = (
        "the checkpoint could not be read" if batch is None else "the verification reports that it is not restorable"
    )
    step = StepResult(ProofOutcome.NOT_ASKED, reason)
    return Proof(str(directory), batch, report, step, step, spark_version=installed_version(), seconds=seconds)


def _check(heap: str, deadline: float, application: Application | None) -> None:
    check_memory(heap, "heap")
    if not deadline > 0:
        raise ConfigurationError(f"a deadline of {deadline} seconds is over before its start")
    if application is not None and not application.script.is_file():
        raise ConfigurationError(f"the application {application.script} is not a file", next_step="Correct its path")
