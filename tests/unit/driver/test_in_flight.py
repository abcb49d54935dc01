"""What a recovery executes again is judged by the rules of a restore, before anything is forked."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.working_records import StartedQueries, StartedQueryRecord, write_started
from airflow_provider_ha.checkpoints.model import QuerySink, QuerySources, SinkKind
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.sources.kafka_offsets import PartitionOffsets
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.driver.checkpointing.in_flight import IGNORE_MISSING, InFlightBatches, InFlightJudge
from airflow_provider_ha.errors import DecisionNeededError, HaError, RestoreRefusedError, RestoreUnknownError
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, JobGraph
from airflow_provider_ha.jobs.model import Generation, Run, StartKind, StartPoint
from airflow_provider_ha.jobs.runs.submissions import Failure
from tests.support.checkpoints.portable_helpers import QUERY, changed_at, checkpoint, reading_files


NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
IN_FLIGHT = 2


class LostTopic:
    """A lost directory of a query that has read a topic up to offset 1; batch 2 goes on to offset 2, if it is planned.

    :param held: What the brokers have of the topic; an error for no answer.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, *, in_flight: bool = True) -> None:
        batches = range(IN_FLIGHT + in_flight)
        checkpoint(root / "lost" / QUERY, batches)
        if in_flight:
            (root / "lost" / QUERY / "commits" / str(IN_FLIGHT)).unlink()
        self.tree = LocalTree(root / "lost")
        self.held: PartitionOffsets | HaError | None = PartitionOffsets(0, 9, "old")
        self.asked: list[str] = []
        monkeypatch.setattr("airflow_provider_ha.driver.checkpointing.fallback.held_offsets", self.answer)

    def answer(self, servers: str, topics: frozenset[str], **_: object) -> dict[tuple[str, int], PartitionOffsets]:
        self.asked.append(servers)
        if isinstance(self.held, HaError):
            raise self.held
        return {} if self.held is None else {("topic", 0): self.held}

    def judge(self, *, accepted: bool = False, **noted: Any) -> InFlightBatches:
        sources = QuerySources(**{"brokers": "kafka:9092", "topics": {"topic": "old"}, **noted})
        before = StartedQueryRecord(name=QUERY, sink=QuerySink(kind=SinkKind.FOREACH_BATCH), sources=sources)
        write_started(self.tree, StartedQueries(queries=(before,)))
        return judge(self.tree, accepted=accepted)


class Lost:
    """A lost directory whose batch 2 is planned and not committed; each batch has read a file."""

    def __init__(self, root: Path) -> None:
        self.inputs = [root / "in" / f"{number}.json" for number in range(IN_FLIGHT + 1)]
        for path in self.inputs:
            path.parent.mkdir(exist_ok=True)
            path.write_text("{}")
        read = [(path.as_uri(), changed_at(path)) for path in self.inputs]
        (root / "lost").mkdir()
        reading_files(root / "lost" / QUERY, read)
        (root / "lost" / QUERY / "commits" / str(IN_FLIGHT)).unlink()
        self.tree, self.log = LocalTree(root / "lost"), root / "out" / LOG

    def with_output(self, *batches: int) -> None:
        """Let the query write to a file sink that has some batches."""
        self.log.mkdir(parents=True)
        for batch in batches:
            line = json.dumps({"path": f"{batch}", "size": 0, "isDir": True})
            (self.log / str(batch)).write_text(f"v1\n{line}")
        sink = QuerySink(kind=SinkKind.FILE, format="json", path=str(self.log.parent))
        write_started(self.tree, StartedQueries(queries=(StartedQueryRecord(name=QUERY, sink=sink),)))

    def judge(
        self, *, accepted: bool = False, before: dict[str, int] | None = None, ignore: str = ""
    ) -> InFlightBatches:
        return judge(self.tree, accepted=accepted, before=before, ignore=ignore)


