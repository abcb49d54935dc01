"""Following a run that another process started, against a real ZooKeeper and real processes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_3_PLUS
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.runs.watchers import release
from airflow_provider_ha.operators.follow import SparkHaFollowOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from tests.integration.airflow_side.task_runner import deferral, run_task
from tests.support.airflow_exceptions import AirflowFailException
from tests.support.clusters.airflow_helpers import context
from tests.support.clusters.jobs_helpers import a_result, submit


pytestmark = pytest.mark.usefixtures("airflow_connection", "opened")


def following(**kwargs: Any) -> SparkHaFollowOperator:
    return SparkHaFollowOperator(task_id="task", job_id="flights", **kwargs)


def end(coordinator: Coordinator, paths: JobPaths, number: int, state: JobState = JobState.FINISHED) -> None:
    ended = a_result(state).model_copy(update={"reason": "an unnamed query", "checkpoint": 7})
    coordinator.commit(RunStore(coordinator, paths).result_op(number, ended))


def watched(coordinator: Coordinator, paths: JobPaths) -> list[str]:
    return coordinator.children(paths.watchers)


def test_a_driver_that_nobody_else_watches_is_submitted_again_until_it_is_given_up(
    application: str, coordinator: Coordinator, paths: JobPaths
) -> None:
    starting = SparkHaSubmitOperator(
        task_id="task",
        job_id="flights",
        application=application,
        env={"STAND_IN": "die"},
        ha={"restart_delay": 0.05, "restart_attempts": 2},
    )
    deferral(starting, context(run_id="started-it"))

    with pytest.raises(AirflowFailException, match=r"ended FAILED: spark-submit: exit status 3"):
        run_task(following(), context())

    view = RunStore(coordinator, paths).get(1)
    assert [submission.submission.attempt for submission in view.submissions] == [1, 2, 3]


def test_a_numbered_run_that_was_removed_is_named_and_not_waited_for(coordinator: Coordinator, paths: JobPaths) -> None:
    submit(coordinator, paths, 2)

    with pytest.raises(AirflowFailException, match="run 1 of job 'flights' was over and has been removed"):
        run_task(following(run=1), context())

    assert watched(coordinator, paths) == []


def test_which_numbered_run_a_task_follows_is_noted(coordinator: Coordinator, paths: JobPaths) -> None:
    """So that its claim can go with that run."""
    submit(coordinator, paths)
    end(coordinator, paths, 1)

    run_task(following(run=1), context())

    claim, note = watched(coordinator, paths)
    assert note == f"{claim}-run"


def test_a_run_that_finishes_while_it_is_followed_is_the_result(coordinator: Coordinator, paths: JobPaths) -> None:
    submit(coordinator, paths)

    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(run_task, following(), context())
        end(coordinator, paths, 1)
        result, events = task.result(timeout=30)

    assert (result["run"], result["state"], result["checkpoint"]) == (1, "FINISHED", 7)
    assert [event["status"] for event in events] == ["ended"]


def test_a_run_that_had_finished_before_is_the_result_as_well(coordinator: Coordinator, paths: JobPaths) -> None:
    submit(coordinator, paths)
    end(coordinator, paths, 1)

    result, _ = run_task(following(), context())

    assert (result["run"], result["state"], result["checkpoint"]) == (1, "FINISHED", 7)


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELED])
def test_a_run_that_ended_otherwise_fails_the_task_for_good_with_the_reason(
    coordinator: Coordinator, paths: JobPaths, state: JobState
) -> None:
    submit(coordinator, paths)
    end(coordinator, paths, 1, state)

    with pytest.raises(AirflowFailException, match=rf"Run 1 of job 'flights' ended {state.value}: an unnamed query"):
        run_task(following(), context())


def test_the_newest_run_is_followed_by_every_try_of_the_task_also_when_there_is_a_newer_one(
    coordinator: Coordinator, paths: JobPaths
) -> None:
    submit(coordinator, paths, 1)
    end(coordinator, paths, 1)
    submit(coordinator, paths, 2)
    first = deferral(following(), context(ti_id="try-1"))
    end(coordinator, paths, 2)
    submit(coordinator, paths, 3)

    again = deferral(following(), context(ti_id="try-2"))
    other = deferral(following(), context(run_id="manual__2"))

    assert (first.trigger.number, again.trigger.number, other.trigger.number) == (2, 2, 3)
    result, _ = run_task(following(), context(ti_id="cleared"))
    assert (result["run"], result["state"]) == (2, "FINISHED")


def test_the_run_that_is_named_is_followed_also_when_a_cleared_task_named_another_one_before(
    coordinator: Coordinator, paths: JobPaths
) -> None:
    submit(coordinator, paths, 1)
    first = deferral(following(run="1"), context(ti_id="try-1"))
    end(coordinator, paths, 1, JobState.FAILED)
    submit(coordinator, paths, 2)

    again = deferral(following(run=2), context(ti_id="cleared"))

    assert (first.trigger.number, again.trigger.number) == (1, 2)


@pytest.mark.skipif(not AIRFLOW_V_3_3_PLUS, reason="before Airflow 3.3 a waiting task does not hear that it is killed")
def test_a_new_try_overtakes_the_trigger_of_the_old_one_before_it_looks_for_the_run(
    coordinator: Coordinator, paths: JobPaths
) -> None:
    submit(coordinator, paths)
    old = deferral(following(when_killed="cancel"), context(ti_id="try-1")).trigger
    new = following(when_killed="cancel")
    attach, killed = new.attach, []

    def attach_while_the_old_one_is_killed(client: Any, context: Any, request: str) -> int:
        killed.append(release(coordinator, paths, request, old.claim))
        return attach(client, context, request)

    new.attach = attach_while_the_old_one_is_killed  # type: ignore[method-assign]  # and then does what it did
    trigger = deferral(new, context(ti_id="try-2")).trigger

    assert killed == [False]
    assert (trigger.when_killed, trigger.wait_for, trigger.watcher_id) == ("cancel", "finished", old.watcher_id)


def test_an_unknown_job_is_refused_for_good_and_leaves_no_trace(coordinator: Coordinator, paths: JobPaths) -> None:
    with pytest.raises(AirflowFailException, match="'flights' is not known"):
        following().execute(context())

    assert coordinator.find(paths.base) is None


@pytest.mark.parametrize(
    ("run", "reason"),
    [(2, "does not have a run 2: the newest is run 1"), ("first", "'first' is not the number"), (0, "0 is not")],
)
def test_a_run_that_is_not_there_is_refused_for_good_and_leaves_no_trace(
    coordinator: Coordinator, paths: JobPaths, run: int | str, reason: str
) -> None:
    submit(coordinator, paths)
    task = following()
    task.run = run  # as a template renders it

    with pytest.raises(AirflowFailException, match=reason):
        task.execute(context())

    assert watched(coordinator, paths) == []


def test_a_job_that_never_ran_is_refused_for_good_and_leaves_no_trace(
    coordinator: Coordinator, paths: JobPaths
) -> None:
    create_job(coordinator, paths)

    with pytest.raises(AirflowFailException, match=r"does not have any run: it has none\. Submit or restore"):
        following().execute(context())

    assert watched(coordinator, paths) == []
