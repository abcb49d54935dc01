"""The history of a job's batches in storage: what is read back is what was noted, and it stays small."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.jobs.progress_history import KEPT, PERIOD, ProgressHistory, ProgressPoint, read_progress
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.local_store import LocalStore


JOB = "flights"
NOON = datetime(2026, 11, 24, 12, tzinfo=timezone.utc)  # the beginning of a period
BEFORE = NOON - timedelta(days=1)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def history(store: LocalStore, epoch: int = 1) -> ProgressHistory:
    return ProgressHistory(store, JobKeys(JOB), epoch)


def point(batch: int, at: datetime, *, query: str = "hourly", seconds: float = 2.0, rows: int = 100) -> ProgressPoint:
    return ProgressPoint(
        at=at,
        query=query,
        batch=batch,
        batch_seconds=seconds,
        longest_seconds=seconds,
        input_rows=rows,
        input_rate=rows / 10,
        lag=batch,
    )


def keys(store: LocalStore) -> list[str]:
    return sorted(found.key.rpartition("/")[2] for found in store.list(JobKeys(JOB).progress_history))


def test_points_are_read_back_in_their_order_from_a_moment_on(store: LocalStore) -> None:
    written = history(store)
    for minute in (0, 1, 2):
        written.add(point(minute, NOON + timedelta(minutes=minute), query="b"))
        written.add(point(minute, NOON + timedelta(minutes=minute), query="a"))
    written.write(NOON + timedelta(minutes=3))

    found = read_progress(store, JOB, since=NOON + timedelta(minutes=1, seconds=30))

    assert [(each.query, each.batch, each.at.minute) for each in found] == [
        ("a", 1, 1), ("b", 1, 1), ("a", 2, 2), ("b", 2, 2),
    ]  # fmt: skip
    assert found[0] == point(1, NOON + timedelta(minutes=1), query="a")


def test_batches_of_one_minute_are_one_point(store: LocalStore) -> None:
    written = history(store)
    written.add(point(1, NOON + timedelta(seconds=5), seconds=1.0, rows=100))
    written.add(point(2, NOON + timedelta(seconds=25), seconds=4.0, rows=300))
    written.write(NOON)

    (found,) = read_progress(store, JOB, since=BEFORE)

    assert (found.at, found.batch, found.batches, found.lag) == (NOON, 2, 2, 2)
    assert (found.batch_seconds, found.longest_seconds) == (2.5, 4.0)
    assert (found.input_rows, found.input_rate) == (400, 20.0)  # 10 s for each batch


def test_the_history_is_written_only_with_new_batches(store: LocalStore) -> None:
    written = history(store)
    written.add(point(1, NOON))
    written.write(NOON)
    store.delete(JobKeys(JOB).progress("20261124T12", 1))

    written.write(NOON)

    assert keys(store) == []


def test_a_new_epoch_continues_the_history_of_the_last_epoch(store: LocalStore) -> None:
    first, second = history(store, 1), history(store, 2)
    first.add(point(1, NOON))
    first.add(point(2, NOON + timedelta(minutes=1)))
    first.write(NOON)
    second.add(point(3, NOON + timedelta(minutes=1, seconds=40)))

    second.write(NOON)
    second.add(point(4, NOON + timedelta(minutes=2)))
    second.write(NOON)

    assert [(each.batch, each.batches) for each in read_progress(store, JOB, since=BEFORE)] == [(1, 1), (3, 2), (4, 1)]
    assert keys(store) == ["20261124T12-e2.json"]


def test_an_earlier_epoch_stays_until_it_is_taken_over_for_certain(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = history(store, 1), history(store, 2)
    first.add(point(1, NOON))
    first.write(NOON)
    second.add(point(2, NOON))

    def unavailable(_key: str, _data: bytes) -> None:
        raise StorageUnavailableError("no storage")

    with monkeypatch.context() as patched:
        patched.setattr(store, "write", unavailable)
        with pytest.raises(StorageUnavailableError):
            second.write(NOON)
    assert keys(store) == ["20261124T12-e1.json"]
    second.write(NOON)

    assert [(each.batch, each.batches) for each in read_progress(store, JOB, since=BEFORE)] == [(2, 2)]


def test_what_cannot_be_read_is_left_out_and_stays(store: LocalStore) -> None:
    store.write(JobKeys(JOB).progress("20261124T12", 1), b"damaged")
    second = history(store, 2)
    second.add(point(2, NOON))
    second.write(NOON)
    store.write(JobKeys(JOB).progress("20261124T06", 2), b"damaged")

    assert [each.batch for each in read_progress(store, JOB, since=BEFORE)] == [2]
    assert keys(store) == ["20261124T06-e2.json", "20261124T12-e1.json", "20261124T12-e2.json"]


def test_months_of_batches_are_a_bounded_number_of_objects(store: LocalStore) -> None:
    written = history(store)
    periods = 400
    for number in range(periods):
        now = NOON + number * PERIOD
        written.add(point(number, now))
        written.write(now)

    found = read_progress(store, JOB, since=NOON)

    assert found[-1].batch == periods - 1
    assert len(found) == KEPT / PERIOD + 1
    assert len(keys(store)) == KEPT / PERIOD + 1
    assert len(written._points) <= 3  # in memory


def test_other_objects_in_the_folder_are_not_read_as_history(store: LocalStore) -> None:
    store.write(f"{JobKeys(JOB).progress_history}notes.txt", b"of a person")

    assert read_progress(store, JOB, since=BEFORE) == []
