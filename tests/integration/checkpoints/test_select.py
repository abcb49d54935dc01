"""Which checkpoint is chosen when the newest are damaged, and when something cannot be read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.restore.select import Selection, select
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, SetData
from airflow_provider_ha.errors import CheckpointMissingError, ConfigurationError, StorageUnavailableError
from airflow_provider_ha.storage.local_store import LocalStore
from tests.support.checkpoints.checkpoint_helpers import AT, Job, led_job
from tests.support.spark.recorded_job import QUERY, recorded_job


pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator) -> Iterator[Job]:
    """A job with savepoint ``s5`` at batch 5 and checkpoints 1, 2, 3 at batches 7, 8, 9; pins are copies."""
    live = recorded_job() / "live"
    with led_job(config, coordinator) as led:
        led.savepoints.create(led.leadership.commit, led.request("s5", 5), LocalTree(live))
        for number, batch in ((1, 7), (2, 8), (3, 9)):
            pin(live, led.pin_path(number).with_name("linked"), {QUERY: batch})
            shutil.copytree(led.pin_path(number).with_name("linked"), led.pin_path(number))
            shutil.rmtree(led.pin_path(number).with_name("linked"))
            taken = AT + timedelta(minutes=number)
            checkpoint = led.checkpoint(number, batch, batch).model_copy(update={"created_at": taken})
            led.checkpoints.add(led.leadership, checkpoint)
        yield led


def selected(job: Job, start_from: str = "latest", *, fallback: bool = True) -> Selection:
    return select(
        job.checkpoints,
        job.savepoints,
        LinkedWorkArea(job.config.work_path),
        start_from=start_from,
        fallback=fallback,
        spark_version="4.2.0",
    )


def truncate_newest_state(job: Job, number: int, batch: int) -> None:
    for path in (job.pin_path(number) / QUERY / "state" / "0" / "0").glob(f"{batch + 1}_*.zip"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def sources(selection: Selection) -> list[tuple[str, bool]]:
    return [(candidate.source, candidate.accepted) for candidate in selection.candidates]


def test_the_newest_whole_checkpoint_is_chosen(job: Job) -> None:
    selection = selected(job)

    assert sources(selection) == [("checkpoint-3", True)]
    assert (selection.require().name, selection.require().queries[QUERY].batch) == ("checkpoint-3", 9)


def test_damaged_ones_are_passed_over_with_their_file_and_reason(job: Job) -> None:
    truncate_newest_state(job, 3, 9)
    (job.pin_path(2) / QUERY / "offsets" / "8").write_bytes(b"")

    selection = selected(job)

    assert sources(selection) == [("checkpoint-3", False), ("checkpoint-2", False), ("checkpoint-1", True)]
    first, second, _ = selection.candidates
    assert first.file is not None
    assert first.file.startswith(f"{QUERY}/state/0/0/10_")
    assert (second.file, bool(second.reason)) == (f"{QUERY}/offsets/8", True)


def test_without_fallback_nothing_is_chosen_in_place_of_the_wanted_one(job: Job) -> None:
    truncate_newest_state(job, 3, 9)

    selection = selected(job, fallback=False)

    assert (sources(selection), selection.chosen) == ([("checkpoint-3", False)], None)
    with pytest.raises(CheckpointMissingError, match="checkpoint-3: stats/state"):
        selection.require()


def test_a_pointer_that_cannot_be_read_is_a_rejected_candidate(job: Job) -> None:
    job.coordinator.commit(SetData(job.paths.checkpoint(3), b"garbage"))

    assert sources(selected(job)) == [("checkpoint-3", False), ("checkpoint-2", True)]


def test_a_payload_that_is_gone_is_known_bad(job: Job) -> None:
    job.objects.delete(job.keys.payload(3, job.leadership.epoch))

    assert sources(selected(job)) == [("checkpoint-3", False), ("checkpoint-2", True)]


def test_a_file_system_that_is_not_mounted_stops_the_selection(job: Job) -> None:
    pins = job.pin_path(1).parent
    pins.rename(pins.with_name("elsewhere"))

    with pytest.raises(StorageUnavailableError, match="is not there"):
        selected(job)


def test_a_file_that_cannot_be_read_stops_the_selection(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unreadable(LocalStore):
        def read(self, key: str) -> bytes:
            raise StorageUnavailableError(f"{key}: input/output error")

    monkeypatch.setattr(job.objects, "__class__", Unreadable)

    with pytest.raises(StorageUnavailableError):
        selected(job)


def test_after_the_last_checkpoint_come_the_savepoints(job: Job) -> None:
    for number in (1, 2, 3):
        shutil.rmtree(job.pin_path(number))

    selection = selected(job)

    assert [candidate.accepted for candidate in selection.candidates] == [False, False, False, True]
    assert (selection.require().name, selection.require().queries[QUERY].batch) == ("savepoint-s5", 5)


def test_a_checkpoint_that_is_wanted_by_name_is_the_first_candidate(job: Job) -> None:
    assert sources(selected(job, "checkpoint-2")) == [("checkpoint-2", True)]
    assert sources(selected(job, "savepoint-s5")) == [("savepoint-s5", True)]


def before(moment: datetime) -> str:
    return f"before {moment.isoformat()}"


def test_of_what_was_taken_before_a_moment_the_newest_is_chosen(job: Job) -> None:
    savepoint = job.savepoints.pointer("s5").created_at

    assert sources(selected(job, before(AT + timedelta(minutes=3)))) == [("checkpoint-2", True)]
    assert sources(selected(job, before(savepoint))) == [("checkpoint-3", True)]
    assert sources(selected(job, before(savepoint + timedelta(microseconds=1)))) == [("savepoint-s5", True)]


def test_before_a_moment_a_damaged_one_is_passed_over_for_an_older_one(job: Job) -> None:
    truncate_newest_state(job, 2, 8)

    selection = selected(job, before(AT + timedelta(minutes=3)))

    assert sources(selection) == [("checkpoint-2", False), ("checkpoint-1", True)]


def test_a_pointer_that_does_not_tell_when_it_was_taken_is_reported_first(job: Job) -> None:
    job.coordinator.commit(SetData(job.paths.checkpoint(2), b"garbage"))
    wanted = before(AT + timedelta(minutes=3))

    selection = selected(job, wanted)

    assert [accepted for _, accepted in sources(selection)] == [False, True]
    assert sources(selection)[1] == ("checkpoint-1", True)
    assert selected(job, wanted, fallback=False).chosen is None


def test_when_nothing_is_old_enough_the_error_says_so(job: Job) -> None:
    selection = selected(job, "before 2013-01-01T00:00:00+00:00")

    with pytest.raises(CheckpointMissingError, match=r"no savepoint from before 2013-01-01T00:00:00\+00:00"):
        selection.require()


def test_a_savepoint_with_another_digest_is_rejected(job: Job) -> None:
    path = job.savepoints.directory("s5") / QUERY / "metadata"
    path.write_text(path.read_text().replace("-", "+", 1))

    selection = selected(job, "savepoint-s5")

    assert selection.candidates[0].file == f"{QUERY}/metadata"
    assert "digest" in selection.candidates[0].reason


@pytest.mark.parametrize(
    ("start_from", "error"),
    [
        ("checkpoint-9", CheckpointMissingError),
        ("savepoint-none", CheckpointMissingError),
        ("newest", ConfigurationError),
    ],
)
def test_what_is_not_there_is_an_error(job: Job, start_from: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        selected(job, start_from)
