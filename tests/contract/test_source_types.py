"""A type of source that this package does not know is one module and one entry: plans ask the list of types."""

from __future__ import annotations

import json

import pytest

from airflow_provider_ha.checkpoints.model import BatchEntry, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import SourceInput, Verdict
from airflow_provider_ha.checkpoints.restore.facts import QueryFacts, RestoreCase, RestoreFacts
from airflow_provider_ha.checkpoints.restore.plan import RestoreChoices, plan_restore
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.sinks.sink_type import RestoreFindings
from airflow_provider_ha.checkpoints.sources import source_registry
from airflow_provider_ha.checkpoints.sources.source_type import SourceReading, SourceType
from tests.support.clusters.jobs_helpers import NOON


class ReelSource(SourceType):
    """A source that keeps its newest ten rows."""

    def takes(self, reading: SourceReading) -> bool:
        return (reading.end or "").startswith('{"reel"')

    def input(self, reading: SourceReading) -> SourceInput:
        before, end = (json.loads(offset)["reel"] if offset else 0 for offset in (reading.before, reading.end))
        return SourceInput(source=reading.name, unit="pictures", amount=end - before, gone=max(0, end - before - 10))

    def judges(self, source: SourceInput) -> bool:
        return source.unit == "pictures" and bool(source.gone)

    def judge(self, source: SourceInput, findings: RestoreFindings) -> None:
        findings.add(Verdict.LOSS_POSSIBLE, f"the reel has run over {source.gone} pictures")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_registry, "SOURCE_TYPES", (ReelSource(), *source_registry.SOURCE_TYPES))


def entry(batch: int, reel: int) -> BatchEntry:
    return BatchEntry(batch=batch, offsets="\n".join(["v1", "{}", json.dumps({"reel": reel})]))


@pytest.mark.parametrize(("end", "verdict"), [(18, Verdict.SAFE), (23, Verdict.LOSS_POSSIBLE)])
def test_a_restore_is_judged_by_what_is_read_again(end: int, verdict: Verdict) -> None:
    cut = QueryCut(batch=4, sink=QuerySink(kind=SinkKind.FOREACH_BATCH, repeatable=True), entries=(entry(4, 10),))
    known = QueryFacts(cut, {5: entry(5, end)}, planned_to=5, complete=True)
    chosen = RestoreSource("checkpoint", "1", "d", {"q": cut}, 1, 1, "graph", "4.2.0", NOON)
    facts = RestoreFacts(RestoreCase(chosen=chosen, at=NOON), {"q": known})

    plan = plan_restore(facts, RestoreChoices(job_id="j", source_job="j"))

    assert [each.unit for each in plan.queries["q"].inputs] == ["pictures"]
    assert (plan.verdict, plan.queries["q"].inputs[0].amount) == (verdict, end - 10)
