"""Views: one JSON form per concept, and targets of metrics."""

from __future__ import annotations

import importlib
import json
import pkgutil
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from airflow_provider_ha.api import documents
from airflow_provider_ha.api.documents import events
from airflow_provider_ha.api.documents.cluster_events import cluster_event
from airflow_provider_ha.api.documents.history import LeaderView
from airflow_provider_ha.api.documents.job import NO_RUN, job_view, out_of_reach, unreadable_row
from airflow_provider_ha.api.documents.stores import TreeView
from airflow_provider_ha.api.documents.submission import graph_view
from airflow_provider_ha.api.documents.verification import VerificationView, proven_view
from airflow_provider_ha.api.documents.view import ErrorDocument, View, error_view, shows
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.proof_protocol import StateReading
from airflow_provider_ha.checkpoints.verify.proof_result import (
    LoadedState,
    Proof,
    ProofOutcome,
    StepResult,
    TrialStart,
)
from airflow_provider_ha.checkpoints.verify.verification_report import (
    BatchVerdict,
    Finding,
    Reason,
    SinkLogState,
    VerificationReport,
)
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.fleet.znode_tree import TreeNode
from airflow_provider_ha.jobs.condition import decide
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, JobGraph
from airflow_provider_ha.jobs.model import JobState, LeaderInfo
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, LastFailure, StartTimes, SubmissionStarted
from airflow_provider_ha.jobs.runs.watchers import WatchStatus
from airflow_provider_ha.jobs.status import JobStatus
from tests.support.clusters.jobs_helpers import NOON, a_leader, a_run, a_start, a_status, a_submission


SECRET = "hunter2"  # a fake that must not be found
FINDING = Finding(Code.STATE_MISSING, "state/0/0/9.delta", 8, "it is gone", "a file", blocks=True)
REPORT = VerificationReport(
    startable=False,
    restorable=[1],
    findings=(FINDING,),
    planned=3,
    committed=2,
    batches=(BatchVerdict(1, ()), BatchVerdict(2, (Reason(Code.STATE_MISSING, "state/0/0/9.delta", "it is gone"),))),
    sink=SinkLogState(LocalTree(Path("/out")), 3),
)
LEADER = LeaderInfo(epoch=3, run=1, attempt=2, host="h", pid=7, since=NOON)


def all_views() -> list[type[View]]:
    for module in pkgutil.iter_modules(documents.__path__):
        importlib.import_module(f"{documents.__name__}.{module.name}")
    found, queue = [], [View]
    while queue:
        below = queue.pop().__subclasses__()
        found += below
        queue += below
    return found


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    size: int
    secret: str

    @property
    def big(self) -> bool:
        return self.size > 1


@shows(Record, "big name size", size=float)
class RecordView(View):
    """A record."""


def test_a_view_shows_the_listed_fields_of_a_record_in_their_order() -> None:
    shown = RecordView.of(Record("orders", 2, SECRET)).to_json()

    assert list(shown.items()) == [("big", True), ("name", "orders"), ("size", 2.0)]


def test_a_view_of_an_object_takes_other_values_for_some_fields() -> None:
    shown = RecordView.of(Record("orders", 2, SECRET), name="payments").to_json()

    assert (shown["name"], shown["size"]) == ("payments", 2.0)


def test_what_a_view_does_not_name_is_refused() -> None:
    with pytest.raises(ValidationError):
        LeaderView.model_validate({**LEADER.model_dump(), "password": SECRET})


@pytest.mark.parametrize("view", all_views(), ids=lambda view: str(view.__name__))
def test_no_view_has_a_key_for_what_may_be_a_secret(view: type[View]) -> None:
    assert not {"conf_values", "env", "environment", "password", "login", "digest_auth", "credentials"} & set(
        view.model_fields
    )


def test_the_graph_shows_names_of_conf_and_environment_and_no_values() -> None:
    artifact = Artifact(name="app.py", blob=Blob(sha256="0" * 64, size=1))
    graph = JobGraph(
        job_id="flights",
        name="flights",
        application=artifact,
        conf={"spark.key": SECRET},
        env={"TOKEN": SECRET},
        arguments=("--since", "now", f"--password={SECRET}", "--token", SECRET),
    )

    shown = graph_view(graph, sha256="1" * 64, pointer=None, site_conf=("/conf", ["spark.a"])).to_json()

    assert SECRET not in json.dumps(shown)
    assert (shown["conf_keys"], shown["env_keys"]) == (["spark.key"], ["TOKEN"])
    assert shown["arguments"] == ["--since", "now", "--password=***", "--token", "***"]
    assert shown["site_conf"] == {"file": "/conf", "keys": ["spark.a"]}
    assert shown["recovered_by_a_new_leader"] is False


