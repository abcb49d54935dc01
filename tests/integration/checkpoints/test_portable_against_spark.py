"""What Spark says to savepoints that were taken while it ran, packed, moved and restored."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import fork
from airflow_provider_ha.checkpoints.areas.pins import sink_directory
from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.sinks.file_sink_log import FileSinkLog
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.store.savepoints.archive import export, unpack
from airflow_provider_ha.checkpoints.store.savepoints.creation import take
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import DirectoryLayout, SavepointDirectory
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import judge
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import restore
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark import running_queries, tws_job


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
SAVEPOINTS = 5


def goes_beyond(checkpoint: Path, batch: int) -> bool:
    return progress(LocalTree(checkpoint)).committed > batch


@pytest.mark.hours
def test_savepoints_of_running_queries_are_whole_and_exact(tmp_path: Path) -> None:
    made: dict[Path, Savepoint] = {}
    with running_queries.running(tmp_path) as place:
        for number in range(SAVEPOINTS):
            before = max((part.queries["down"].batch for part in made.values()), default=5)
            wait_until(
                partial(goes_beyond, place / "live" / "down", before),
                timeout=300,
                what=f"a batch after {before}",
            )
            target = tmp_path / f"sp{number}"
            sources = [
                SavepointSource(query="down", directory=place / "live" / "down"),
                SavepointSource(query="up", directory=place / "live" / "up", sink=place / "out"),
            ]
            made[target] = take(sources, DirectoryLayout(target, link=number % 2 == 1))

    for target, savepoint in made.items():
        assert judge(SavepointDirectory(target, savepoint), depth="full").restorable is True
        assert savepoint.shares_inodes is (target.name in {"sp1", "sp3"})
        assert read_by_down(target) <= written_by_up(target, savepoint)
        restore(SavepointDirectory(target, savepoint), tmp_path / f"from-{target.name}")
    first, last = (tmp_path / f"from-sp{number}" / "down" for number in (0, SAVEPOINTS - 1))
    assert running_queries.finish([first, last], tmp_path) == [running_queries.truth(tmp_path / "out")] * 2


def read_by_down(savepoint: Path) -> set[str]:
    """Return the files that are in the source log of ``down``: all that it has read by the cut."""
    entries = (savepoint / "down" / "sources" / "0").iterdir()
    lines = [line for entry in entries if entry.name[0] != "." for line in entry.read_text().splitlines()[1:]]
    return {line.split('"path":"')[1].split('"')[0].removeprefix("file://") for line in lines if line}


def written_by_up(savepoint: Path, manifest: Savepoint) -> set[str]:
    log = FileSinkLog(sink_directory(savepoint, "up"))
    return running_queries.written(log, log.closure_names(manifest.queries["up"].batch))


@pytest.mark.hours
def test_a_query_that_names_its_own_files_starts_at_another_place(tmp_path: Path) -> None:
    """transformWithState: without the rewriting of its schema paths Spark looks for them where they were."""
    live = tws_job.make(tmp_path)
    savepoint = take([SavepointSource(query=tws_job.QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"))
    export(tmp_path / "sp", savepoint, tmp_path / "sp.tar.zst")
    shutil.rmtree(tmp_path / "live")
    shutil.rmtree(tmp_path / "sp")
    moved = tmp_path / "another place" / "sp"
    moved.parent.mkdir()
    unpack(tmp_path / "sp.tar.zst", moved)
    as_it_is = Path(shutil.copytree(moved / tws_job.QUERY, tmp_path / "as-it-is"))
    restored = [tmp_path / "another place" / "once", tmp_path / "another place" / "twice"]
    for target in restored:
        restore(SavepointDirectory(moved, savepoint), target)
    fork(moved / tws_job.QUERY, tmp_path / "forked", keep_planned=False)

    starts = [as_it_is, *(target / tws_job.QUERY for target in restored), tmp_path / "forked"]
    answers = tws_job.go_on(starts, tmp_path / "input", tmp_path)

    assert "_stateSchema" in answers[0]["error"]
    assert answers[1:] == [{"error": None, "counts": tws_job.truth()}] * 3
    assert judge(SavepointDirectory(moved, savepoint), depth="full").restorable is True
