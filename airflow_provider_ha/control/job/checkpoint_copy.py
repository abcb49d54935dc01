"""A checkpoint of a job as the source of a savepoint: which directories the copy reads, and what it says of them."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.connectors.file_sink_log import LOG
from airflow_provider_ha.checkpoints.model import QueryCut
from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.checkpoints.savepoints.store import SavepointRequest
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.working.pins import SINKS
from airflow_provider_ha.control.job.context import JobContext


def copy_request(
    job: JobContext, chosen: Chosen, savepoint_id: str, *, label: str, schedule: str | None = None
) -> tuple[SavepointRequest, Tree]:
    """Return what a copy of a checkpoint is asked for, and the directory that it reads.

    A query that has committed nothing yet is left out: it has no file.

    :param chosen: A checkpoint; a reader's lease on it has to outlast the copy.
    """
    root = job.area.tree(chosen.directory)
    request = SavepointRequest(
        savepoint_id=savepoint_id,
        run=chosen.run,
        epoch=chosen.epoch,
        cut={query: part.batch for query, part in chosen.queries.items() if part.batch >= 0},
        sinks={query: part.sink for query, part in chosen.queries.items()},
        sources={query: part.sources for query, part in chosen.queries.items()},
        sink_logs=_kept_logs(root, chosen.queries),
        graph=chosen.graph,
        spark_version=chosen.spark_version,
        label=label,
        schedule=schedule,
    )
    return request, root


def _kept_logs(root: Tree, queries: dict[str, QueryCut]) -> dict[str, Tree]:
    logs = {query: root / SINKS / query / LOG for query in queries}
    return {query: log for query, log in logs.items() if log.names()}
