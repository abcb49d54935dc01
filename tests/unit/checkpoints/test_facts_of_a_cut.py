"""A cut is judged by what its sources still have at its offsets, also when its record says nothing of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.working_records import readable
from airflow_provider_ha.checkpoints.model import BatchEntry, QueryCut, QuerySink, QuerySources, SinkKind
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint
from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.facts import ExternalQueries, RestoreCase, gather_facts
from airflow_provider_ha.checkpoints.restore.plan import RestoreChoices, plan_restore
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.sources.kafka_offsets import Partition, PartitionOffsets
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import read_query_id
from airflow_provider_ha.errors import ConfigurationError
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint


NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
CUT = 9
Held = Mapping[Partition, PartitionOffsets]
TOPIC = ("topic", 0)  # its batch k has read up to offset k


@pytest.fixture
def directory(tmp_path: Path) -> LocalTree:
    """The directory of a cut of a query that has read up to offset 9."""
    return LocalTree(checkpoint(tmp_path / QUERY, range(8, CUT + 1)))


def adopted_by_path(directory: LocalTree) -> AdoptedCheckpoint:
    """Say that nothing was planned after the cut."""
    return AdoptedCheckpoint(path=str(directory), query_id=read_query_id(directory), planned=CUT, committed=CUT)


def plan(
    directory: LocalTree,
    held: Held | Callable[..., Held],
    entries: tuple[BatchEntry, ...] = (),
    *,
    same: bool = True,
    ids: Mapping[str, str] | None = None,
) -> RestorePlan:
    sources = QuerySources(topics=dict(ids or {}))
    cut = QueryCut(batch=CUT, sink=QuerySink(kind=SinkKind.FOREACH_BATCH), entries=entries, sources=sources)
    facts = gather_facts(
        RestoreCase(
            chosen=RestoreSource("checkpoint", "2", "pins/2", {QUERY: cut}, 1, 1, "graph", "4.2.0", NOW),
            at=NOW,
            directories={QUERY: directory},
            adopted={QUERY: adopted_by_path(directory)},
            external=ExternalQueries(held if callable(held) else lambda *_: held),
        )
    )
    return plan_restore(facts, RestoreChoices(job_id="job", source_job="job", same_output=same))


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(
    ("held", "verdict"),
    [
        ({TOPIC: PartitionOffsets(0, 9)}, Verdict.SAFE),
        ({}, Verdict.LOSS_POSSIBLE),
        ({TOPIC: PartitionOffsets(0, 5)}, Verdict.LOSS_POSSIBLE),
        ({TOPIC: PartitionOffsets(11, 15)}, Verdict.LOSS_POSSIBLE),
    ],
    ids=["there", "deleted", "made again", "expired"],
)
def test_a_cut_without_a_record_of_its_batch_is_judged_at_its_own_offsets(
    directory: LocalTree, held: Held, verdict: Verdict, same: bool
) -> None:
    bare = plan(directory, held, same=same)
    recorded = plan(directory, held, tuple(readable(directory, after=CUT - 1)), same=same)

    assert (bare.queries[QUERY].inputs, recorded.queries[QUERY].inputs[0].partitions[0].start) == (
        recorded.queries[QUERY].inputs, CUT
    )  # fmt: skip
    assert (bare.verdict, bare.findings) == (verdict, recorded.findings)


def test_a_cut_whose_offsets_cannot_be_read_is_unknown(directory: LocalTree) -> None:
    (directory.local_path / "offsets" / str(CUT)).write_text("v1\n")

    made = plan(directory, {TOPIC: PartitionOffsets(0, CUT)})

    assert made.verdict is Verdict.LOSS_POSSIBLE
    assert f"batch {CUT}" in made.unknown[QUERY][0]


def test_brokers_that_are_not_named_leave_the_cut_unknown(directory: LocalTree) -> None:
    def unnamed(*_: object) -> Held:
        raise ConfigurationError("the brokers are not configured")

    made = plan(directory, unnamed)

    assert (made.verdict, made.unknown[QUERY]) == (Verdict.LOSS_POSSIBLE, ("the brokers are not configured",))


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("latest", [CUT, CUT + 100], ids=["as long", "longer"])
def test_a_topic_of_another_id_is_another_topic_however_long_it_is(
    directory: LocalTree, latest: int, same: bool
) -> None:
    made = plan(directory, {TOPIC: PartitionOffsets(0, latest, "new")}, ids={"topic": "old"}, same=same)

    assert (made.verdict, made.unknown) == (Verdict.LOSS_POSSIBLE, {})
    assert "topic topic was recreated under the same name" in made.reasons[0]


def test_a_topic_of_the_recorded_id_is_the_one_that_was_read(directory: LocalTree) -> None:
    assert plan(directory, {TOPIC: PartitionOffsets(0, CUT, "old")}, ids={"topic": "old"}).verdict is Verdict.SAFE


def test_a_topic_without_a_recorded_id_is_judged_by_its_length(directory: LocalTree) -> None:
    held = {TOPIC: PartitionOffsets(0, CUT, "any")}

    assert plan(directory, held, ids={"another": "old"}).verdict is Verdict.SAFE


def test_brokers_that_say_no_id_leave_a_topic_that_had_one_unknown(directory: LocalTree) -> None:
    made = plan(directory, {TOPIC: PartitionOffsets(0, CUT)}, ids={"topic": "old"})

    assert made.verdict is Verdict.LOSS_POSSIBLE
    assert "topic-0" in made.unknown[QUERY][0]
