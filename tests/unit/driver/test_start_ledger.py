"""Which names a script may start after a loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.carried_records import StartedQueries, StartedQueryRecord
from airflow_provider_ha.checkpoints.model import QuerySink, QuerySources, SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.driver.queries.query_naming import StartLedger, check_new_name
from airflow_provider_ha.errors import ApplicationRefusedError


SINK = QuerySink(kind=SinkKind.FOREACH_BATCH)


def before(*names: str, complete: bool = True) -> StartedQueries:
    return StartedQueries(queries=tuple(StartedQueryRecord(name=name, sink=SINK) for name in names), complete=complete)


def test_a_name_that_changes_with_every_start_is_refused_after_a_loss() -> None:
    with pytest.raises(
        ApplicationRefusedError, match="it had 'a', 'q_1', and 'q_1' has not been started again"
    ) as all_:
        check_new_name("q_2", before("a", "q_1"), expected=["a", "q_1"], begun=["a"])

    assert "allow_new_queries" in all_.value.next_step


@pytest.mark.parametrize(
    ("known", "expected", "begun", "complete"),
    [
        (["a"], ["a"], ["a"], True),  # the script was lost before it came to "b"
        (["a"], ["a"], [], False),  # the same, and its starts come in another order
        (["a"], ["a", "b"], [], True),  # the run was restored with it
        (["a", "b"], ["a"], [], True),  # it was lost before its first batch
        ([], [], [], False),  # the first epoch of a run
    ],
)
def test_a_query_that_only_comes_later_is_not_refused(
    known: list[str], expected: list[str], begun: list[str], complete: bool
) -> None:
    check_new_name("b", before(*known, complete=complete), expected=expected, begun=begun)


def test_the_next_epoch_reads_what_this_one_noted(tmp_path: Path) -> None:
    ledger = StartLedger(LocalTree(tmp_path))
    ledger.note("z", SINK)
    ledger.note("a", SINK)
    assert not StartLedger(LocalTree(tmp_path)).before.complete

    ledger.complete()

    assert StartLedger(LocalTree(tmp_path)).before == before("z", "a")
    assert ledger.before == StartedQueries()


def test_queries_for_a_look_at_rows_may_come_and_go() -> None:
    look = StartedQueryRecord(name="look_1", sink=QuerySink(kind=SinkKind.OTHER, format="console"))
    known = before("a").model_copy(update={"queries": (*before("a").queries, look), "complete": True})

    check_new_name("look_2", known, expected=["a", "look_1"], begun=["a"])


def test_a_topic_keeps_the_id_that_it_had_when_the_run_began_to_read_it(tmp_path: Path) -> None:
    ledger = StartLedger(LocalTree(tmp_path))
    ledger.note("a", SINK, QuerySources(brokers="kafka:9092"))
    ledger.note_topics("a", {"orders": "first"})

    again = StartLedger(LocalTree(tmp_path))
    again.note("a", SINK, QuerySources(brokers="other:9092"))
    again.note_topics("a", {"orders": "second", "late": "third"})

    assert again.sources("a") == QuerySources(brokers="other:9092", topics={"orders": "first", "late": "third"})
