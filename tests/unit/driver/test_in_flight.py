"""What a recovery executes again is judged by the rules of a restore, before anything is forked."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.connectors.file_sink_log import LOG
from airflow_provider_ha.checkpoints.connectors.places import Reach
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.working.started_queries import StartedBefore, StartedQueries, write_started
from airflow_provider_ha.driver.in_flight import IGNORE_MISSING, InFlight, InFlightJudge
from airflow_provider_ha.errors import DecisionNeededError
from airflow_provider_ha.jobs.model import Artifact, Blob, Generation, JobGraph, Run, StartKind, StartPoint
from tests.support.checkpoints.portable_helpers import QUERY, changed_at, reading_files


NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
IN_FLIGHT = 2


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
        write_started(self.tree, StartedQueries(queries=(StartedBefore(name=QUERY, sink=sink),)))

    def judge(self, *, accepted: bool = False, before: dict[str, int] | None = None, ignore: str = "") -> InFlight:
        start = StartPoint(kind=StartKind.FRESH)
        blob = Blob(sha256="0" * 64, size=1)
        run = Run(number=1, graph=blob, start=start, request_id="r", created_at=NOW)
        graph = JobGraph(
            job_id="orders",
            name="orders",
            application=Artifact(name="app.py", blob=blob),
            conf={IGNORE_MISSING: ignore} if ignore else {},
        )
        previous = Generation(run=1, epoch=1, directory="live/e1", lossy=before or {})
        return InFlightJudge(run, graph, Reach(), accepted).judge(self.tree, previous)


@pytest.fixture
def lost(tmp_path: Path) -> Lost:
    return Lost(tmp_path)


def test_a_batch_in_flight_whose_input_is_there_is_no_decision(lost: Lost) -> None:
    assert lost.judge() == InFlight()


def test_input_that_committed_batches_have_read_may_go(lost: Lost) -> None:
    lost.inputs[0].unlink()
    lost.inputs[1].unlink()

    assert lost.judge() == InFlight()


@pytest.mark.parametrize("word", ["gone", "replaced"])
def test_a_batch_in_flight_whose_input_is_not_what_it_was_waits_for_its_user(lost: Lost, word: str) -> None:
    if word == "gone":
        lost.inputs[IN_FLIGHT].unlink()
    else:
        os.utime(lost.inputs[IN_FLIGHT], (1, 1))

    with pytest.raises(DecisionNeededError, match=word) as caught:
        lost.judge()

    assert str(lost.inputs[IN_FLIGHT]) in caught.value.message
    assert "--if-lost recover --accept-verdict LOSS_POSSIBLE" in caught.value.next_step


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

    assert lost.judge() == InFlight()


@pytest.mark.parametrize("batches", [(0,), (1,), (0, 2)], ids=["behind", "without its beginning", "with a hole"])
def test_an_output_whose_log_is_not_whole_waits_for_its_user_whatever_is_accepted(
    lost: Lost, batches: tuple[int, ...]
) -> None:
    lost.with_output(*batches)

    with pytest.raises(DecisionNeededError, match="file sink"):
        lost.judge(accepted=True)
