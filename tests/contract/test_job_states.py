"""Golden answers: the state and the action that each reader derives from the records of a job.

The table ``tests/data/states/golden.json`` has one row per situation of a job. ``STATES=write`` writes the answers of
the present readers into it; the diff then shows each answer that a change has moved.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.documents.history import history_view
from airflow_provider_ha.api.documents.overview import overview_row
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.fleet.fleet_overview import read_details, read_states
from airflow_provider_ha.fleet.observations import Quarantine, look, quarantine_op
from airflow_provider_ha.jobs.condition import NO_RUN, decide
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, GraphPointer, JobGraph
from airflow_provider_ha.jobs.model import JobState, Status
from airflow_provider_ha.jobs.move.move_records import MoveRecord
from airflow_provider_ha.jobs.observe import create_job, read_status, survey
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.removal.removal_records import DeletedJob, read_life
from airflow_provider_ha.jobs.run_history import read_history
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.runs.submissions import SubmissionExit, SubmissionLed
from airflow_provider_ha.storage import keys
from tests.fake.memory_store import MemoryStore
from tests.support.clusters.jobs_helpers import (
    MISTAKE,
    NOON,
    a_result,
    a_run,
    a_start,
    a_status,
    a_submission,
    an_exit,
    lead,
    standing_of,
)


BACKENDS = ("fake",)  # snapshots and surveys have the same answers on a real server: their own contract suites
GOLDEN = Path(__file__).parents[1] / "data" / "states" / "golden.json"
NOW = NOON + timedelta(seconds=1)
APPLICATION = b"print()"


@dataclass(frozen=True)
class Tree:
    """The records of one job, written step by step as the product writes them."""

    coordinator: Coordinator
    cluster: ClusterPaths
    config: HaConfig
    store: MemoryStore
    job: JobPaths
    graph: Blob
    status: Status | None = None

    @property
    def runs(self) -> RunStore:
        return RunStore(self.coordinator, self.job)

    def submit(self, attempt: int = 1, *, started: bool = True) -> None:
        """Create a submission together with the graph pointer, and its report that the driver starts."""
        pointer = GraphPointer(graph=self.graph, run=1, attempt=attempt).to_bytes()
        if attempt == 1:
            create_job(self.coordinator, self.job)
            run = a_run().model_copy(update={"graph": self.graph})
            self.coordinator.commit(
                self.runs.create_op(run),
                Create(self.job.job_graph, pointer),
                *self.runs.submission_ops(1, a_submission()),
            )
        else:
            self.coordinator.commit(
                SetData(self.job.job_graph, pointer), *self.runs.submission_ops(1, a_submission(attempt))
            )
        if started:
            self.coordinator.commit(Create(self.job.submission_started(1, attempt), a_start().to_bytes()))

    def lead(self, attempt: int = 1) -> Callable[[], None]:
        """Lead the job and write its status; return the end of the leadership."""
        leadership = lead(self.coordinator, self.job, self.config, attempt=attempt)
        led = SubmissionLed(process=f"p-{attempt}", epoch=leadership.epoch, host="host", pid=1, at=NOON)
        self.coordinator.commit(Create(self.job.submission_led(1, attempt), led.to_bytes()))
        if self.status is not None:
            epoch = leadership.epoch
            self.coordinator.ensure(self.job.status)
            self.coordinator.commit(
                SetData(self.job.status, self.status.model_copy(update={"epoch": epoch}).to_bytes())
            )
        return leadership.release

    def exit(self, attempt: int = 1, **fields: Any) -> None:
        """Prove the death of a submission's processes."""
        record = an_exit().model_copy(update=fields)
        self.coordinator.commit(
            Create(self.job.submission_exit(1, attempt), SubmissionExit.model_validate(record.model_dump()).to_bytes())
        )

    def end(self, state: JobState, *, pointer: bool = False, clean: bool = True) -> None:
        """Write the result of the run; the pointer goes in the same transaction unless *pointer*."""
        result = a_result(state).model_copy(update={"cleanup": "CLEAN" if clean else "DIRTY", "reason": "the end"})
        removal = () if pointer else (Delete(self.job.job_graph),)
        self.coordinator.commit(self.runs.result_op(1, result), *removal)

    def damage(self, path: str) -> None:
        """Replace a record by bytes that are no record."""
        self.coordinator.commit(SetData(path, b"no record"))