def judge(
    tree: LocalTree,
    *,
    accepted: bool = False,
    before: dict[str, int] | None = None,
    ignore: str = "",
    misfit: Failure | None = None,
) -> InFlightBatches:
    blob = Blob(sha256="0" * 64, size=1)
    run = Run(number=1, graph=blob, start=StartPoint(kind=StartKind.FRESH), request_id="r", created_at=NOW)
    graph = JobGraph(
        job_id="orders",
        name="orders",
        application=Artifact(name="app.py", blob=blob),
        conf={IGNORE_MISSING: ignore} if ignore else {},
    )
    previous = Generation(run=1, epoch=1, directory="live/e1", lossy=before or {})
    return InFlightJudge(run, graph, StorageAccess(), accepted, misfit=misfit).judge(tree, previous)


@pytest.fixture
def lost(tmp_path: Path) -> Lost:
    return Lost(tmp_path)


def test_a_batch_in_flight_whose_input_is_there_is_no_decision(lost: Lost) -> None:
    assert lost.judge() == InFlightBatches()


def test_input_that_committed_batches_have_read_may_go(lost: Lost) -> None:
    lost.inputs[0].unlink()
    lost.inputs[1].unlink()

    assert lost.judge() == InFlightBatches()


@pytest.mark.parametrize("word", ["gone", "replaced"])
def test_a_batch_in_flight_whose_input_is_not_what_it_was_waits_for_its_user(lost: Lost, word: str) -> None:
    if word == "gone":
        lost.inputs[IN_FLIGHT].unlink()
    else:
        os.utime(lost.inputs[IN_FLIGHT], (1, 1))

    with pytest.raises(DecisionNeededError, match=word) as caught:
        lost.judge()

    assert str(lost.inputs[IN_FLIGHT]) in caught.value.message
    assert "--if-lost recover --accept-verdicts LOSS_POSSIBLE" in caught.value.next_step


def test_what_is_accepted_once_goes_on_with_each_attempt_at_that_batch_and_no_other(lost: Lost) -> None:
    lost.inputs[IN_FLIGHT].unlink()

    first = lost.judge(accepted=True)

    assert first.lossy == {QUERY: IN_FLIGHT}
    assert f"batch {IN_FLIGHT} of {QUERY}" in first.message
    assert lost.judge(before=dict(first.lossy)).lossy == first.lossy
    with pytest.raises(DecisionNeededError):
        lost.judge(before={QUERY: IN_FLIGHT - 1})


def test_the_conf_of_the_job_is_a_consent(lost: Lost) -> None:
    lost.inputs[IN_FLIGHT].unlink()

    assert lost.judge(ignore="true").lossy == {QUERY: IN_FLIGHT}
    with pytest.raises(DecisionNeededError):
        lost.judge(ignore="false")


def test_an_output_whose_log_is_whole_is_no_decision(lost: Lost) -> None:
    lost.with_output(0, 1)

    assert lost.judge() == InFlightBatches()


@pytest.mark.parametrize("batches", [(0,), (1,), (0, 2)], ids=["behind", "without its beginning", "with a hole"])
def test_an_output_whose_log_is_not_whole_waits_for_its_user_whatever_is_accepted(
    lost: Lost, batches: tuple[int, ...]
) -> None:
    lost.with_output(*batches)

    with pytest.raises(DecisionNeededError, match="file sink"):
        lost.judge(accepted=True)


@pytest.mark.parametrize("in_flight", [True, False], ids=["in flight", "at rest"])
@pytest.mark.parametrize(
    ("held", "word"),
    [
        (PartitionOffsets(0, 9, "new"), "recreated"),
        (None, "is gone"),
        (PartitionOffsets(0, 0, "old"), "before the offsets"),
        (PartitionOffsets(5, 9, "old"), "removed by retention"),
    ],
    ids=["of another id", "gone", "shorter", "expired"],
)
def test_a_topic_that_is_not_what_it_was_waits_for_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: PartitionOffsets | None, word: str, in_flight: bool
) -> None:
    lost = LostTopic(tmp_path, monkeypatch, in_flight=in_flight)
    lost.held = held

    with pytest.raises(DecisionNeededError, match=word) as caught:
        lost.judge()

    assert "--if-lost recover --accept-verdicts LOSS_POSSIBLE" in caught.value.next_step
    assert lost.asked == ["kafka:9092"]
    assert lost.judge(accepted=True).lossy == {QUERY: IN_FLIGHT if in_flight else IN_FLIGHT - 1}


