"""Effects of a restore on a table that remembers the highest batch of each query (Delta, Iceberg).

Such a table skips, without an error, each batch up to the highest one of the query's id, even if the batch has other
rows now.
"""

from __future__ import annotations

from airflow_provider_ha.checkpoints.connectors.places import output_place
from airflow_provider_ha.checkpoints.connectors.sink_connector import OWN_OUTPUT, RECORDED_CUT, Findings, SinkCase
from airflow_provider_ha.checkpoints.model import QuerySink, Verdict
from airflow_provider_ha.errors import ConfigurationError


def readable_place(path: str | None) -> str | None:
    """Return the directory of a table in its normal form; ``None`` when it is on a file system not read here."""
    try:
        return output_place(path) if path else None
    except ConfigurationError:
        return None


def judge_table(sink: QuerySink, case: SinkCase, top: int, findings: Findings) -> None:
    """Judge a restore by the table's highest batch. Pure.

    :param top: Last batch that is executed again with its recorded boundaries.
    """
    cut, reached = case.batch, case.state.reached
    if case.state.gone:
        findings.add(
            Verdict.LOSS_POSSIBLE,
            f"the table {sink.table} is gone, and with it what was written up to batch {cut}",
            "put the table back, its log included",
            "accept LOSS_POSSIBLE by name: the next batch makes a new table, which holds only the rows after the cut",
            OWN_OUTPUT,
        )
    elif reached > top and case.has_fresh_id:
        findings.add(
            Verdict.DUPLICATES_POSSIBLE,
            f"with a fresh query id batches {top + 1} to {reached}, which the table has, are written again",
            f"remove their rows from the table first: it was last right at batch {top}",
        )
    elif reached > top:
        findings.add(
            Verdict.IMPOSSIBLE,  # guard: tables-skip-what-comes-next
            f"the table has batches of this query up to {reached}, but boundaries are recorded up to {top} only; it "
            f"would skip batches {top + 1} to {reached}, also with new content",
            RECORDED_CUT,
            "give the query a fresh id (--reset-query-id): then nothing is skipped, and these batches are written "
            "again (DUPLICATES_POSSIBLE)",
            OWN_OUTPUT,
        )
    elif reached < cut and not (case.has_fresh_id and reached < 0):
        findings.add(
            Verdict.LOSS_POSSIBLE,
            f"the table has batches of this query up to {reached} only, but the cut is at {cut}",
            "bring the table back to a version that has them",
            f"restore a cut at batch {reached} or before" if reached >= 0 else OWN_OUTPUT,
        )
