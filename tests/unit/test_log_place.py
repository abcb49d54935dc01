"""Where a person reads what a driver, or its supervisor, has printed."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from airflow_provider_ha.jobs.log_place import log_place, printed_place
from airflow_provider_ha.jobs.runs import SubmissionView
from airflow_provider_ha.jobs.standalone_driver import StandaloneDriver
from airflow_provider_ha.jobs.submissions import Handle, Submission, SubmissionStarted
from airflow_provider_ha.recovery.restart import without_a_word
from tests.engine_helpers import handle


DRIVER = "driver-20260101000000-0001"
AT_A_MASTER = StandaloneDriver(masters="http://master1:6066", driver=DRIVER)


def view(at: Handle | None) -> SubmissionView:
    made = datetime(2026, 1, 1, tzinfo=timezone.utc)
    submission = Submission(attempt=1, engine="standalone", submission_id="s", created_at=made, requested_by="test")
    return SubmissionView(submission, SubmissionStarted(handle=at) if at is not None else None, None, created_zxid=1)


def test_a_log_lies_where_the_supervisor_has_reported_it() -> None:
    found = log_place("orders", 1, view(handle(host="worker1", log="/work/driver.log")))

    assert found is not None
    assert (found.host, found.path) == ("worker1", Path("/work/driver.log"))
    assert printed_place(view(handle())) == ""


def test_a_driver_of_a_cluster_whose_supervisor_has_reported_nothing_has_no_log() -> None:
    assert log_place("orders", 1, view(AT_A_MASTER.handle())) is None


def test_what_such_a_supervisor_printed_is_with_its_worker() -> None:
    found = view(AT_A_MASTER.handle())

    assert printed_place(found).startswith(f"stderr of {DRIVER} on its worker")
    assert without_a_word(found) == f"its supervisor reported nothing: read {printed_place(found)}"


def test_a_submission_that_was_never_taken_has_printed_nothing() -> None:
    assert (log_place("orders", 1, view(None)), printed_place(view(None))) == (None, "")
    assert "without a report" in without_a_word(view(None))