def test_a_topic_that_is_what_it_was_is_no_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LostTopic(tmp_path, monkeypatch).judge() == InFlightBatches()


def test_brokers_that_do_not_answer_decide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = LostTopic(tmp_path, monkeypatch)
    lost.held = RestoreUnknownError("no answer")

    assert lost.judge() == InFlightBatches()
    assert lost.judge(brokers="") == InFlightBatches()


def test_a_reader_that_lets_rows_go_has_consented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = LostTopic(tmp_path, monkeypatch)
    lost.held = PartitionOffsets(5, 9, "old")

    assert lost.judge(tolerant=("0",)).lossy == {QUERY: IN_FLIGHT}
    with pytest.raises(DecisionNeededError):
        lost.judge(tolerant=("1",))


def test_missing_files_that_a_job_ignores_consent_to_no_loss_of_a_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = LostTopic(tmp_path, monkeypatch)
    lost.held = PartitionOffsets(0, 9, "new")
    with pytest.raises(DecisionNeededError):
        lost.judge()

    with pytest.raises(DecisionNeededError):
        judge(lost.tree, ignore="true")


@pytest.mark.parametrize(
    ("offset", "is_lost"),
    [
        ({"reservoirId": "any", "reservoirVersion": 3, "index": -1, "isStartingVersion": False}, True),
        ({"version": 1, "snapshot_id": 8, "position": 1, "scan_all_files": False}, True),
        (7, False),  # a socket: what no batch has read is gone with every driver
    ],
    ids=["delta", "iceberg", "socket"],
)
def test_a_table_that_is_gone_waits_for_its_user(tmp_path: Path, offset: object, is_lost: bool) -> None:
    directory = checkpoint(tmp_path / "lost" / QUERY, range(2))
    for entry in directory.glob("offsets/[0-9]*"):
        first, second, _ = entry.read_text().split("\n")[:3]
        entry.write_text(f"{first}\n{second}\n{json.dumps(offset)}")
    sources = QuerySources(tables={"0": str(tmp_path / "nothing")})
    before = StartedQueryRecord(name=QUERY, sink=QuerySink(kind=SinkKind.OTHER), sources=sources)
    tree = LocalTree(tmp_path / "lost")
    write_started(tree, StartedQueries(queries=(before,)))

    if not is_lost:
        assert judge(tree) == InFlightBatches()
        return
    with pytest.raises(DecisionNeededError, match=r"table .* is gone"):
        judge(tree)


def test_rows_of_a_socket_that_the_batch_in_flight_has_read_are_gone(tmp_path: Path) -> None:
    directory = checkpoint(tmp_path / "lost" / QUERY, range(2))
    for number in range(2):
        entry = directory / "offsets" / str(number)
        first, second, _ = entry.read_text().split("\n")[:3]
        entry.write_text(f"{first}\n{second}\n{10 * number}")
    (directory / "commits" / "1").unlink()

    with pytest.raises(DecisionNeededError, match="socket"):
        judge(LocalTree(tmp_path / "lost"))


def test_a_run_whose_query_reads_another_source_ends_and_waits_for_no_input(tmp_path: Path) -> None:
    """Spark has refused the checkpoint for it: what is missing is not what keeps the run from going on."""
    lost = Lost(tmp_path)
    lost.inputs[IN_FLIGHT].unlink()
    misfit = Failure(error_class="DeltaException", message="another table", query=QUERY, misfit="Run 1 wrote it.")

    with pytest.raises(RestoreRefusedError, match=r"DeltaException: another table, and .*2\.json") as caught:
        judge(lost.tree, misfit=misfit)

    assert caught.value.next_step == "Run 1 wrote it."


def test_a_run_that_has_what_it_reads_is_spark_s_to_refuse_again(tmp_path: Path) -> None:
    assert judge(Lost(tmp_path).tree, misfit=Failure(misfit="Run 1 wrote it.")) == InFlightBatches()
