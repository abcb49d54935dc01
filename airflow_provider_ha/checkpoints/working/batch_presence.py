"""Check that a query's logs still have the entries for a start after a batch. By name alone, without opening files.

Spark, and the collector of a job, remove log entries before the corresponding state. So a batch whose entries exist
(``WorkArea.log_entries``) has not lost its state to either.
"""

from __future__ import annotations

from collections.abc import Container

from airflow_provider_ha.checkpoints.format.layout import COMMITS, OFFSETS


def missing_entry(batch: int, *, offsets: Container[str], commits: Container[str]) -> str | None:
    """Return the first missing entry, relative to the query; ``None`` when all exist. Pure.

    :param batch: N, of logs with an entry for each batch; -1 for none, which needs no entry.
    :param offsets: Names in the offset log.
    :param commits: Names in the commit log.
    """
    if batch < 0:
        return None
    if str(batch) not in commits:
        return f"{COMMITS}/{batch}"
    # Spark also reads the boundaries of the preceding batch.
    missing = (entry for entry in range(max(batch - 1, 0), batch + 1) if str(entry) not in offsets)
    return next((f"{OFFSETS}/{entry}" for entry in missing), None)
