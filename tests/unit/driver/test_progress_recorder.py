"""The thread that writes the history of the batches harms nothing."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.driver.checkpointing.progress import ProgressRecorder
from airflow_provider_ha.driver.figures import QueryTrigger
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.jobs.progress_history import ProgressHistory, read_progress
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.local_store import LocalStore
from tests.support.fake.clock import VirtualClock


AT = datetime(2026, 11, 24, 12, tzinfo=timezone.utc)


class Switched(LocalStore):
    """A store that can be unavailable."""

    available = True

    def write(self, key: str, data: bytes) -> None:
        if not self.available:
            raise StorageUnavailableError("no storage")
        super().write(key, data)


def trigger(batch: int, *, executed: bool = True) -> QueryTrigger:
    return QueryTrigger(AT, batch, executed, {"triggerExecution": 1.0}, input_rows=10, input_rate=5.0)


def recorder(store: LocalStore) -> ProgressRecorder:
    return ProgressRecorder(ProgressHistory(store, JobKeys("flights"), 1), VirtualClock())


def batches(store: LocalStore) -> list[int]:
    return [point.batch for point in read_progress(store, "flights", since=AT - timedelta(hours=1))]


def test_only_triggers_with_a_batch_are_noted(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    writing = recorder(store)

    writing.note("hourly", trigger(3))
    writing.note("hourly", trigger(4, executed=False))
    writing.write()

    assert batches(store) == [3]


def test_a_store_that_does_not_answer_is_said_once_and_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Switched(tmp_path)
    writing = recorder(store)
    writing.note("hourly", trigger(3))
    store.available = False

    writing.write()
    writing.write()
    store.available = True
    writing.write()

    assert [record.levelno for record in caplog.records].count(logging.WARNING) == 1
    assert batches(store) == [3]


def test_the_end_of_the_job_writes_what_is_new(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    writing = recorder(store)
    writing.start()
    writing.note("hourly", trigger(3))

    writing.stop()

    assert batches(store) == [3]
