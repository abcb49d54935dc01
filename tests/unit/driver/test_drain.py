"""Drain: batches it gives to functions, and the removal of what it leaves."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.sinks.file_sink import FileSink
from airflow_provider_ha.checkpoints.sinks.file_sink_log import FileSinkLog
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.ending.run_end import DriverEnd
from airflow_provider_ha.driver.ending.stop_job import DrainFork, DrainStarter, NonEmptyBatchFunction, _drained
from airflow_provider_ha.driver.queries.resting_queries import RestingQuery, undo_drain, undo_drains
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec, notes
from airflow_provider_ha.errors import ApplicationRefusedError, OperationFailedError, RestoreRefusedError
from airflow_provider_ha.jobs.model import DrainedQuery
from tests.support.checkpoints.portable_helpers import checkpoint
from tests.support.checkpoints.writer_helpers import writer_of
from tests.support.spark.started_queries import Rows


def fork(root: Path) -> DrainFork:
    """A fork on this host."""
    return DrainFork(LocalTree(root), root.as_uri())


@pytest.mark.parametrize(("rows", "called"), [(0, False), (3, True)])
def test_a_function_is_called_only_when_there_are_rows(rows: int, called: bool) -> None:
    given: list[tuple[Any, int]] = []
    batch = Rows(rows)
    withheld = NonEmptyBatchFunction(lambda frame, batch_id: given.append((frame, batch_id)))

    withheld(batch, 7)

    assert withheld.called is called
    assert given == ([(batch, 7)] if called else [])
    assert not batch.kept


def test_a_script_that_starts_its_query_again_and_again_is_over_once_that_is_drained(tmp_path: Path) -> None:
    ended = SimpleNamespace(awaitTermination=lambda: None)
    calls = SimpleNamespace(set_format=lambda *_: None, trigger=lambda *_, **__: None, start=lambda *_: ended)
    starter = DrainStarter(fork(tmp_path), calls)  # type: ignore[arg-type]
    writer = writer_of("q", tmp_path)
    assert starter.start(writer, None) is ended

    with pytest.raises(SystemExit):
        starter.start(writer, None)


def test_last_batch_of_a_file_sink_is_named_with_the_digest_of_its_entry(tmp_path: Path) -> None:
    entry = tmp_path / "_spark_metadata" / "7"
    entry.parent.mkdir()
    entry.write_bytes(b"v1")

    drained = _drained(7, SinkSpec(kind=SinkKind.FILE, source="json", path=str(tmp_path)), StorageAccess(), wrote=True)

    digest = hashlib.sha256(b"v1").hexdigest()
    assert drained == DrainedQuery(batch=7, sink_path=str(tmp_path), sink_entry_sha256=digest)


def test_last_batch_of_another_sink_says_whether_it_wrote() -> None:
    drained = _drained(7, SinkSpec(kind=SinkKind.OTHER, source="kafka"), StorageAccess(), wrote=True)

    assert drained == DrainedQuery(batch=7, wrote=True)


def test_fork_of_a_drain_is_still_there_when_the_result_is_written(tmp_path: Path) -> None:
    """A driver that dies in between leaves a batch in the sinks that only the fork tells from an ordinary one."""
    ending_of(lambda: None).drain(fork(tmp_path))

    assert tmp_path.is_dir()


def ending_of(script: Callable[[], None], component: Any = None) -> DriverEnd:
    parts = SimpleNamespace(
        calls=None,
        patches=SimpleNamespace(),
        script=SimpleNamespace(run=script),
        component=component,
        origin=SimpleNamespace(reach=StorageAccess()),
    )
    return DriverEnd(spec=None, led=None, way_out=None, parts=parts)  # type: ignore[arg-type]


def test_the_gate_lets_the_fork_through_before_the_script_runs_again(tmp_path: Path) -> None:
    events: list[str] = []
    component = SimpleNamespace(move_to=events.append)

    ending_of(lambda: events.append("script"), component).drain(fork(tmp_path))

    assert events == [tmp_path.as_uri(), "script"]


def test_a_session_with_another_manager_is_not_drained(tmp_path: Path) -> None:
    def refuse(_: object) -> None:
        raise ApplicationRefusedError("it would run without the fence")

    calls: Any = SimpleNamespace(start=lambda *_: pytest.fail("it was started"))
    component: Any = SimpleNamespace(check_session=refuse)

    with pytest.raises(ApplicationRefusedError, match="without the fence"):
        DrainStarter(fork(tmp_path), calls, component).start(writer_of("q", tmp_path), None)


def drain(root: Path, sink: str, *, commits: bool = True) -> DrainStarter:
    """Drain one query that has batch 3 planned in the fork; Spark commits it, or does not."""
    directory = checkpoint(root / "q")
    (directory / "offsets" / "3").write_text((directory / "offsets" / "2").read_text())
    given: list[Any] = []

    def start(writer: Any, _: str | None) -> Any:
        if commits:
            (directory / "commits" / "3").write_text((directory / "commits" / "2").read_text())
        for function in given:
            function(Rows(0), 3)
        return SimpleNamespace(awaitTermination=lambda: None)

    calls: Any = SimpleNamespace(
        set_format=lambda *_: None,
        trigger=lambda *_, **__: None,
        begin=start,
        foreach_batch=lambda _, function: given.append(function),
    )
    starter = DrainStarter(fork(root), calls)
    writer = writer_of("q", root)
    notes(writer).sink = sink
    notes(writer).function = lambda *_: pytest.fail("it is given no empty batch")
    starter.start(writer, None)
    return starter


@pytest.mark.parametrize(("sink", "wrote"), [("noop", True), ("foreachBatch", False)])
def test_a_query_is_drained_with_its_planned_batch_and_an_empty_one_is_withheld_from_a_function(
    tmp_path: Path, sink: str, wrote: bool
) -> None:
    drained = drain(tmp_path, sink).drained["q"]

    assert (drained.batch, drained.wrote) == (3, wrote)


def test_a_drain_that_did_not_execute_its_batch_is_none(tmp_path: Path) -> None:
    with pytest.raises(OperationFailedError, match=r"drain of query 'q' ended at .* instead of batch 3"):
        drain(tmp_path, "noop", commits=False)


def stands_at(directory: Path, planned: int) -> None:
    (directory / "offsets").mkdir(parents=True)
    for batch in range(planned + 1):
        (directory / "offsets" / str(batch)).touch()


@pytest.mark.parametrize(("planned", "left"), [(2, 2), (3, 3)], ids=["of-the-drain", "of-an-ordinary-batch"])
def test_only_a_batch_that_was_planned_in_the_drain_alone_is_set_aside(tmp_path: Path, planned: int, left: int) -> None:
    origin = after_a_drain(tmp_path, planned)

    undo_drain(origin, "q", FileSink(str(tmp_path / "out")))

    assert FileSinkLog(tmp_path / "out").max_batch() == left


def test_it_is_taken_back_for_queries_that_the_script_has_not_started_yet(tmp_path: Path) -> None:
    """A stop that comes first would drain into a sink that has the batch already."""
    origin = after_a_drain(tmp_path, planned=2)

    sink = QuerySink(kind=SinkKind.FILE, path=str(tmp_path / "out"))
    undo_drains(origin, [RestingQuery("q", LocalTree(tmp_path / "e2" / "q"), sink)])

    assert FileSinkLog(tmp_path / "out").max_batch() == 2


def after_a_drain(tmp_path: Path, planned: int) -> Origin:
    """Return the origin of an epoch that stands at *planned*, after a drain whose batch 3 is in the sink."""
    stands_at(tmp_path / "e2" / "q", planned)
    stands_at(tmp_path / "e1.drain" / "q", 3)
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for batch in range(4):
        (log / str(batch)).write_text("v1")

    return Origin(OriginKind.RECOVERY, "e2", LocalTree(tmp_path / "e2"), drain=LocalTree(tmp_path / "e1.drain"))


@pytest.mark.parametrize("dead", [True, False])
def test_on_storage_without_renames_it_is_taken_back_when_the_driver_that_wrote_it_is_dead(
    tmp_path: Path, dead: bool
) -> None:
    """A request that is on its way would write the entry again, and the next driver skip its own batch."""

    class Stored(FileSink):
        needs_proof = True

    origin = replace(after_a_drain(tmp_path, planned=2), writers_dead=dead)

    with nullcontext() if dead else pytest.raises(RestoreRefusedError, match="not proven dead"):
        undo_drain(origin, "q", Stored(str(tmp_path / "out")))

    assert FileSinkLog(tmp_path / "out").max_batch() == (2 if dead else 3)
