"""``spark-ha delete checkpoint`` of a checkpoint whose pointer cannot be read: the pointer goes, its bytes stay."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import CheckpointPointer
from airflow_provider_ha.checkpoints.store.checkpoint_pointers import RemovedPointer
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, SetData
from airflow_provider_ha.errors import JobStateError, LeadershipError, RecordCorruptError
from airflow_provider_ha.jobs.model import OperationState
from airflow_provider_ha.jobs.removal import checkpoint_deletion
from tests.conformance.stores.stage import pins, pointers
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


YES, NO, UNKNOWN, WRONG_CALL = 0, 1, 2, 64
COMMAND = ("delete", "checkpoint", "flights")


@pytest.fixture
def flights(config: HaConfig, coordinator: Coordinator) -> Job:
    """A job without a driver, whose run is live; the pointer of its second checkpoint of three is damaged."""
    job = three_checkpoints(config, coordinator)
    overwrite(job, 2, b"garbage")
    return job


def overwrite(job: Job, number: int, data: bytes) -> None:
    job.coordinator.commit(SetData(job.paths.checkpoint(number), data))


def pointer_bytes(job: Job, number: int) -> bytes:
    return job.coordinator.get(job.paths.checkpoint(number)).data


def kept(job: Job) -> list[bytes]:
    """Return the bytes of removed pointers."""
    found = [job.objects.read(info.key) for info in job.objects.list(job.keys.removed_pointers)]
    return [base64.b64decode(RemovedPointer.from_bytes(data, source="").data) for data in found]


def truncated(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def with_another_checksum(whole: bytes) -> bytes:
    return whole.replace(b'"number":2', b'"number":7')


def of_another_kind(whole: bytes) -> bytes:
    return whole.replace(CheckpointPointer.kind.encode(), b"another-kind")


DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda _: b"",
    lambda _: b"\x00\xff\x9e",
    lambda _: b"[]",
    truncated,
    with_another_checksum,
    of_another_kind,
]


@pytest.mark.parametrize("change", DAMAGES, ids=["empty", "no text", "no record", "cut short", "checksum", "kind"])
def test_the_pointer_goes_and_its_bytes_stay(
    spark_ha: Any, flights: Job, config: HaConfig, change: Callable[[bytes], bytes]
) -> None:
    damaged = change(pointer_bytes(flights, 3).replace(b'"number":3', b'"number":2'))
    overwrite(flights, 2, damaged)

    code, out, err = spark_ha(*COMMAND, "checkpoint-2", "--yes", "--json")

    assert code == YES, err
    told = json.loads(out)
    assert (told["checkpoint"], told["proven"], told["deleted"]) == (2, "checkpoint-3", True)
    record = RemovedPointer.from_bytes(flights.objects.read(told["kept"]), source=told["kept"])
    assert (record.checkpoint, base64.b64decode(record.data)) == (2, damaged)
    assert record.node == flights.paths.checkpoint(2)
    assert pointers(flights) == [1, 3]


def test_its_files_go_with_the_next_collection_and_those_of_others_stay(spark_ha: Any, flights: Job) -> None:
    with leading(flights) as led:
        led.checkpoints.clean_up(led.leadership)
    before = pins(flights)

    code, _, err = spark_ha(*COMMAND, "2", "--yes")

    assert (code, before, pins(flights)) == (YES, [1, 2, 3], [1, 2, 3]), err
    with leading(flights) as led:
        led.checkpoints.clean_up(led.leadership)
    assert pins(flights) == [1, 3]


def test_the_payloads_of_the_job_are_collected_again(spark_ha: Any, flights: Job) -> None:
    with leading(flights) as led:
        assert led.checkpoints.floor() is None

    code, _, err = spark_ha(*COMMAND, "2", "--yes")

    assert code == YES, err
    with leading(flights) as led:
        assert led.checkpoints.floor() is not None


def test_a_driver_removes_it_and_says_so(spark_ha: Any, flights: Job) -> None:
    with driver(flights):
        code, out, err = spark_ha(*COMMAND, "2", "--yes")

    assert code == YES, err
    assert "its bytes are kept in jobs/flights/checkpoints/removed-pointers/" in " ".join(out.split())
    assert (pointers(flights), kept(flights)) == ([1, 3], [b"garbage"])
    assert answers(flights) == [OperationState.COMPLETED]


def test_without_a_confirmation_it_says_what_the_pointer_is_and_changes_nothing(spark_ha: Any, flights: Job) -> None:
    code, _, err = spark_ha(*COMMAND, "2")

    said = " ".join(err.split())
    assert (code, pointers(flights), kept(flights)) == (WRONG_CALL, [1, 2, 3], [])
    assert "unreadable checkpoint-2" in said
    assert "only its pointer is removed, and its bytes are kept in jobs/flights/" in said
    assert "Add --yes" in said


def newest(job: Job) -> str:
    overwrite(job, 3, b"garbage")
    return "3"


def read(job: Job) -> str:
    reader(job, 2)
    return "2"


def begun_from(job: Job) -> str:
    begin_from(job, 2)
    return "2"


def unproven(job: Job) -> str:
    damage(job, 1)
    damage(job, 3)
    return "2"


def of_a_newer_release(job: Job) -> str:
    record = json.loads(pointer_bytes(job, 3))
    overwrite(job, 2, json.dumps(record | {"version": 99}).encode())
    return "2"


REFUSED: list[tuple[Callable[[Job], str], str]] = [
    (newest, "is the newest one, from which the job would continue"),
    (read, "is being read by a drill"),
    (begun_from, "starts from checkpoint 2"),
    (unproven, "none of 3 candidate(s)"),
    (of_a_newer_release, "was written by a newer release"),
]


@pytest.mark.parametrize(("what", "reason"), REFUSED)
def test_what_is_refused_changes_nothing(spark_ha: Any, flights: Job, what: Callable[[Job], str], reason: str) -> None:
    word = what(flights)
    before = [pointer_bytes(flights, number) for number in (1, 2, 3)]

    code, _, err = spark_ha(*COMMAND, word, "--yes")

    assert code in (NO, UNKNOWN)
    assert reason in " ".join(err.split())
    assert [pointer_bytes(flights, number) for number in (1, 2, 3)] == before
    assert (pins(flights), answers(flights), kept(flights)) == ([1, 2, 3], [], [])


# What happens at the same moment.


def test_other_bytes_than_those_that_were_seen_stay(
    spark_ha: Any, flights: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = checkpoint_deletion.delete_checkpoint

    def written_first(*args: Any, **kwargs: Any) -> None:
        overwrite(flights, 2, b"other garbage")
        remove(*args, **kwargs)

    monkeypatch.setattr(checkpoint_deletion, "delete_checkpoint", written_first)

    code, _, err = spark_ha(*COMMAND, "2", "--yes")

    assert (code, "has changed since it was read" in err) == (NO, True)
    assert (pointers(flights), pointer_bytes(flights, 2), kept(flights)) == ([1, 2, 3], b"other garbage", [])


def test_a_pointer_that_changes_under_the_removal_stays(flights: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at its bytes and the transaction."""
    seen = three_bytes_digest(flights)
    stays = CheckpointStore.latest_number
    looks = list[int]()

    def changed(store: CheckpointStore) -> int | None:
        looks.append(1)
        if len(looks) == 2:
            overwrite(flights, 2, b"other garbage")
        return stays(store)

    monkeypatch.setattr(CheckpointStore, "latest_number", changed)

    with leading(flights) as led, pytest.raises(JobStateError, match="were changed concurrently"):
        led.checkpoints.dispose(led.leadership, 2, proven="checkpoint-3", unreadable=seen)

    assert pointer_bytes(flights, 2) == b"other garbage"


def three_bytes_digest(job: Job) -> str:
    found = job.checkpoints.unreadable(2)
    assert found is not None
    return found.digest


def test_a_pointer_that_cannot_be_read_goes_for_no_other_request(flights: Job) -> None:
    with leading(flights) as led, pytest.raises(RecordCorruptError):
        led.checkpoints.dispose(led.leadership, 2, proven="checkpoint-3")

    assert pointers(flights) == [1, 2, 3]


def test_a_deposed_leader_removes_nothing(flights: Job) -> None:
    with leading(flights) as led:
        flights.coordinator.commit(SetData(flights.paths.epoch, b"another leader"))

        with pytest.raises(LeadershipError):
            led.checkpoints.dispose(led.leadership, 2, proven="checkpoint-3", unreadable=three_bytes_digest(flights))

    assert (pointer_bytes(flights, 2), kept(flights)) == (b"garbage", [])
