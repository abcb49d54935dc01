"""What a run needs out of storage, and what it means when that is missing or damaged.

Every host finds the same, and the job has lost nothing: the run waits, as it does for a storage that is away, and goes
on by itself once the object is there again. So no attempt is counted for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_ha.errors import HaError, ObjectMissingError, RecordCorruptError
from airflow_provider_ha.jobs.model import Blob, JobGraph
from airflow_provider_ha.storage.blobs import get_blob
from airflow_provider_ha.storage.store import ObjectStore


def fetch_graph(store: ObjectStore, graph: Blob, job_id: str, run: int) -> JobGraph:
    """Return the job graph of a run.

    :param graph: Names it.
    :raises ObjectMissingError: It is not in storage.
    :raises RecordCorruptError: It is there, and not what was written.
    :raises StorageUnavailableError: Storage could not be read.
    """
    with needed_by(job_id, run, "job graph"):
        return JobGraph.from_bytes(get_blob(store, graph.sha256), source=f"job graph {graph.sha256[:12]}")


@contextmanager
def needed_by(job_id: str, run: int, what: str) -> Iterator[None]:
    """Say of which run an object is missing or damaged, and what its user can do.

    :param what: What is fetched.
    """
    try:
        yield
    except (ObjectMissingError, RecordCorruptError) as error:
        missing = isinstance(error, ObjectMissingError)
        raise type(error)(
            f"the {what} of run {run} is {'missing' if missing else 'damaged'}: {error.message}",
            next_step="Put the object back from a copy of the storage, and the run goes on by itself; or end it with "
            f"`spark-ha job cancel {job_id}`, and restore the job with its application",
        ) from error


def is_of_storage(error: HaError) -> bool:
    """Whether storage answered, and does not have what was written: no fault of the host, and no loss of the job."""
    return isinstance(error, ObjectMissingError | RecordCorruptError)
