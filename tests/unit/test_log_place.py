"""Where a person reads what a driver, or its supervisor, has printed."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from airflow_provider_ha.api.documents.job import job_view
from airflow_provider_ha.host.engines.standalone_arrival import StandaloneDriver
from airflow_provider_ha.jobs.condition import decide
from airflow_provider_ha.jobs.drivers.driver_log import log_place, printed_place
from airflow_provider_ha.jobs.job_graph import Blob, GraphPointer
from airflow_provider_ha.jobs.model import Run, StartPoint
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.restart_policy import GiveUp, without_a_word
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, Submission, SubmissionStarted
from airflow_provider_ha.jobs.runs.watchers import WatchStatus
from airflow_provider_ha.jobs.status import JobStatus
from tests.engine_helpers import handle


DRIVER = "driver-20260101000000-0001"
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
AT_A_MASTER = StandaloneDriver(masters="http://master1:6066", driver=DRIVER)


def view(at: DriverHandle | None) -> SubmissionView:
    submission = Submission(attempt=1, engine="standalone", submission_id="s", created_at=NOW, requested_by="test")
    return SubmissionView(submission, SubmissionStarted(handle=at) if at is not None else None, None, created_zxid=1)


def test_a_log_lies_where_the_supervisor_has_reported_it() -> None:
    found = log_place("orders", 1, view(handle(host="worker1", log="/logs/driver.log")))

    assert found is not None
    assert (found.host, found.path) == ("worker1", Path("/logs/driver.log"))
    assert printed_place(view(handle())) == ""


def test_a_driver_of_a_cluster_whose_supervisor_has_reported_nothing_has_no_log() -> None:
    assert log_place("orders", 1, view(AT_A_MASTER.handle())) is None


def test_what_such_a_supervisor_printed_is_with_its_worker() -> None:
    found = view(AT_A_MASTER.handle())

    assert printed_place(found).startswith(f"stderr of {DRIVER} on its worker")
    assert without_a_word(found) == f"its supervisor reported nothing: read {printed_place(found)}"


def test_a_submission_that_was_never_taken_has_printed_nothing() -> None:
    assert (log_place("orders", 1, view(None)), printed_place(view(None))) == (None, "")
    assert "without reporting a reason" in without_a_word(view(None))


def test_a_job_shows_where_its_supervisor_printed_until_that_has_reported() -> None:
    run = Run(number=1, graph=Blob(sha256="0" * 64, size=1), start=StartPoint(), request_id="r", created_at=NOW)
    jobs: list[JobStatus] = [
        JobStatus(job_id="orders", run=RunView(run, submissions=(view(at),)))
        for at in (AT_A_MASTER.handle(), handle(host="worker1", log="/logs/driver.log"))
    ]

    unreported, reported = (job_view(job, decide(job, None, NOW), WatchStatus()).log for job in jobs)

    assert unreported == printed_place(view(AT_A_MASTER.handle()))
    assert reported == "worker1:/logs/driver.log"


def test_a_run_that_is_given_up_says_where_its_supervisors_printed() -> None:
    lost = view(AT_A_MASTER.handle())
    run = Run(number=1, graph=Blob(sha256="0" * 64, size=1), start=StartPoint(), request_id="r", created_at=NOW)
    pointer = GraphPointer(graph=run.graph, run=1)
    snapshot = JobStatus(job_id="orders", run=RunView(run, submissions=(lost,)), graph=pointer, gone=True)

    decision = decide(snapshot, HaOptions(restart_attempts=0), NOW).restart

    assert isinstance(decision, GiveUp)
    assert printed_place(lost) in decision.reason
