"""Whose job it is: others are refused by name, before anything changes, unless they force it. Real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.job_context import CallerIdentity, JobContext, owner_of_job
from airflow_provider_ha.jobs.model import JobState, RunResult
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.removal.checkpoint_deletion import CheckpointRemoval
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.submit import run_submission
from airflow_provider_ha.operators._base import acting
from tests.conformance.stores.stage import add_savepoint
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.jobs_helpers import NOON, a_run, a_submission
from tests.support.specs import changed


MINE, THEIRS = "dag-of-mine", "dag-of-others"


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator) -> Iterator[Job]:
    """A running job that belongs to a DAG, with a checkpoint and a savepoint."""
    with led_job(config, coordinator) as led:
        runs = RunStore(coordinator, led.paths)
        run = a_run(1).model_copy(update={"owner": MINE})
        coordinator.commit(runs.create_op(run), *runs.submission_ops(1, a_submission()))
        led.add(1, 1, 1)
        add_savepoint(led, "mine", 1)
        yield led


def client(job: Job, owner: str | None = None, *, force: bool = False) -> JobClient:
    opened = HaClient.open(job.config, coordinator=job.coordinator)
    return opened.job(job.paths.job_id, acting=CallerIdentity(owner=owner, force=force))


def tree(job: Job) -> list[str]:
    names: list[str] = []
    waiting = [job.paths.base]
    while waiting:
        path = waiting.pop()
        names.append(path)
        waiting += [f"{path}/{name}" for name in job.coordinator.children(path)]
    return sorted(names)


ACTS: dict[str, Any] = {
    "stop": lambda it, _: it.request_stop(operation_id="o", requested_by="r"),
    "cancel": lambda it, _: it.request_cancel(operation_id="o", requested_by="r"),
    "savepoint": lambda it, _: it.request_savepoint(operation_id="o", requested_by="r"),
    "dispose": lambda it, _: it.delete_savepoint("mine", requested_by="r"),
    "delete": lambda it, _: it.delete(requested_by="r"),
    "plan the deletion of a checkpoint": lambda it, _: it.plan_checkpoint_deletion("1"),
    "delete a checkpoint": lambda it, _: it.delete_checkpoint(
        CheckpointRemoval(1, {}, NOON, "checkpoint-2", 1), requested_by="r"
    ),
    "restore": lambda it, _: it.restore(RestoreRequest(job_id="flights", request_id="r")),
    "upgrade": lambda it, root: it.submit(helpers.request(helpers.script(root), request_id="r")),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("who", [THEIRS, None])
def test_others_are_refused_by_name_before_anything_changes(
    job: Job, tmp_path: Path, act: str, who: str | None
) -> None:
    before = tree(job)

    with pytest.raises(JobStateError, match=f"belongs to '{MINE}'") as caught:
        ACTS[act](client(job, who), tmp_path)

    assert "force=True" in caught.value.next_step
    assert "--force" in caught.value.next_step
    assert tree(job) == before


@pytest.mark.parametrize("act", ["stop", "cancel", "savepoint"])
@pytest.mark.parametrize(("who", "force"), [(MINE, False), (THEIRS, True), (None, True)])
def test_the_owner_is_let_in_and_so_is_who_forces_it(
    job: Job, tmp_path: Path, act: str, who: str | None, force: bool
) -> None:
    ACTS[act](client(job, who, force=force), tmp_path)

    assert job.coordinator.find(job.paths.operation("o")) is not None


@pytest.mark.parametrize("who", [MINE, THEIRS, None])
def test_a_job_without_an_owner_is_everybodys(config: HaConfig, coordinator: Coordinator, who: str | None) -> None:
    with led_job(config, coordinator) as led:
        runs = RunStore(coordinator, led.paths)
        coordinator.commit(runs.create_op(a_run(1)), *runs.submission_ops(1, a_submission()))

        client(led, who).request_stop(operation_id="o", requested_by="r")

        assert coordinator.find(led.paths.operation("o")) is not None


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_submission, "ensure_submitted", lambda *_, **__: 1)


def end_run(job: Job) -> None:
    runs = RunStore(job.coordinator, job.paths)
    job.leadership.commit(runs.result_op(1, RunResult(state=JobState.FINISHED, epoch=1, at=NOON)))
    job.leadership.release()


@pytest.mark.usefixtures("no_engine")
def test_a_submission_says_whose_the_job_is(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> None:
    context = helpers.context(config, coordinator)
    request = changed(helpers.request(helpers.script(tmp_path)), job_owner=MINE)

    JobClient(context, acting=CallerIdentity(MINE)).submit(request)

    assert owner_of_job(context) == MINE


@pytest.mark.usefixtures("no_engine")
def test_who_forces_a_new_run_becomes_the_owner_when_it_says_so(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    with led_job(config, coordinator) as led:
        runs = RunStore(coordinator, led.paths)
        run = a_run(1).model_copy(update={"owner": MINE})
        coordinator.commit(runs.create_op(run), *runs.submission_ops(1, a_submission()))
        end_run(led)
    context = helpers.context(config, coordinator)
    request = changed(helpers.request(helpers.script(tmp_path), request_id="b"), job_owner=THEIRS)

    JobClient(context, acting=CallerIdentity(THEIRS, force=True)).submit(request)

    assert owner_of_job(context) == THEIRS


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(
    "words",
    [
        ("job", "stop", "flights"),
        ("job", "cancel", "flights"),
        ("savepoint", "trigger", "flights"),
        ("checkpoint", "trigger", "flights"),
        ("job", "restore", "flights"),
    ],
    ids=" ".join,
)
def test_the_command_is_refused_and_says_how_to_force_it(spark_ha: Any, words: tuple[str, ...]) -> None:
    code, _, err = spark_ha(*words)

    assert code == 1
    assert f"belongs to '{MINE}'" in err
    assert "--force" in err


@pytest.mark.usefixtures("job")
def test_the_command_can_force_it(spark_ha: Any, job: Job) -> None:
    spark_ha("job", "stop", "flights", "--force", "--wait", "0")

    assert len(job.coordinator.children(job.paths.operations)) == 1


@pytest.mark.usefixtures("job")
def test_the_owner_is_shown(spark_ha: Any) -> None:
    _, out, _ = spark_ha("job", "show", "flights")

    assert MINE in out


@pytest.mark.usefixtures("source", "no_engine")
def test_a_restore_keeps_the_owner(copy: JobContext) -> None:
    runs = RunStore(copy.coordinator, copy.paths)
    copy.coordinator.ensure(*copy.paths.skeleton)
    copy.coordinator.commit(
        runs.create_op(a_run(1).model_copy(update={"owner": MINE})),
        *runs.submission_ops(1, a_submission()),
        runs.result_op(1, RunResult(state=JobState.FINISHED, epoch=0, at=NOON)),
    )

    made = JobClient(copy, acting=CallerIdentity(None, force=True)).restore(
        RestoreRequest(job_id="copy", request_id="r", source_job="flights")
    )

    assert (made.run, owner_of_job(copy)) == (2, MINE)


def test_an_operator_acts_in_the_name_of_its_dag() -> None:
    context = {"ti": SimpleNamespace(dag_id=MINE)}

    assert acting(context, force="False") == CallerIdentity(owner=MINE, force=False)
    assert acting(context, force=True) == CallerIdentity(owner=MINE, force=True)