Situation = Callable[[Tree], object]


def _led(tree: Tree) -> None:
    tree.submit()
    tree.lead()


def _led_by_an_earlier_attempt(tree: Tree) -> None:
    _led(tree)
    tree.submit(2)


def _led_again(tree: Tree) -> None:
    _lost(tree)
    tree.submit(2)
    tree.lead(2)


def _lost(tree: Tree) -> None:
    tree.submit()
    tree.lead()()


def _killed(tree: Tree) -> None:
    _lost(tree)
    tree.exit()


def _killed_with_its_session_open(tree: Tree) -> None:
    _led(tree)
    tree.exit()


def _submitted_again(tree: Tree) -> None:
    _killed(tree)
    tree.submit(2, started=False)


def _started_again(tree: Tree) -> None:
    _killed(tree)
    tree.submit(2)


def _in_a_loop(tree: Tree) -> None:
    for attempt in (1, 2, 3):
        tree.submit(attempt)
        tree.lead(attempt)()
        tree.exit(attempt, failure=MISTAKE, reason="KeyError: 'price'", started=True)


def _in_a_loop_and_led(tree: Tree) -> None:
    _in_a_loop(tree)
    tree.submit(4)
    tree.lead(4)


def _led_with_a_damaged(record: Callable[[JobPaths], str]) -> Situation:
    def situation(tree: Tree) -> None:
        _led(tree)
        tree.coordinator.ensure(record(tree.job))
        tree.damage(record(tree.job))

    return situation


def _lost_with_a_damaged(record: Callable[[JobPaths], str]) -> Situation:
    def situation(tree: Tree) -> None:
        _lost(tree)
        tree.damage(record(tree.job))

    return situation


def _lost_with(**fields: Any) -> Situation:
    def situation(tree: Tree) -> None:
        _lost(tree)
        tree.exit(**fields)

    return situation


def _never_led_with(**fields: Any) -> Situation:
    def situation(tree: Tree) -> None:
        tree.submit()
        tree.exit(**fields)

    return situation


def _stalled(tree: Tree) -> None:
    assert tree.status is not None
    tree = replace(tree, status=tree.status.model_copy(update={"stalled": "rows has worked on batch 4 since noon"}))
    _led(tree)


def _ended(state: JobState, **how: bool) -> Situation:
    def situation(tree: Tree) -> None:
        tree.submit()
        release = tree.lead()
        tree.end(state, **how)
        release()
        tree.exit(code=0)

    return situation


def _ended_and_still_led(tree: Tree) -> None:
    tree.submit()
    tree.lead()
    tree.end(JobState.FINISHED)


def _quarantined(before: Situation) -> Situation:
    def situation(tree: Tree) -> None:
        before(tree)
        tree.coordinator.ensure(tree.cluster.quarantine)
        record = Quarantine(job_id=tree.job.job_id, reason="its graph is gone", by="test", cluster_epoch=1, at=NOON)
        tree.coordinator.commit(quarantine_op(tree.cluster, record))

    return situation


def _without_its_application(tree: Tree) -> None:
    _killed(tree)
    del tree.store.objects[keys.blob(_application().sha256)]


def _moved(tree: Tree) -> None:
    _ended(JobState.FINISHED)(tree)
    record = MoveRecord(move_id="m", cluster="zk/there", place="s3://there", run=2, by="test", at=NOON)
    tree.coordinator.commit(Create(tree.job.moved, record.to_bytes()))


