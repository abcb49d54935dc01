"""Real-time and continuous queries run where rows that come twice are accepted, and nothing else can happen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.sinks.sink_type import RestoreFindings, SinkCase, SinkState
from airflow_provider_ha.checkpoints.sinks.unread_sinks import OtherSink
from airflow_provider_ha.driver.queries.checked_writer import check_writer
from airflow_provider_ha.driver.queries.resting_queries import described
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec, UnplannedRules, notes
from airflow_provider_ha.errors import ApplicationRefusedError
from tests.support.checkpoints.writer_helpers import writer_of


KAFKA = SinkSpec(SinkKind.OTHER, "kafka")
ACCEPTED = UnplannedRules(accepted=True)
MODES: list[dict[str, Any]] = [{"realTime": "5 minutes"}, {"continuous": "1 second"}]


@pytest.mark.parametrize("trigger", MODES, ids=["real-time", "continuous"])
def test_without_a_word_it_is_refused_with_the_word(trigger: dict[str, Any]) -> None:
    with pytest.raises(ApplicationRefusedError) as refused:
        UnplannedRules().check("q", trigger, KAFKA)

    assert "sends rows to the sink again (DUPLICATES_POSSIBLE)" in refused.value.message
    assert "accept_verdicts=DUPLICATES_POSSIBLE" in (refused.value.next_step or "")


@pytest.mark.parametrize("trigger", MODES, ids=["real-time", "continuous"])
def test_on_a_store_it_is_refused_whatever_is_accepted(trigger: dict[str, Any]) -> None:
    with pytest.raises(ApplicationRefusedError, match="on S3 and HDFS the next entry of its log is the fence"):
        UnplannedRules(mounted=False, accepted=True).check("q", trigger, KAFKA)


@pytest.mark.parametrize(
    "sink",
    [
        SinkSpec(SinkKind.FILE, "json", path="/out"),
        SinkSpec(SinkKind.FOREACH_BATCH, "foreachBatch"),
        SinkSpec(SinkKind.OTHER, "delta", table="/table"),
        SinkSpec(SinkKind.OTHER, "iceberg"),
    ],
    ids=lambda sink: str(sink.source),
)
def test_a_sink_that_knows_batches_by_their_numbers_is_refused(sink: SinkSpec) -> None:
    with pytest.raises(ApplicationRefusedError, match=f"a {sink.source} sink receives other rows under a known number"):
        ACCEPTED.check("q", MODES[0], sink)


@pytest.mark.parametrize("source", ["kafka", "foreach", "console", "memory", "org.example"])
@pytest.mark.parametrize("trigger", MODES, ids=["real-time", "continuous"])
def test_every_other_sink_takes_it_once_that_is_accepted(trigger: dict[str, Any], source: str) -> None:
    ACCEPTED.check("q", trigger, SinkSpec(SinkKind.OTHER, source))


@pytest.mark.parametrize("trigger", [{"processingTime": "1 second"}, {"availableNow": True}, {"once": True}])
def test_batches_that_are_planned_need_no_word(trigger: dict[str, Any]) -> None:
    UnplannedRules(mounted=False).check("q", trigger, SinkSpec(SinkKind.FILE, "json", path="/out"))


@pytest.mark.parametrize("unplanned", [True, False])
def test_it_is_recorded_with_the_sink(unplanned: bool) -> None:
    writer = writer_of("q", Path("/managed"))
    notes(writer).trigger = MODES[1] if unplanned else {"processingTime": "0 seconds"}

    checked = check_writer(writer, None, "file:///managed", frozenset(), ACCEPTED)

    assert described(checked.sink).unplanned is unplanned


def test_a_restore_gives_its_sink_rows_again_also_of_its_newest_cut() -> None:
    judgement = RestoreFindings("q")
    case = SinkCase(batch=7, state=SinkState(), top=7, planned_to=8, complete=False)

    OtherSink().judge(QuerySink(kind=SinkKind.OTHER, format="kafka", unplanned=True), case, judgement)

    (finding,) = judgement.findings
    assert finding.verdict is Verdict.DUPLICATES_POSSIBLE
    assert "the rows read after batch 7 are written again to a kafka sink" in finding.reason
