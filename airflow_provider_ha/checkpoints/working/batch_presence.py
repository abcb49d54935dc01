"""Whether the logs of a query still have what a start after a batch needs. By name alone: no file is opened.

Spark, and the collector of a job, remove the entries of the logs before the state that they belong to. So a batch
whose entries are there (``WorkArea.log_entries``) has not lost its state to either of them.
"""

from __future__ import annotations

from collections.abc import Container

from airflow_provider_ha.checkpoints.format.layout import COMMITS, OFFSETS


def missing_entry(batch: int, *, offsets: Container[str], commits: Container[str]) -> str | None:
    """Return the first entry that is needed and not there, relative to the query; ``None`` when all are. Pure.

    :param batch: N, of logs in which each batch has an entry; -1 for none, which needs nothing.
    :param offsets: Names in the offset log.
    :param commits: Names in the commit log.
    """
    if batch < 0:
        return None
    if str(batch) not in commits:
        return f"{COMMITS}/{batch}"
    # Spark reads the boundaries of the batch before it, too.
    missing = (entry for entry in range(max(batch - 1, 0), batch + 1) if str(entry) not in offsets)
    return next((f"{OFFSETS}/{entry}" for entry in missing), None)