def _deleted(*, complete: bool) -> Situation:
    def situation(tree: Tree) -> None:
        _ended(JobState.FINISHED)(tree)
        record = DeletedJob(keep_savepoints=False, last_run=1, complete=complete, by="test", at=NOON, unproven=())
        tree.coordinator.ensure(tree.cluster.deleted_jobs)
        tree.coordinator.commit(*read_life(tree.coordinator, tree.job).ends(record))

    return situation


def _without_a_pointer(tree: Tree) -> None:
    _lost(tree)
    tree.coordinator.commit(Delete(tree.job.job_graph))


WITHOUT_STATUS: dict[str, Situation] = {
    "no run": lambda tree: create_job(tree.coordinator, tree.job),
    "queued: submitted, not started": lambda tree: tree.submit(started=False),
    "queued: started, never led": lambda tree: tree.submit(),
    "queued: never led, killed": _never_led_with(),
    "queued: never led, an outage": _never_led_with(outage=True, reason="storage does not answer"),
    "queued: never led, refused": _never_led_with(refused="no host has Spark"),
    "no graph pointer": _without_a_pointer,
    "damaged: application missing": _without_its_application,
    "deleted": _deleted(complete=True),
    "deleted: not complete": _deleted(complete=False),
    "moved": _moved,
    **{f"ended: {state.value}": _ended(state) for state in JobState if state.terminal},
    **{f"ended: {state.value}, pointer left": _ended(state, pointer=True) for state in JobState if state.terminal},
    **{f"ended: {state.value}, not cleaned": _ended(state, clean=False) for state in JobState if state.terminal},
    "ended: still led": _ended_and_still_led,
    "quarantined: lost": _quarantined(_killed),
    "quarantined: ended": _quarantined(_ended(JobState.FINISHED)),
}
WITH_STATUS: dict[str, Situation] = {
    "led": _led,
    "led: by an earlier attempt": _led_by_an_earlier_attempt,
    "led: second attempt": _led_again,
    "led: in a crash loop": _in_a_loop_and_led,
    "led: in quarantine": _quarantined(_led),
    "lost: session ended": _lost,
    "lost: proven dead": _killed,
    "lost: proven dead, session open": _killed_with_its_session_open,
    "lost: submitted again": _submitted_again,
    "lost: started again": _started_again,
    "lost: in a crash loop": _in_a_loop,
    "lost: in an outage": _lost_with(outage=True, reason="ZooKeeper does not answer"),
    "undecided": _lost_with(decision="input is gone: restore, or accept the loss"),
    "refused": _lost_with(refused="the graph does not fit its checkpoint"),
    "damaged: leader": _led_with_a_damaged(lambda job: job.leader),
    "damaged: status": _led_with_a_damaged(lambda job: job.status),
    "damaged: graph pointer": _lost_with_a_damaged(lambda job: job.job_graph),
    "damaged: run": _lost_with_a_damaged(lambda job: job.run(1)),
    "damaged: submission": _lost_with_a_damaged(lambda job: job.submission(1, 1)),
}
# A leader writes these; it never writes SUBMITTED or LOST, and STALLED is RUNNING with a reason.
WRITTEN: tuple[JobState | None, ...] = (
    None,
    *(state for state in JobState if state not in (JobState.SUBMITTED, JobState.STALLED, JobState.LOST)),
)


def cells() -> dict[str, tuple[Status | None, Situation]]:
    """Each situation, those of a leader with each status that it can have written."""
    plain: dict[str, tuple[Status | None, Situation]] = {name: (None, each) for name, each in WITHOUT_STATUS.items()}
    for (name, situation), state in product(WITH_STATUS.items(), WRITTEN):
        status = a_status(state) if state is not None else None
        plain[f"{name} / {state.value if state is not None else 'no status'}"] = status, situation
    for state in (JobState.STARTING, JobState.RUNNING, JobState.STOPPING, JobState.FINISHED):
        plain[f"stalled / {state.value}"] = a_status(state), _stalled
    return plain


