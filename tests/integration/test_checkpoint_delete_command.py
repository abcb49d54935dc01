"""``spark-ha delete checkpoint`` on a real cluster: what goes, what is refused, and who removes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.pointer_store import PointerStore
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.reader_leases import ReaderLease
from airflow_provider_ha.driver.checkpointing.savepoint_job import DisposalJob
from airflow_provider_ha.errors import JobStateError, OperationFailedError
from airflow_provider_ha.jobs.model import Operation, OperationKind, OperationState
from tests.conformance.stores.stage import pins, pointers
from tests.integration.conftest import RECORDED_BATCH
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.checkpoints.three_checkpoints import (
    answers,
    begin_from,
    damage,
    driver,
    leading,
    reader,
    three_checkpoints,
)
from tests.support.clusters.jobs_helpers import NOON
from tests.support.spark.recorded_job import QUERY, recorded_job


YES, NO, UNKNOWN, WRONG_CALL = 0, 1, 2, 64
COMMAND = ("delete", "checkpoint", "flights")


@pytest.fixture
def flights(config: HaConfig, coordinator: Coordinator) -> Job:
    """A job without a driver, whose run is live; it has checkpoints 1 to 3, all of them good."""
    return three_checkpoints(config, coordinator)


def test_a_checkpoint_goes_with_its_files_and_the_others_stay(spark_ha: Any, flights: Job) -> None:
    code, out, err = spark_ha(*COMMAND, "checkpoint-2", "--yes", "--json")

    assert code == YES, err
    assert json.loads(out) == {
        "job_id": "flights",
        "checkpoint": 2,
        "proven": "checkpoint-3",
        "kept": None,
        "deleted": True,
    }
    assert (pointers(flights), pins(flights)) == ([1, 3], [1, 3])
    assert answers(flights) == []


def test_a_driver_removes_it_and_says_so(spark_ha: Any, flights: Job) -> None:
    with driver(flights):
        code, _, err = spark_ha(*COMMAND, "2", "--yes")

    assert code == YES, err
    assert (pointers(flights), pins(flights)) == ([1, 3], [1, 3])
    assert answers(flights) == [OperationState.COMPLETED]


def test_a_driver_of_an_older_release_refuses_it(spark_ha: Any, flights: Job) -> None:
    with driver(flights, older=True):
        code, _, err = spark_ha(*COMMAND, "2", "--yes")

    assert (code, "was not removed" in err) == (NO, True)
    assert (pointers(flights), pins(flights)) == ([1, 2, 3], [1, 2, 3])


def newest(job: Job) -> str:
    damage(job, 3)  # it is not the proven one, and stays all the same
    return "checkpoint-3"


def proven(job: Job) -> str:
    damage(job, 3)
    return "checkpoint-2"


def read(job: Job) -> str:
    reader(job, 1)
    return "checkpoint-1"


def begun_from(job: Job) -> str:
    begin_from(job, 1)
    return "checkpoint-1"


REFUSED: list[tuple[Callable[[Job], str], str]] = [
    (newest, "is the newest one, from which the job would continue"),
    (proven, "is the newest proven one"),
    (read, "is being read by a drill"),
    (begun_from, "starts from checkpoint 1"),
    (lambda _: "7", "it has 3, 2, 1"),
    (lambda _: "savepoint-friday", "`spark-ha delete savepoint flights friday`"),
    (lambda _: "friday", "Use checkpoint-<number>"),
]


@pytest.mark.parametrize(("what", "reason"), REFUSED)
def test_what_is_refused_changes_nothing(spark_ha: Any, flights: Job, what: Callable[[Job], str], reason: str) -> None:
    word = what(flights)

    code, _, err = spark_ha(*COMMAND, word, "--yes")

    assert code in (NO, WRONG_CALL)
    assert reason in " ".join(err.split())
    assert (pointers(flights), pins(flights), answers(flights)) == ([1, 2, 3], [1, 2, 3], [])


def test_without_a_proven_checkpoint_nothing_goes(spark_ha: Any, flights: Job) -> None:
    for number in (1, 2, 3):
        damage(flights, number)

    code, _, err = spark_ha(*COMMAND, "1", "--yes")

    assert (code, "none of 3 candidate(s)" in err) == (NO, True)
    assert pointers(flights) == [1, 2, 3]


def test_the_start_of_a_run_can_go_once_the_run_has_its_own_checkpoint(spark_ha: Any, flights: Job) -> None:
    begin_from(flights, 1)
    with leading(flights) as led:
        pin(recorded_job() / "live", led.pin_path(4), {QUERY: RECORDED_BATCH})
        led.checkpoints.add(led.leadership, led.checkpoint(4, RECORDED_BATCH).model_copy(update={"run": 2}))

    code, _, err = spark_ha(*COMMAND, "1", "--yes")

    assert code == YES, err
    assert pointers(flights) == [2, 3, 4]


def test_without_a_terminal_it_asks_for_yes(spark_ha: Any, flights: Job) -> None:
    code, _, err = spark_ha(*COMMAND, "1")

    assert (code, "Add --yes" in err) == (WRONG_CALL, True)
    assert pointers(flights) == [1, 2, 3]


# What happens at the same moment.


def test_what_was_proven_and_is_gone_since_keeps_the_checkpoint(flights: Job) -> None:
    with leading(flights) as led, pytest.raises(JobStateError, match="were changed concurrently"):
        led.checkpoints.dispose(led.leadership, 1, proven="checkpoint-9")

    assert (pointers(flights), pins(flights)) == ([1, 2, 3], [1, 2, 3])


def test_a_run_that_is_made_at_the_last_moment_keeps_the_checkpoint(
    spark_ha: Any, flights: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispose = CheckpointStore.dispose

    def submitted_first(store: CheckpointStore, *args: Any, **kwargs: Any) -> None:
        begin_from(flights, 1)
        dispose(store, *args, **kwargs)

    monkeypatch.setattr(CheckpointStore, "dispose", submitted_first)

    code, _, err = spark_ha(*COMMAND, "1", "--yes")

    assert (code, "were changed concurrently" in err) == (NO, True)
    assert (pointers(flights), pins(flights)) == ([1, 2, 3], [1, 2, 3])


def test_a_reader_that_comes_last_keeps_the_files_until_it_is_done(
    spark_ha: Any, flights: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease is made between the look at the leases and the transaction."""
    mark, leases = PointerStore.mark, list[ReaderLease]()

    def read_first(store: Any, *args: Any, **kwargs: Any) -> str | None:
        leases.append(reader(flights, 1))
        return mark(store, *args, **kwargs)

    monkeypatch.setattr(PointerStore, "mark", read_first)

    code, _, err = spark_ha(*COMMAND, "1", "--yes")

    assert code == YES, err
    assert (pointers(flights), pins(flights)) == ([2, 3], [1, 2, 3])
    leases[0].release()
    with leading(flights) as led:
        led.checkpoints.work_off(led.leadership)
    assert pins(flights) == [2, 3]


@pytest.mark.parametrize("arguments", [{"checkpoint": "1"}, {"checkpoint": "x", "proven": "checkpoint-3"}])
def test_a_request_without_a_proof_is_answered_with_what_is_missing(flights: Job, arguments: dict[str, str]) -> None:
    asked = Operation(
        operation_id="by-hand",
        operation=OperationKind.DISPOSE,
        arguments=arguments,
        run=1,
        requested_by="a person",
        requested_at=NOON,
    )
    with leading(flights) as led, pytest.raises(OperationFailedError, match="spark-ha delete checkpoint"):
        DisposalJob(led.checkpoints, led.leadership, lambda _: {}).dispose(asked)

    assert pointers(flights) == [1, 2, 3]
