"""Having Spark prove a whole cut: every query of a checkpoint or savepoint, with the job's own application.

Invariant: what is proven is only read. The application comes out of storage, as a restore on another host would get it,
and lies in a directory of the proof that goes with it; of the job's sinks and of its lock nothing is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from airflow_provider_ha.checkpoints.model import QueryCut
from airflow_provider_ha.checkpoints.proof.scratch import scratch
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.verification.prove import (
    DEFAULT_DEADLINE,
    DEFAULT_HEAP,
    Application,
    Proof,
    ProofProgress,
    prove,
)
from airflow_provider_ha.errors import ObjectMissingError, StorageUnavailableError
from airflow_provider_ha.jobs.application.artifacts import fetch_application
from airflow_provider_ha.jobs.model import Blob, JobGraph
from airflow_provider_ha.storage.durable import private_directories
from airflow_provider_ha.storage.store import ObjectStore


PROOFS = "proofs"  # below the home of this host


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofOptions:
    """How a cut is proven.

    :param start: Whether the job's application is started on it; else its state is loaded only.
    :param heap: Memory of the JVM, as ``1g``.
    :param deadline: Seconds that Spark may take for each query.
    """

    start: bool = True
    heap: str = DEFAULT_HEAP
    deadline: float = DEFAULT_DEADLINE


@contextmanager
def proof_place(job: JobContext) -> Iterator[Path]:
    """Yield an empty directory for one proof: below the home of this host, beside the jobs and in none of them.

    It is gone when the block ends. That of a proof that was killed is collected by the next one, of any job.

    :raises StorageUnavailableError: It cannot be made.
    """
    if job.config.home_root is None:
        job.roots.require()
    parent = job.config.home_path / PROOFS
    try:
        private_directories(parent)
    except OSError as error:
        raise StorageUnavailableError(
            f"cannot make {parent}: {error.strerror}",
            next_step="Check the permissions and the free space of the home root",
        ) from error
    with scratch(parent, parent) as place:
        yield place


def fetch(job: JobContext, graph: str, place: Path) -> Application:
    """Bring the application of a job graph out of storage into *place*.

    :param graph: Digest of the graph; empty in what was not made by a job.
    :raises ObjectMissingError: The graph or a file of it is not in storage.
    :raises RecordCorruptError: It is there, and not what was written.
    """
    if not graph:
        raise ObjectMissingError(
            "it names no job graph, so nothing says which application goes on from it",
            next_step="Let the job take its own savepoint, or only load the state (start=False)",
        )
    return application_of(job.store, job.graph(Blob(sha256=graph, size=0)), place)


def prove_cut(
    directory: Tree,
    queries: Mapping[str, QueryCut],
    place: Path,
    *,
    application: Application | None,
    options: ProofOptions,
    progress_to: Callable[[ProofProgress], None] = lambda _: None,
) -> dict[str, Proof]:
    """Prove every query of a cut that has committed a batch, one after the other.

    :param directory: One directory per query: a pin or a savepoint.
    :param place: Where copies are made, and removed.
    :param application: Starts the queries; ``None`` when only their state is to be loaded.
    :param progress_to: Receives what is being done, with the query's name.
    :raises StorageUnavailableError: A copy could not be made.
    """

    def named(query: str, now: ProofProgress) -> None:
        progress_to(replace(now, query=query))

    return {
        query: prove(
            directory / query,
            batch=part.batch,
            application=application,
            query=query,
            scratch_directory=place,
            heap=options.heap,
            deadline=options.deadline,
            progress_to=partial(named, query),
        )
        for query, part in queries.items()
        if part.batch >= 0
    }


def application_of(store: ObjectStore, graph: JobGraph, directory: Path) -> Application:
    """Return the application of a job graph, as its driver would run it.

    :param store: The job's storage.
    :param graph: Of the run that wrote the checkpoint or savepoint, which names its digest.
    :param directory: Where its files are put; the caller's to make and to remove, and private.
    :raises ObjectMissingError: A file is not in storage.
    :raises RecordCorruptError: A file has another digest, or a name that would leave *directory*.
    :raises StorageUnavailableError: Storage could not be read, or *directory* could not be written.
    """
    fetched = fetch_application(store, graph, directory)
    return Application(
        script=fetched.script,
        arguments=tuple(graph.arguments),
        conf=dict(graph.conf),
        env=dict(graph.env),
        py_files=fetched.py_files,
        files=fetched.files,
        jars=fetched.jars,
        archives=fetched.archives,
        packages=tuple(graph.packages),
        directory=fetched.files_directory,
    )
