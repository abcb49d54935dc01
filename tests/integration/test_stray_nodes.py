"""Nodes that this package never makes, at every level of a real tree: each is passed over and named once (S19)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import CheckpointKind, CheckpointPointer
from airflow_provider_ha.checkpoints.restore.select import select
from airflow_provider_ha.checkpoints.store.working_directories import superfluous_directories
from airflow_provider_ha.checkpoints.verify.verification_report import VerificationReport
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.coordination.reader_leases import active, hold
from airflow_provider_ha.driver.operations_loop import OperationHandlers, OperationsLoop
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.jobs.model import OperationKind
from airflow_provider_ha.jobs.observe import list_jobs, read_status
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.runs.run_store import RunStore
from tests.conformance.stores.stage import add_savepoint
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.checkpoints.publishers import LIVE, publisher_of
from tests.support.clusters.jobs_helpers import a_run, a_submission, list_quarantined
from tests.support.spark.recorded_job import copy_live


# Names that look like ours and are not: `int` takes some of them, `str.isdigit` others.
STRAY_NUMBERS = ("foo", "²", "\N{ARABIC-INDIC DIGIT SEVEN}", "007", "-1", "1_0", "9" * 5000)
STRAY_NAMES = ("foo!", " ", "a~b", "ü", "x" * 200)


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator) -> Iterator[Job]:
    """A job with a run, a checkpoint and a savepoint, and with strays wherever a name is read."""
    with led_job(config, coordinator) as led:
        runs = RunStore(coordinator, led.paths)
        coordinator.commit(runs.create_op(a_run(1)), *runs.submission_ops(1, a_submission()))
        led.add(1, 1, 1)
        add_savepoint(led, "mine", 1)
        hold(coordinator, led.paths, "checkpoint-1", holder="a reader", seconds=60, clock=SystemClock()).release()
        litter(led)
        yield led


def litter(job: Job) -> None:
    paths, cluster = job.paths, job.paths.cluster
    job.coordinator.ensure(cluster.to_delete, cluster.quarantine)
    by_number = (paths.checkpoints, paths.runs, paths.submissions(1), paths.recoveries)
    by_name = (
        *(cluster.base, cluster.to_delete, cluster.quarantine),
        *(paths.savepoints, paths.operations, paths.watchers, f"{paths.base}/leases", paths.leases("checkpoint-1")),
    )
    places = [(parent, name) for parent in by_number for name in STRAY_NUMBERS]
    places += [(parent, name) for parent in by_name for name in STRAY_NAMES]
    places += [(cluster.to_delete, f"{paths.job_id}~checkpoint-{name}~x") for name in ("²", "foo")]
    job.coordinator.commit(*(Create(f"{parent}/{name}", b"") for parent, name in places))


def test_the_snapshot_of_a_job_holds_what_is_ours(job: Job) -> None:
    snapshot = read_status(job.coordinator, job.paths)

    assert snapshot.run is not None
    assert (snapshot.run.run.number, len(snapshot.run.submissions), snapshot.checkpoint_numbers) == (1, 1, (1,))


def test_a_stray_is_named_once_in_the_log(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        read_status(job.coordinator, job.paths)
        read_status(job.coordinator, job.paths)

    named = [record.getMessage() for record in caplog.records if f"{job.paths.checkpoints}/foo " in record.getMessage()]
    assert len(named) == 1
    assert "is left alone" in named[0]


def test_the_publisher_publishes_marks_and_cleans_up(job: Job) -> None:
    publisher = publisher_of(job, copy_live(job.config.work_path / LIVE))

    made = publisher.publish(CheckpointKind.PERIODIC)
    job.checkpoints.work_off(job.leadership)

    assert made.number == 2
    assert [pointer.number for pointer in job.checkpoints.list()] == [2]
    assert not job.pin_path(1).exists()


def test_payloads_and_pins_with_stray_names_stay(job: Job) -> None:
    strays = [job.pin_path(1).with_name(name) for name in ("foo", "²" * 19, "7")]
    for stray in strays:
        stray.mkdir()
    job.objects.write(f"{job.keys.payloads}foo.json", b"")

    job.checkpoints.clean_up(job.leadership)

    assert all(stray.is_dir() for stray in strays)
    assert job.objects.info(f"{job.keys.payloads}foo.json") is not None


def test_no_stray_is_listed_as_a_checkpoint_or_a_savepoint(job: Job) -> None:
    for listing, names in ((job.checkpoints.list(), [1]), (job.savepoints.list(), ["mine"])):
        found = [
            pointer.number if isinstance(pointer, CheckpointPointer) else pointer.savepoint_id for pointer in listing
        ]
        assert (found, listing.unreadable) == (names, ())


def test_a_restore_chooses_among_what_is_ours(job: Job) -> None:
    selection = select(
        job.checkpoints,
        job.savepoints,
        LinkedWorkArea(job.config.work_path),
        verify=lambda _: VerificationReport(startable=None, restorable=[], findings=()),
    )

    assert [candidate.source for candidate in selection.candidates] == ["checkpoint-1", "savepoint-mine"]


def test_housekeeping_goes_on(job: Job) -> None:
    assert (
        superfluous_directories(
            job.checkpoints, LinkedWorkArea(job.config.work_path), job.keys.working_directory(2, "new"), drains_after=0
        )
        == []
    )


def test_a_lease_with_a_stray_name_protects_nothing(job: Job) -> None:
    assert active(job.coordinator, job.paths, "checkpoint-1", SystemClock()) == []


def test_a_lease_that_cannot_be_read_still_protects(job: Job) -> None:
    """It has the name of one, so it may protect something (contract 6)."""
    job.coordinator.commit(Create(f"{job.paths.leases('checkpoint-1')}/{'0' * 32}", b"damaged"))

    with pytest.raises(RecordCorruptError):
        active(job.coordinator, job.paths, "checkpoint-1", SystemClock())


def test_the_driver_takes_up_what_is_asked_of_it(job: Job) -> None:
    """A stop has to work with anything beside it: also a node with a possible name and nothing in it."""
    job.coordinator.commit(Create(job.paths.operation("aaa"), b""), Create(job.paths.operation("aab"), b"{}"))
    asked = ask(job, "a-cancel")
    another = asked.model_copy(update={"operation_id": "elsewhere"})
    job.coordinator.commit(Create(job.paths.operation("aac"), another.to_bytes()))
    canceled: list[str] = []

    operations_loop(job, canceled).look()

    assert canceled == ["a-cancel"]
    assert [operation.operation_id for operation in operations.list_operations(job.coordinator, job.paths)] == [
        "a-cancel"
    ]


def ask(job: Job, operation_id: str) -> Any:
    return operations.request(
        job.coordinator,
        job.paths,
        OperationKind.CANCEL,
        operation_id=operation_id,
        arguments={},
        requested_by="test",
        clock=SystemClock(),
    )


def operations_loop(job: Job, canceled: list[str]) -> OperationsLoop:
    def never(*_: object) -> Any:
        raise AssertionError("only a cancel was asked for")

    handlers = OperationHandlers(
        stop=never,
        cancel=lambda operation: canceled.append(operation.operation_id),
        savepoint=never,
        dispose=never,
        stopped=never,
        ready=lambda _: True,
        checkpoint=never,
        hand_over=never,
        make_way=never,
        jvm_is_gone=never,
    )
    return OperationsLoop(
        coordinator=job.coordinator,
        paths=job.paths,
        leadership=job.leadership,
        lifecycle=Lifecycle(),
        handlers=handlers,
        run=1,
        clock=SystemClock(),
        failed=never,
    )


def test_the_jobs_of_a_cluster_are_those_with_an_id_of_a_job(job: Job) -> None:
    assert list_jobs(job.coordinator, job.paths.cluster) == [job.paths.job_id]
    assert list_quarantined(job.coordinator, job.paths.cluster) == {}


@pytest.mark.parametrize(
    "words",
    [
        ("job", "list"),
        ("job", "show", "flights"),
        ("job", "history", "flights"),
        ("checkpoint", "list", "flights"),
        ("savepoint", "list", "flights"),
        ("cluster", "tree"),
        ("cluster", "recover", "--wait", "0"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("job")
def test_every_command_goes_on(spark_ha: Any, words: tuple[str, ...]) -> None:
    code, _, err = spark_ha(*words)

    assert (code, err) == (0, "")


@pytest.mark.usefixtures("job")
def test_the_tree_shows_strays(spark_ha: Any) -> None:
    _, out, _ = spark_ha("cluster", "tree")

    assert "foo!" in out