def _application() -> Blob:
    return Blob(sha256=hashlib.sha256(APPLICATION).hexdigest(), size=len(APPLICATION))


def answers(tree: Tree) -> dict[str, Any]:
    """Return the answer of each reader."""
    one = [tree.job.job_id]
    (listed,) = read_states(tree.coordinator, tree.cluster, one, now=NOW)
    (detail,) = read_details(tree.coordinator, tree.cluster, one)
    (surveyed,) = survey(tree.coordinator, tree.cluster, one)
    row, seen = overview_row(detail, now=NOW), decide(listed, None, NOW)
    return {
        "snapshot": _or_error(lambda: read_status(tree.coordinator, tree.job).state.value),
        "list": [seen.state, seen.needs_person],
        "row": [row.state, row.needs_attention, _plain(row.problem, tree)],
        "survey": standing_of(surveyed),
        "cluster's leader": _or_error(lambda: _judged(tree)),
        "restart": _or_error(lambda: _decided(tree)),
        "history": _or_error(lambda: _ends_of(tree)),
    }


def _judged(tree: Tree) -> list[str]:
    sight = look(tree.coordinator, tree.store, tree.cluster, tree.job.job_id)
    judged = decide(sight.status, sight.options, NOW)
    return [judged.action.value, _plain(judged.reason, tree)]


def _decided(tree: Tree) -> list[Any]:
    found = decide(read_status(tree.coordinator, tree.job), HaOptions(), NOW)
    if (decision := found.restart) is None:
        return ["RunOver" if found.state == NO_RUN or JobState(found.state).terminal else "KeepRun", {}]
    shown = {name: getattr(decision, name) for name in decision.__dataclass_fields__ if name != "failure"}
    return [type(decision).__name__, {name: value for name, value in shown.items() if value}]


def _ends_of(tree: Tree) -> list[str]:
    view = history_view(read_history(tree.coordinator, tree.job))
    return [epoch.end for run in view.runs for epoch in run.epochs]


def _or_error(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except HaError as error:
        return type(error).__name__


def _plain(text: str, tree: Tree) -> str:
    """Return a text without the names of this test's cluster."""
    return text.replace(tree.config.cluster_id, "CLUSTER").replace(tree.job.job_id, "JOB")


@pytest.fixture
def trees(coordinator: Coordinator, cluster_paths: ClusterPaths, config: HaConfig) -> Callable[..., Tree]:
    """Make an empty tree for a situation; each has another job."""

    def make(number: int, status: Status | None) -> Tree:
        store, job = MemoryStore(SystemClock()), cluster_paths.job(f"job-{number}")
        store.write(keys.blob(_application().sha256), APPLICATION)
        graph = JobGraph(job_id=job.job_id, name="job", application=Artifact(name="app.py", blob=_application()))
        written = JobGraphStore(coordinator, store, job).write_graph(graph)
        return Tree(coordinator, cluster_paths, config, store, job, written, status)

    return make


def test_readers_give_the_recorded_answers(trees: Callable[..., Tree]) -> None:
    found: dict[str, dict[str, Any]] = {}
    for number, (name, (status, situation)) in enumerate(cells().items()):
        tree = trees(number, status)
        situation(tree)
        found[name] = answers(tree)

    if os.environ.get("STATES") == "write":
        GOLDEN.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n")
    assert found == json.loads(GOLDEN.read_text("utf-8"))


def test_the_list_and_the_row_of_a_job_agree() -> None:
    golden = json.loads(GOLDEN.read_text("utf-8"))

    # A list leaves deleted jobs out, and reads neither the run nor its submissions.
    differing = {name for name, found in golden.items() if found["list"] != found["row"][:2]}
    assert {name.partition(" /")[0] for name in differing} == {
        "deleted",
        "deleted: not complete",
        "damaged: run",
        "damaged: submission",
    }
    assert all(found["list"][1] for name, found in golden.items() if name.startswith("damaged"))
