"""The ids of topics are asked for beside the checkpoints, and not again and again."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.model import BatchEntry, QuerySink, QuerySources, SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver.checkpointing import progress
from airflow_provider_ha.driver.checkpointing.progress import PAUSE_SECONDS, Lengths, SourceNotes
from airflow_provider_ha.driver.queries.query_naming import StartLedger
from airflow_provider_ha.errors import ConfigurationError, HaError, RestoreUnknownError
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.checkpoints.portable_helpers import changed_at


QUERY = "orders"
BATCH = (BatchEntry(batch=1, offsets=f"v1\n{{}}\n{json.dumps({'topic': {'0': 7}})}"),)


class ManualClock(SystemClock):
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_at = 0.0

    def lease_time(self) -> float:
        """Return what was set."""
        return self.now_at


class Brokers:
    """Brokers that answer when they are let: each question is noted first."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, frozenset[str]]] = []
        self.answers = threading.Event()
        self.refuses: HaError | None = None

    def topic_ids(self, servers: str, topics: frozenset[str], **_: object) -> dict[str, str]:
        self.asked.append((servers, topics))
        assert self.answers.wait(30)
        if self.refuses is not None:
            raise self.refuses
        return dict.fromkeys(topics, "id")


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = Brokers()
    monkeypatch.setattr(progress, "topic_ids", made.topic_ids)
    return made


def asking(directory: Path, clock: ManualClock, options: HaOptions | None = None) -> tuple[SourceNotes, StartLedger]:
    ledger = StartLedger(LocalTree(directory))
    ledger.note(QUERY, QuerySink(kind=SinkKind.OTHER), QuerySources(brokers="kafka:9092"))
    made = SourceNotes(ledger, options or HaOptions(), clock, StorageAccess())
    made.start()
    return made, ledger


def test_a_checkpoint_waits_for_no_answer_and_a_later_one_has_it(tmp_path: Path, brokers: Brokers) -> None:
    ids, _ = asking(tmp_path, ManualClock())

    first = ids.sources(QUERY, BATCH)
    again = ids.sources(QUERY, BATCH)
    brokers.answers.set()

    assert (first.topics, again.topics) == ({}, {})
    wait_until(lambda: ids.sources(QUERY, BATCH).topics == {"topic": "id"}, timeout=30, what="the answer")
    assert brokers.asked == [("kafka:9092", frozenset({"topic"}))]


def test_brokers_that_do_not_answer_are_asked_again_after_a_pause(tmp_path: Path, brokers: Brokers) -> None:
    clock = ManualClock()
    ids, _ = asking(tmp_path, clock)
    brokers.refuses = RestoreUnknownError("no answer")
    brokers.answers.set()
    ids.ask(QUERY, {"topic"})
    wait_until(lambda: len(brokers.asked) == 1, timeout=30, what="the first question")
    brokers.refuses = None
    ids.sources(QUERY, BATCH)
    assert len(brokers.asked) == 1

    clock.now_at += PAUSE_SECONDS
    ids.sources(QUERY, BATCH)

    wait_until(lambda: ids.sources(QUERY, BATCH).topics == {"topic": "id"}, timeout=30, what="the answer")


def test_the_brokers_that_the_job_names_are_asked_first(tmp_path: Path, brokers: Brokers) -> None:
    brokers.answers.set()
    ids, ledger = asking(tmp_path, ManualClock(), HaOptions(kafka_bootstrap={QUERY: "named:9092"}))

    ids.ask(QUERY, {"topic"})

    wait_until(lambda: ledger.sources(QUERY).topics, timeout=30, what="the answer")
    assert brokers.asked[0][0] == "named:9092"


def test_input_files_are_measured_beside_the_checkpoints(tmp_path: Path) -> None:
    ids, _ = asking(tmp_path, ManualClock())
    file = tmp_path / "a.json"
    file.write_text("{}")
    line = json.dumps({"path": file.as_uri(), "timestamp": changed_at(file), "batchId": 0})
    found: list[Lengths] = []

    ids.measure(BatchEntry(batch=0, offsets="", sources={"0": (line,)}), found.append)

    wait_until(lambda: found, timeout=30, what="the lengths")
    assert found == [{"0": (2,)}]


def test_a_driver_that_cannot_ask_asks_once(tmp_path: Path, brokers: Brokers) -> None:
    clock = ManualClock()
    ids, _ = asking(tmp_path, clock)
    brokers.refuses = ConfigurationError("confluent-kafka is not installed")
    brokers.answers.set()
    ids.ask(QUERY, {"topic"})
    wait_until(lambda: ids._asked[QUERY] == float("inf"), timeout=30, what="the refusal")

    clock.now_at += PAUSE_SECONDS
    ids.sources(QUERY, BATCH)

    assert ids._waiting.empty()