def test_a_verification_shows_its_batches_and_its_findings() -> None:
    shown = VerificationView.of(REPORT).to_json()

    assert [shown.pop(key) for key in ("startable", "restorable", "latest_restorable")] == [False, [1], 1]
    assert [shown.pop(key) for key in ("planned", "committed", "sink")] == [3, 2, {"path": "/out", "max_batch": 3}]
    reason = {"code": "STATE_MISSING", "path": "state/0/0/9.delta", "found": "it is gone"}
    assert shown.pop("batches") == [
        {"batch": 1, "restorable": True, "reasons": []},
        {"batch": 2, "restorable": False, "reasons": [reason]},
    ]
    assert shown.pop("findings") == [
        {
            "code": "STATE_MISSING",
            "path": "state/0/0/9.delta",
            "batch": 8,
            "message": "it is gone; expected: a file",
            "expected": "a file",
            "found": "it is gone",
            "blocks": True,
            "meaning": FINDING.meaning,
            "next_step": FINDING.next_step,
        }
    ]
    assert not shown


def test_a_proof_is_one_key_beside_its_verification() -> None:
    reading = StateReading(operator=0, operator_name="stateStoreSave", store="default", partitions=2)
    proof = Proof(
        "/data",
        1,
        REPORT,
        StepResult(ProofOutcome.PROVEN),
        StepResult(ProofOutcome.UNKNOWN, "out of time"),
        state=(LoadedState(reading, (3, 4)),),
        started=TrialStart("counts", 2, (7,)),
        spark_version="4.2.0",
        seconds=1.25,
    )

    shown = proven_view(proof).to_json()

    assert {key: value for key, value in shown.items() if key != "proof"} == VerificationView.of(REPORT).to_json()
    assert shown["proof"]["loaded"] == {
        "outcome": "proven",
        "reason": "",
        "state": [
            {
                "operator": 0,
                "operator_name": "stateStoreSave",
                "store": "default",
                "kind": "store",
                "variable": "",
                "partitions": [3, 4],
                "rows": 7,
            }
        ],
    }
    assert shown["proof"]["started"]["query"] == {"query": "counts", "batch": 2, "state_rows": [7]}


def test_a_job_without_a_run_has_no_state() -> None:
    job: JobStatus = JobStatus(job_id="j", epoch=4)

    shown = job_view(job, decide(job, None, NOON), WatchStatus())

    assert (shown.state, shown.run, shown.result, shown.epoch) == (NO_RUN, None, None, 4)


def test_a_job_whose_supervisor_has_started_no_driver_says_why() -> None:
    started = a_start().model_copy(update={"refused": "the driver was started before"})
    run = RunView(run=a_run(), submissions=(SubmissionView(submission=a_submission(), started=started),))

    job: JobStatus = JobStatus(job_id="j", run=run)

    shown = job_view(job, decide(job, None, NOON), WatchStatus())

    assert shown.message == "the driver was started before"


def test_a_job_shows_how_fast_its_driver_has_started() -> None:
    status = a_status().model_copy(
        update={
            "class_archive": "used",
            "times": StartTimes(launched_at=NOON, committed_at=NOON + timedelta(seconds=9.25)),
        }
    )
    job: JobStatus = JobStatus(job_id="j", leader=LEADER, status=status)

    shown = job_view(job, decide(job, None, NOON), WatchStatus())

    assert (shown.class_archive, shown.first_commit_seconds) == ("used", 9.25)


def test_a_failure_is_shown_with_moments_like_all_others() -> None:
    last = LastFailure(
        attempt=2, at=NOON, reason="killed", failure=None, times=0, since=None, in_a_row=1, log="/driver.log"
    )
    job: JobStatus = JobStatus(job_id="j", leader=LEADER)
    found = replace(decide(job, None, NOON), last=last, due=NOON + timedelta(seconds=5))

    shown = job_view(job, found, WatchStatus()).to_json()

    assert (shown["failure"]["kind"], shown["failure"]["reason"]) == ("UNKNOWN", "killed")
    assert shown["failure"]["at"] == shown["leader"]["since"]


def test_a_job_that_cannot_be_read_has_its_error_in_the_list() -> None:
    row = unreadable_row("j", HaError("the status is broken", next_step="Look"))

    assert (row.state, row.run) == ("UNREADABLE", None)
    assert "the status is broken" in (row.error or "")


