"""Notes about fenced functions: those of earlier epochs go once no checkpoint or savepoint can need them."""

from __future__ import annotations

import pytest

from airflow_provider_ha.config import HaConfig, Retention
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.driver.checkpointing.publish_loop import clear_notes
from airflow_provider_ha.errors import LeadershipLostError
from tests.support.clusters.aged_job import RETAINED_CHECKPOINTS, AgedJob


EPOCHS = 4  # each with one run, which gives its number as the batch and is then checkpointed


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator) -> AgedJob:
    """A job whose drivers remove nothing yet."""
    made = AgedJob(
        config.model_copy(update={"retention": Retention(runs=50, days=1)}), coordinator, led_every=1, cleaning=False
    )
    made.live(EPOCHS)
    made.cleaning = True
    return made


def noted(job: AgedJob) -> list[int]:
    return sorted(job.given("rows").epochs())


def test_the_notes_stay_that_the_oldest_cut_can_need(job: AgedJob) -> None:
    job.live(1)

    lowest = EPOCHS + 2 - RETAINED_CHECKPOINTS
    assert noted(job) == list(range(lowest, EPOCHS + 2))


def test_the_note_of_a_timeline_that_was_given_up_stays(job: AgedJob) -> None:
    job.given("rows").begin(1, 1_000)

    job.live(1)

    assert noted(job)[:2] == [1, EPOCHS + 2 - RETAINED_CHECKPOINTS]


def test_every_note_stays_while_a_savepoint_cannot_be_read(job: AgedJob) -> None:
    job.coordinator.commit(Create(job.paths.savepoint("broken"), b"garbage"))

    job.live(1)

    assert noted(job) == list(range(1, EPOCHS + 2))


def test_a_note_that_cannot_be_read_keeps_the_others(job: AgedJob, caplog: pytest.LogCaptureFixture) -> None:
    job.area.tree(job.keys.given("rows")).write("e1.json", b"garbage")

    job.live(1)

    assert len(list((job.config.work_path / job.keys.given("rows")).iterdir())) == EPOCHS + 1
    assert "the notes about query rows stay" in caplog.text


def test_a_leader_that_was_deposed_removes_no_note(job: AgedJob) -> None:
    with pytest.raises(LeadershipLostError):
        list(clear_notes(_Floor({"rows": EPOCHS}), _Deposed(), job.given))  # type: ignore[arg-type]

    assert noted(job) == list(range(1, EPOCHS + 1))


class _Floor:
    def __init__(self, floor: dict[str, int]) -> None:
        self._floor = floor

    def floor(self) -> dict[str, int]:
        return self._floor


class _Deposed:
    epoch = EPOCHS + 1

    def prove(self) -> None:
        raise LeadershipLostError("another process leads")
