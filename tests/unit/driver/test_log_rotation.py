"""Log of a driver and history of its batches, also when writes fail."""

from __future__ import annotations

import errno
import logging
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.driver.checkpointing.progress import ProgressRecorder
from airflow_provider_ha.driver.figures import QueryTrigger
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.host import process_tree
from airflow_provider_ha.host.process_tree import LogRotation
from airflow_provider_ha.jobs.progress_history import ProgressHistory, read_progress
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.fake.clock import VirtualClock


SIZE = 1000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "driver.log"


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """No byte can be copied: the disk is full."""

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(process_tree, "_catch_up", full)


@pytest.fixture
def writer(log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes numbered lines to a descriptor that it has inherited, as a JVM does."""
    code = "import os\nfor n in range(10**9): os.write(1, b'%09d %s\\n' % (n, b'x' * 90))"
    with log.open("ab") as output:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=output)
    yield process
    process.kill()
    process.wait()


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def files(log: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in log.parent.iterdir()}


def test_a_log_that_is_large_enough_is_kept_beside_and_begins_anew(log: Path) -> None:
    append(log, "a" * SIZE)

    LogRotation(log, size=SIZE, files=3).look()

    assert files(log) == {"driver.log": "", "driver.log.1": "a" * SIZE}


def test_a_smaller_log_is_left_alone(log: Path) -> None:
    append(log, "a" * (SIZE - 1))

    LogRotation(log, size=SIZE, files=3).look()

    assert files(log) == {"driver.log": "a" * (SIZE - 1)}


def test_no_more_files_are_kept_than_asked_for(log: Path) -> None:
    rotation = LogRotation(log, size=SIZE, files=3)

    for letter in "abcd":
        append(log, letter * SIZE)
        rotation.look()

    assert files(log) == {"driver.log": "", "driver.log.1": "d" * SIZE, "driver.log.2": "c" * SIZE}


def test_one_file_keeps_its_own_end(log: Path) -> None:
    append(log, "old\n" * SIZE + "newest\n")

    LogRotation(log, size=SIZE, files=1).look()

    assert files(log).keys() == {"driver.log"}
    assert log.stat().st_size < SIZE
    assert log.read_text().endswith("newest\n")


@pytest.mark.usefixtures("no_room")
def test_a_log_that_cannot_be_kept_is_cut_all_the_same(log: Path) -> None:
    """Else it fills the disk, and a full disk ends the driver."""
    append(log, "old line\n" * SIZE + "newest\n")

    LogRotation(log, size=SIZE, files=3).look()

    note, *_, last = log.read_text().splitlines()
    assert note.startswith("spark-ha: ")
    assert "bytes of this log were removed" in note
    assert last == "newest"
    assert log.stat().st_size <= SIZE // 4 + len(note)


@pytest.mark.usefixtures("no_room")
def test_what_was_kept_before_stays_when_there_is_no_room(log: Path) -> None:
    (log.parent / "driver.log.1").write_text("kept")
    append(log, "old line\n" * SIZE)

    LogRotation(log, size=SIZE, files=3).look()

    assert files(log).keys() == {"driver.log", "driver.log.1"}
    assert files(log)["driver.log.1"] == "kept"


def test_kept_files_are_for_their_owner_only(log: Path) -> None:
    append(log, "a" * SIZE)

    LogRotation(log, size=SIZE, files=3).look()

    assert stat.S_IMODE((log.parent / "driver.log.1").stat().st_mode) == 0o600


def test_what_is_written_while_the_log_is_copied_is_kept_as_well(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catch_up, late = process_tree._catch_up, iter(["during\n", "later\n"])

    def copy_slowly(*files: Any) -> None:
        catch_up(*files)
        append(log, next(late, ""))

    monkeypatch.setattr(process_tree, "_catch_up", copy_slowly)
    append(log, "first\n")

    LogRotation(log, size=1, files=3).look()

    assert files(log) == {"driver.log": "", "driver.log.1": "first\nduring\nlater\n"}


def test_a_writer_goes_on_over_rotations_and_no_line_is_kept_twice(
    log: Path, writer: subprocess.Popen[bytes], tell: Any
) -> None:
    rotation = LogRotation(log, size=200_000, files=1000)

    for number in range(1, 6):
        wait_until(lambda: log.stat().st_size > 200_000, timeout=30, what="a full log")
        rotation.look()
        assert (log.parent / f"driver.log.{number}").exists()
    wait_until(lambda: log.stat().st_size > 0, timeout=30, what="a line after the last rotation")
    assert writer.poll() is None
    writer.kill()
    writer.wait()

    kept = b"".join((log.parent / f"driver.log.{number}").read_bytes() for number in range(5, 0, -1))
    lines = (kept + log.read_bytes()).splitlines()
    numbers = [int(line[:9]) for line in lines if len(line) == 100]
    assert numbers == sorted(set(numbers))
    lost = numbers[-1] + 1 - len(numbers)
    tell(f"{lost} of {numbers[-1] + 1} lines were lost in 5 rotations under a writer at full speed")


def test_a_log_that_is_gone_does_not_end_the_look_out(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tree, "LOOK_SECONDS", 0.01)
    LogRotation(log, size=SIZE, files=3).start()

    append(log, "a" * SIZE)

    wait_until(lambda: (log.parent / "driver.log.1").exists(), timeout=10, what="the rotation")


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