def test_a_node_leaves_out_what_it_does_not_hold() -> None:
    leaf = TreeNode(
        path="/a/epoch", name="epoch", version=3, modified_zxid=1, ephemeral_owner=0, size=1, sha256="0", text="3"
    )
    node = TreeNode(
        path="/a", name="a", version=0, modified_zxid=1, ephemeral_owner=0, size=0, sha256="0", children=(leaf,)
    )

    shown = TreeView.model_validate({"root": "/a", "tree": node}).to_json()["tree"]

    assert set(shown) == {"path", "version", "modified_zxid", "ephemeral_owner", "size", "sha256", "children"}
    assert shown["children"][0]["text"] == "3"


def test_an_error_has_its_type_its_message_and_the_next_step() -> None:
    error = HaError("it is wrong", next_step="Correct it")

    assert ErrorDocument(error=error_view(error)).to_json() == {
        "error": {"type": "HaError", "message": "it is wrong", "next_step": "Correct it"}
    }


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (events.ErrorEvent(reason="gone"), {"status": "error", "reason": "gone"}),
        (
            events.RunningEvent(job_id="j", run=1, epoch=2, attempt=3),
            {"status": "running", "state": "RUNNING", "job_id": "j", "run": 1, "epoch": 2, "attempt": 3},
        ),
        (
            events.LossEvent(status="recover", reason="killed", job_id="j", run=1, epoch=2, attempt=3),
            {"status": "recover", "reason": "killed", "job_id": "j", "run": 1, "epoch": 2, "attempt": 3},
        ),
        (
            events.RunEndedEvent(job_id="j", run=1, epoch=2, state=JobState.FAILED, reason="r", checkpoint=None),
            {
                "status": "ended",
                "job_id": "j",
                "run": 1,
                "epoch": 2,
                "state": "FAILED",
                "reason": "r",
                "checkpoint": None,
            },
        ),
        (
            cluster_event("no_leader", "j", {"reason": "broken"}, 1.5),
            {"event": "no_leader", "job_id": "j", "reason": "broken", "lasted": 1.5},
        ),
        (
            cluster_event("leadership_granted", "j", {"run": 1, "attempt": 1, "epoch": 2, "host": "h", "pid": 3}, 1.5),
            {
                "event": "leadership_granted",
                "job_id": "j",
                "run": 1,
                "attempt": 1,
                "epoch": 2,
                "host": "h",
                "pid": 3,
                "standby": False,
                "lasted": 1.5,
            },
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_event_has_the_documented_keys(event: View, expected: dict[str, Any]) -> None:
    assert event.to_json() == expected


EVERYWHERE = ["127.0.0.1:9400", "127.0.1.1:9400", "localhost:9400", "[::1]:9400"]


def submission(attempt: int, host: str, *, zxid: int) -> SubmissionView:
    started = SubmissionStarted(handle=DriverHandle(engine="local", log_uri=f"file://{host}/driver.log"))
    return SubmissionView(submission=a_submission(attempt), started=started, created_zxid=zxid)


def snapshot(
    *submissions: SubmissionView, leader: LeaderInfo | None = None, place: str = "127.0.0.1:9400"
) -> JobStatus:
    """A job whose epoch 1 began with transaction 20, and whose driver has said where its metrics are."""
    return JobStatus(
        job_id="flights",
        leader=leader,
        epoch=1,
        epoch_zxid=20,
        run=RunView(run=a_run(), submissions=submissions),
        status=a_status().model_copy(update={"metrics": place}),
    )


@pytest.mark.parametrize("place", EVERYWHERE)
def test_a_loopback_is_read_on_the_host_of_the_leader_alone(place: str) -> None:
    led = snapshot(leader=a_leader(), place=place)

    assert out_of_reach(led, "host") == ""
    assert f"{place} of host host, which host-2 cannot reach" in out_of_reach(led, "host-2")


@pytest.mark.parametrize("place", ["host-1:9400", "192.0.2.1:9400", "[2001:db8::1]:9400"])
def test_any_other_address_is_read_from_everywhere(place: str) -> None:
    assert out_of_reach(snapshot(leader=a_leader(), place=place), "host-2") == ""


def test_a_lost_driver_is_a_target_of_the_host_that_it_was_on_while_the_next_one_waits_elsewhere() -> None:
    lost = snapshot(submission(1, "host-1", zxid=10), submission(2, "host-2", zxid=30))

    assert out_of_reach(lost, "host-1") == ""
    assert "of host host-1" in out_of_reach(lost, "host-2")


def test_the_place_of_an_earlier_leader_is_on_a_host_that_is_not_known() -> None:
    taken_over = snapshot(submission(1, "host", zxid=10), leader=a_leader(2))

    assert "of a host that is not known" in out_of_reach(taken_over, "host")
