"""Pages of driver output: the end of a log, and Spark's own web UI.

A log is read if this host has it. Otherwise the page names the host, and the command that prints the log there. The
shown part is bounded, and known or likely secrets are removed (``redaction``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.responses import RedirectResponse

from airflow_provider_ha.airflow_side.page.rendering import render
from airflow_provider_ha.airflow_side.page.security import VisibleJob, VisibleJobDep, job_with_log
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.errors import JobStateError, LogMissingError
from airflow_provider_ha.jobs.drivers.driver_log import LogPlace, log_place, spark_page, web_page, whole_lines
from airflow_provider_ha.jobs.drivers.run_logs import choose, find_log, hide_secrets, last_words, reader
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.redaction import PublicText


router = APIRouter(prefix="/jobs/{job_id}")
LINES = 500
MOST = 256 * 1024  # bytes that are read
NOT_FOUND = 404
_ERROR = re.compile(r"\b(ERROR|FATAL|CRITICAL)\b|^Traceback \(|^(Caused by: )?([\w$]+\.)*[\w$]*(Error|Exception)\b")
Number = Annotated[int | None, Query(ge=1, le=2_000_000_000)]


@dataclass(frozen=True, slots=True)
class LogPage:
    """Content of a log page.

    :param earlier: The run before its own; ``None`` without one.
    :param later: The run after its own; ``None`` without one.
    :param place: Location of the log; ``None`` before the first driver started.
    :param text: Last lines of the log; may be empty.
    :param problem: Reason why the lines are missing or incomplete.
    :param next_step: Command or place that shows the lines.
    :param printed: Page of the cluster manager about the driver; empty without one.
    """

    run: int
    attempt: int
    attempts: tuple[int, ...]
    earlier: int | None
    later: int | None
    place: LogPlace | None
    text: str
    problem: str = ""
    next_step: str = ""
    printed: str = ""


@router.get("/log")
def log(
    request: Request, job: Annotated[VisibleJob, Depends(job_with_log)], run: Number = None, attempt: Number = None
) -> Response:
    """Show the end of a driver's log; by default that of the newest started attempt."""
    clusters = request.app.state.clusters
    number = run if run is not None else job.snapshot.run.run.number if job.snapshot.run is not None else None
    if number is None:
        raise HTTPException(NOT_FOUND, f"Job {job.job_id} has no run")

    def read() -> LogPage:
        with clusters.client(job.cluster) as client:
            return read_log(client, job.job_id, number, attempt)

    shown: LogPage = clusters.storage(job.cluster).call(read)
    return render(request, "log.html", job=job, log=shown, errors=errors_in(shown.text))


def errors_in(text: str) -> frozenset[int]:
    """Return the positions of error lines: of log4j, Python and Java."""
    return frozenset(number for number, line in enumerate(text.splitlines()) if _ERROR.search(line))


@router.get("/spark-ui")
def spark_ui(request: Request, job: VisibleJobDep, run: Number = None) -> Response:
    """Redirect to Spark's web UI of the current driver, or to the history server."""
    del run  # the task that shows the link; Spark shows only the newest application
    clusters = request.app.state.clusters

    def read() -> str | None:
        with clusters.client(job.cluster) as client:
            server: str | None = client.config.history_server
            return server

    page = spark_page(job.snapshot, clusters.zookeeper(job.cluster).call(read))
    if not page:
        raise HTTPException(
            NOT_FOUND,
            f"No driver of job {job.job_id} has a web UI now, and no history server shows its last application. Set "
            "history_server in the connection, and spark.eventLog.enabled in the job",
        )
    return RedirectResponse(page)


def read_log(client: HaClient, job_id: str, run: int, attempt: int | None) -> LogPage:
    """Return the end of a driver's log if this host has it, otherwise the lines that its supervisor stored.

    :raises JobStateError: The run or attempt does not exist.
    """
    context = client.context(job_id)
    known = context.runs.numbers()
    if run not in known:
        raise JobStateError(f"job {job_id!r} has no run {run}", next_step=f"Choose from runs {known}")
    view = context.runs.get(run)
    chosen = choose(job_id, view, attempt)
    shown = LogPage(
        run=run,
        attempt=chosen.submission.attempt,
        attempts=tuple(each.submission.attempt for each in view.submissions),
        earlier=max((each for each in known if each < run), default=None),
        later=min((each for each in known if each > run), default=None),
        place=log_place(job_id, run, chosen),
        text="",
        printed=web_page(chosen.started.handle.ui_uri) if chosen.started is not None else "",
    )
    return _with_text(shown, context, view, chosen)


def _with_text(shown: LogPage, context: JobContext, view: RunView, chosen: SubmissionView) -> LogPage:
    try:
        place = find_log(context, shown.run, chosen)
        pieces = list(reader(context, place, lines=LINES, most=MOST).now())
    except LogMissingError as error:
        kept = last_words(context, view, chosen)
        return replace(shown, text=kept, problem=error.message, next_step=error.next_step)
    except OSError as error:
        return replace(shown, problem=f"the log cannot be read: {error.strerror}")
    shown = replace(shown, place=place)
    # After the read: a driver records a secret before it writes the line that contains it.
    if not hide_secrets(context, view):
        return replace(
            shown,
            problem="the job graph, which lists the secrets in the log, cannot be read. The log is not shown",
            next_step=f"Load this page again once storage has it, or run `{place.command}` where the file is",
        )
    return replace(shown, text="".join(map(PublicText(), whole_lines(pieces))))
