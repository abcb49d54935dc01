"""A type of sink that this package does not know is one module and one entry: the rest asks the list of types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.facts import (
    ExternalQueries,
    QueryFacts,
    RestoreCase,
    RestoreFacts,
    look_around,
)
from airflow_provider_ha.checkpoints.restore.plan import RestoreChoices, plan_restore
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.sinks import sink_registry
from airflow_provider_ha.checkpoints.sinks.sink_registry import sink_named, type_of
from airflow_provider_ha.checkpoints.sinks.sink_type import SinkState
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.driver.checkpointing.start_point import check_facts
from airflow_provider_ha.driver.queries.resting_queries import described
from airflow_provider_ha.driver.queries.script_paths import OwnLocations
from airflow_provider_ha.driver.queries.writer_notes import WriterNotes, refuse_unfenced, sink_spec, sink_word
from airflow_provider_ha.errors import ApplicationRefusedError, RestoreRefusedError
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.restore.choices import restore_choices
from tests.support.checkpoints.ledger_sink import LedgerSink
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint
from tests.support.clusters.jobs_helpers import NOON


UNLOCKED: dict[str, str] = {}  # conf of a session


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_registry, "SINK_TYPES", (LedgerSink(), *sink_registry.SINK_TYPES))


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The checkpoint of a query whose ledger has its batch 4."""
    directory = checkpoint(tmp_path / QUERY)
    identity = json.loads((directory / "metadata").read_text())["id"]
    (tmp_path / "ledger").write_text(json.dumps({identity: 4}))
    return directory


def noted(path: str) -> WriterNotes:
    return WriterNotes(sink="ledger", options={"path": path})


def test_its_writer_is_recognised_by_the_format() -> None:
    spec = sink_spec("q", noted("/data/ledger"), "parquet")

    assert described(spec) == QuerySink(kind=SinkKind.OTHER, format="ledger", table="/data/ledger")
    assert isinstance(type_of(described(spec)), LedgerSink)


def test_what_it_cannot_read_refuses_the_query() -> None:
    with pytest.raises(ApplicationRefusedError, match="a ledger is not read on S3"):
        sink_spec("q", noted("s3a://bucket/ledger"), "parquet")


def test_what_does_not_keep_two_drivers_apart_refuses_the_query() -> None:
    refuse_unfenced("q", noted("/data/ledger"), "parquet", {"ledger.locked": "yes"}.get)

    with pytest.raises(ApplicationRefusedError, match=r"query 'q' writes to /data/ledger without a lock\. Set ledger"):
        refuse_unfenced("q", noted("/data/ledger"), "parquet", UNLOCKED.get)


def test_a_writer_without_a_format_has_the_format_of_the_session() -> None:
    unnamed = WriterNotes(options={"path": "/data/ledger"})

    with pytest.raises(ApplicationRefusedError, match="without a lock"):
        refuse_unfenced("q", unnamed, "ledger", UNLOCKED.get)


def test_a_refusal_names_the_sink_as_its_type_declares_it(tmp_path: Path) -> None:
    own = noted("/data/ledger")
    own.options["checkpointlocation"] = str(checkpoint(tmp_path / QUERY))

    word = sink_word(own, "parquet")

    with pytest.raises(ApplicationRefusedError, match="'ledger:/data/ledger'"):
        OwnLocations(StorageAccess(), begins=True).check(QUERY, own, None, word, empty=True)

    assert sink_named("ledger:/data/ledger").table == "/data/ledger"


def planned(written: Path, **choices: Any) -> RestorePlan:
    """Return the plan of a restore at batch 2, made from what lies around the checkpoint."""
    sink = QuerySink(kind=SinkKind.OTHER, format="ledger", table=str(written.parent / "ledger"))
    cut = QueryCut(batch=2, sink=sink)
    external = ExternalQueries(ask_kafka=lambda *_: {})
    around = look_around(QUERY, LocalTree(written), cut=cut, entries=(), external=external)
    reached = -1 if around.table_batch is None else around.table_batch
    known = QueryFacts(cut, {}, planned_to=2, complete=True, sink=SinkState(reached=reached), around=around)
    chosen = RestoreSource("checkpoint", "1", "d", {QUERY: cut}, 1, 1, "graph", "4.2.0", NOON)
    facts = RestoreFacts(RestoreCase(chosen=chosen, at=NOON), {QUERY: known})
    return plan_restore(facts, RestoreChoices(job_id="j", source_job="j", **choices))


def test_a_restore_is_judged_by_what_it_has_of_the_query(written: Path) -> None:
    plan = planned(written)

    assert (plan.verdict, plan.queries[QUERY].sink.max_batch) == (Verdict.IMPOSSIBLE, 4)
    assert "ledger would skip batch 4" in plan.reasons[0]


def test_a_fresh_query_id_can_be_asked_for(written: Path) -> None:
    cut = planned(written).queries[QUERY]
    chosen: Any = type("Cut", (), {"queries": {QUERY: cut}})()
    request = RestoreRequest(job_id="j", request_id="r", reset_query_ids=frozenset({QUERY}))

    ids = restore_choices(request, chosen, job_id="j", source_job="j").reset_query_ids

    assert planned(written, reset_query_ids=ids).verdict is Verdict.SAFE


def test_a_restore_is_refused_when_it_has_changed_since_the_plan(written: Path) -> None:
    plan = planned(written)
    check_facts(plan, LocalTree(written.parent), StorageAccess())
    query = plan.queries[QUERY]
    stale = {QUERY: query.model_copy(update={"sink": query.sink.model_copy(update={"max_batch": 3})})}

    with pytest.raises(RestoreRefusedError, match="has batches up to 4; the restore was planned with 3"):
        check_facts(plan.model_copy(update={"queries": stale}), LocalTree(written.parent), StorageAccess())
