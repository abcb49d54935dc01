"""``spark-ha storage clean`` and a driver's turn of it: with which right, and what stops it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.store.working_directories import INTERVAL, WorkingFilesCollector
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, SetData
from airflow_provider_ha.coordination.reader_leases import hold
from airflow_provider_ha.errors import (
    CheckpointError,
    ConfigurationError,
    FencedError,
    JobStateError,
    RecordCorruptError,
)
from airflow_provider_ha.jobs.model import Generation
from airflow_provider_ha.jobs.removal import cleanup as collecting
from airflow_provider_ha.jobs.removal.cleanup import collect_job
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.checkpoints.collected import FIRST, SECOND, World
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.coordination_helpers import lead
from tests.support.clusters.jobs_helpers import a_leader
from tests.support.spark.recorded_job import QUERY


# The cached job is made by Spark when it is not there yet.
pytestmark = pytest.mark.timeout(300)

YES, UNKNOWN = 0, 2
LATE = f"{FIRST}/{QUERY}/state/0/0/20_late.zip"
UNNAMED = f"{FIRST}/{QUERY}/state/0/1/21_late.zip"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = World(tmp_path_factory.mktemp("made") / "storage")
    made.execute(3)
    made.take_over(SECOND)
    for key in (LATE, UNNAMED):
        made.files.write(key, b"of a zombie")
    made.remove_others()
    made.pass_time()
    return made.root


@pytest.fixture
def world(made: Path, config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> World:
    """An area with a directory that is over and holds two files of a zombie, and the current one."""
    shutil.copytree(made, config.work_path, dirs_exist_ok=True)
    world = World(config.work_path)
    world.current = SECOND
    monkeypatch.setattr(collecting, "open_files", lambda _: world.files)
    return world


@pytest.fixture
def job(world: World, config: HaConfig, coordinator: Coordinator) -> Iterator[Job]:
    """The job that works there, led by this process as epoch 1."""
    del world
    with led_job(config, coordinator) as made:
        current = Generation(run=1, epoch=1, directory=SECOND)
        coordinator.commit(Create(made.paths.generation, current.to_bytes()))
        yield made


def there(world: World) -> list[str]:
    return [file.key for file in world.files.list("")]


def run(config: HaConfig, *words: str) -> tuple[int, str, str]:
    arguments = ["--zookeeper", config.zookeeper, "--storage-root", config.storage_root]
    arguments += ["--cluster-id", config.cluster_id, "storage", "clean", *words]
    done = CliRunner().invoke(app, arguments, obj=ClusterTarget())
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def test_a_dry_run_says_how_much_is_needless_and_changes_nothing(world: World, job: Job) -> None:
    before = there(world)

    code, out, _ = run(job.config, "--dry-run", "--json")

    (row,) = json.loads(out)["files"]
    assert (code, row["directories"], row["removed"], there(world)) == (YES, 2, 0, before)
    assert row["by_reason"] == {"over": row["needless"]}
    assert row["needless"] >= 2


def test_needless_files_go_beside_a_leader_under_its_epoch(world: World, job: Job) -> None:
    code, out, _ = run(job.config, "--yes")

    assert (code, "flights" in out) == (YES, True)
    assert not {LATE, UNNAMED}.intersection(there(world))
    world.check()


def test_without_a_leader_the_lock_is_held_and_given_back(world: World, job: Job) -> None:
    job.leadership.release()

    code, _, _ = run(job.config, "flights", "--yes")

    assert code == YES
    assert not {LATE, UNNAMED}.intersection(there(world))
    assert job.coordinator.find(job.paths.leader) is None
    world.check()


def collect(job: Job, on_search: Callable[[], None] | None = None) -> None:
    """Collect the files of the job; *on_search* is called once in the middle of the search."""
    made = helpers.context(job.config, job.coordinator)
    waiting = [on_search] if on_search is not None else []

    def progress(what: str, _: int, __: int) -> None:
        if what == "searching" and waiting:
            waiting.pop()()

    collect_job(made, dry_run=False, progress=progress)


def test_a_takeover_between_the_search_and_the_removal_keeps_every_file(world: World, job: Job) -> None:
    before = there(world)

    def take_over() -> None:
        job.leadership.release()
        lead(job.config, job.coordinator)

    with pytest.raises(FencedError, match="another leader than epoch 1"):
        collect(job, take_over)

    assert there(world) == before


def test_a_job_that_was_led_between_the_search_and_the_lock_keeps_every_file(world: World, job: Job) -> None:
    before = there(world)
    job.leadership.release()

    def be_led() -> None:
        lead(job.config, job.coordinator).release()

    with pytest.raises(FencedError):
        collect(job, be_led)

    assert there(world) == before


def test_a_leader_that_has_no_directory_yet_is_left_alone(world: World, job: Job) -> None:
    before = there(world)
    job.leadership.release()
    lead(job.config, job.coordinator, describe=lambda epoch: a_leader(epoch).to_bytes())

    with pytest.raises(JobStateError, match="epoch 2 of job 'flights' has no working directory yet"):
        collect(job)

    assert there(world) == before


def test_a_checkpoint_that_cannot_be_read_stops_its_job_and_is_reported(world: World, job: Job) -> None:
    job.checkpoints.add(job.leadership, job.checkpoint(1, 3, pin=False))
    job.coordinator.commit(SetData(job.paths.checkpoint(1), b"garbled"))
    before = there(world)

    code, _, err = run(job.config, "--yes")

    assert (code, there(world)) == (UNKNOWN, before)
    assert "flights: checkpoint" in err


def test_a_checkpoint_without_a_directory_of_its_own_keeps_what_it_was_taken_from(world: World, job: Job) -> None:
    world.cuts = {FIRST: {QUERY: {2}}}
    job.checkpoints.add(job.leadership, job.checkpoint(1, 2, pin=False))

    run(job.config, "--yes")

    world.check()
    assert LATE in there(world)  # its directory is retained, so it is not over


def test_a_checkpoint_that_is_read_while_it_waits_for_its_removal_stops_its_job(world: World, job: Job) -> None:
    for number in (1, 2):
        job.checkpoints.add(job.leadership, job.checkpoint(number, 2 + number - 1, pin=False))
    job.checkpoints.subsume(job.leadership, 1)
    hold(job.coordinator, job.paths, "checkpoint-1", holder="reader", clock=SystemClock(), seconds=3600.0)
    before = there(world)

    with pytest.raises(CheckpointError, match="checkpoint-1 of job 'flights' is being read"):
        collect(job)

    assert there(world) == before


def test_a_person_who_collects_notes_what_the_next_takeover_needs(world: World, job: Job) -> None:
    collect(job)

    assert world.files.info(f"{SECOND}/{QUERY}/_ha_needs") is not None


def test_a_work_root_with_links_needs_no_collector(config: HaConfig, coordinator: Coordinator) -> None:
    with led_job(config, coordinator) as job, pytest.raises(ConfigurationError, match="has links"):
        collect(job)


def collector(world: World, job: Job, now: list[float]) -> WorkingFilesCollector:
    return WorkingFilesCollector(job.checkpoints, world.files, lambda: SECOND, lambda: now[0])


def test_a_driver_goes_on_where_its_last_turn_ended(world: World, job: Job) -> None:
    turns, made = 0, collector(world, job, [0.0])

    while not made.collect(job.leadership, lambda: False):
        turns += 1

    assert turns > 3
    assert not {LATE, UNNAMED}.intersection(there(world))
    world.check()


def test_a_driver_notes_what_the_next_takeover_needs(world: World, job: Job) -> None:
    collector(world, job, [0.0]).collect(job.leadership, lambda: True)

    assert world.files.info(f"{SECOND}/{QUERY}/_ha_needs") is not None


def test_a_driver_begins_the_next_pass_an_hour_later(world: World, job: Job) -> None:
    now = [0.0]
    made = collector(world, job, now)
    made.collect(job.leadership, lambda: True)
    for key in (LATE, UNNAMED):
        world.files.write(key, b"of a zombie")
    world.pass_time()

    made.collect(job.leadership, lambda: True)
    early = there(world)
    now[0] = INTERVAL + 1
    made.collect(job.leadership, lambda: True)

    assert (LATE in early, LATE in there(world)) == (True, False)


def test_a_driver_that_was_deposed_removes_nothing(world: World, job: Job) -> None:
    before = there(world)
    job.leadership.release()
    lead(job.config, job.coordinator)

    with pytest.raises(FencedError):
        collector(world, job, [0.0]).collect(job.leadership, lambda: True)

    assert there(world) == before


def test_a_pass_of_a_driver_that_fails_is_begun_again_later(world: World, job: Job) -> None:
    now = [0.0]
    made = collector(world, job, now)
    (world.root / SECOND / QUERY / "_ha_base").rename(world.root / "aside")
    (world.root / SECOND / QUERY / "_ha_base").write_bytes(b"half")
    with pytest.raises((RecordCorruptError, CheckpointError)):
        made.collect(job.leadership, lambda: True)
    (world.root / "aside").replace(world.root / SECOND / QUERY / "_ha_base")

    at_once = made.collect(job.leadership, lambda: True), LATE in there(world)
    now[0] = INTERVAL
    later = made.collect(job.leadership, lambda: True), LATE in there(world)

    assert (at_once, later) == ((True, True), (True, False))
