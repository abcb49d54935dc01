"""Blobs of a run: the files of the application and the job graph, to storage and to the driver's host.

Invariant: after :func:`upload_application`, the submitting host is no longer needed for any run. A fetched file is
checked against its digest, and a name is checked before it becomes a path. File contents are never logged, and only
their owner can read them on the driver's host: any file may hold a secret that is not declared as such.

A blob missing in storage is missing for every host, and the job has lost nothing. So the run waits, as during an outage
of storage, and continues automatically once the object is back. The failed attempt does not count.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from airflow_provider_ha.errors import HaError, ObjectMissingError, RecordCorruptError
from airflow_provider_ha.jobs.application.application_files import ApplicationFiles, files_beside, unreadable
from airflow_provider_ha.jobs.application.archives import pack, pack_content, unpack, unpack_archive
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, JobGraph
from airflow_provider_ha.storage.blobs import BlobRef, blob_ref, fetch_blob, get_blob, put_blob
from airflow_provider_ha.storage.durable import PRIVATE_DIRECTORY, make_directories
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.uris import list_item


def fetch_graph(store: ObjectStore, graph: Blob, job_id: str, run: int) -> JobGraph:
    """Return the job graph of a run.

    :raises ObjectMissingError: The graph is missing in storage.
    :raises RecordCorruptError: The graph is damaged.
    :raises StorageUnavailableError: Storage could not be read.
    """
    with needed_by(job_id, run, "job graph"):
        return JobGraph.from_bytes(get_blob(store, graph.sha256), source=f"job graph {graph.sha256[:12]}")


@contextmanager
def needed_by(job_id: str, run: int, what: str) -> Iterator[None]:
    """Add the run and a remedy to the error about a missing or damaged object.

    :param what: Description of the object.
    """
    try:
        yield
    except (ObjectMissingError, RecordCorruptError) as error:
        missing = isinstance(error, ObjectMissingError)
        raise type(error)(
            f"the {what} of run {run} is {'missing' if missing else 'damaged'}: {error.message}",
            next_step="Put the object back from a copy of the storage: the run then continues. Or end it with "
            f"`spark-ha job cancel {job_id}`, and restore the job with its application",
        ) from error


def is_of_storage(error: HaError) -> bool:
    """Return whether storage answered that an object is missing or damaged: no fault of the host or the job."""
    return isinstance(error, ObjectMissingError | RecordCorruptError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationArtifacts:
    """An uploaded application: the fields of a job graph with the same names."""

    application: Artifact
    modules: tuple[Artifact, ...] = ()
    py_files: tuple[Artifact, ...] = ()
    files: tuple[Artifact, ...] = ()
    jars: tuple[Artifact, ...] = ()
    archives: tuple[Artifact, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedApplication:
    """An application on the driver's host.

    :param script: The script; its modules and packages are in ``script.parent``.
    :param files_directory: Directory of the data files: the driver's working directory, so that a script finds them by
        their bare names as under ``spark-submit --files`` on a cluster. Archives are unpacked there.
    :param archives: Items of ``spark.archives``, for executors.
    :param archive: Script and modules as a zip file, for executors on other hosts; ``None`` if all are on this host, or
        if the script has no modules.
    """

    script: Path
    files_directory: Path
    py_files: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    jars: tuple[Path, ...] = ()
    archives: tuple[str, ...] = ()
    archive: Path | None = None


def upload_application(store: ObjectStore, found: ApplicationFiles) -> ApplicationArtifacts:
    """Upload all files of an application to storage, content-addressed: existing blobs are not sent again.

    :raises StorageError: Storage could not be written.
    """
    return _artifacts(found, partial(put_blob, store))


def digest_application(found: ApplicationFiles) -> ApplicationArtifacts:
    """Return the result that :func:`upload_application` would return. Writes nothing."""
    return _artifacts(found, blob_ref)


def fetch_application(store: ObjectStore, graph: JobGraph, target: Path) -> FetchedApplication:
    """Fetch all files of a graph into *target*, replacing files of an earlier attempt.

    :raises ObjectMissingError: A file is missing in storage.
    :raises RecordCorruptError: A file has another digest, or a name that would leave *target*.
    :raises ConfigurationError: An archive cannot be unpacked.
    :raises StorageUnavailableError: Storage could not be read, or *target* could not be written.
    """
    application = target / "application"
    for directory in (application, target / "files"):
        make_directories(directory)
        directory.chmod(PRIVATE_DIRECTORY)
    script = _fetch(store, graph.application, application)
    for module in graph.modules:
        if module.unpack:
            _fetch_package(store, module, application)
        else:
            _fetch(store, module, application)
    archives = _fetch_all(store, graph.archives, target / "archives")
    places = [_place(artifact) for artifact in graph.archives]
    for archive, place in zip(archives, places, strict=True):
        unpack_archive(archive, target / "files" / place)
    return FetchedApplication(
        script=script,
        files_directory=target / "files",
        py_files=_fetch_all(store, graph.py_files, target / "py_files"),
        files=_fetch_all(store, graph.files, target / "files"),
        jars=_fetch_all(store, graph.jars, target / "jars"),
        archives=tuple(f"{list_item(path)}#{place}" for path, place in zip(archives, places, strict=True)),
        archive=_archive(application, target) if graph.modules and graph.options.allow_remote_executors else None,
    )


def _artifacts(found: ApplicationFiles, put: Callable[[Path], BlobRef]) -> ApplicationArtifacts:
    try:
        return ApplicationArtifacts(
            application=_artifact(put, found.application),
            modules=tuple(_artifact(put, path) for path in found.modules),
            py_files=tuple(_artifact(put, path) for path in found.py_files),
            files=tuple(_artifact(put, path) for path in found.files),
            jars=tuple(_artifact(put, path) for path in found.jars),
            archives=tuple(_artifact(put, path).model_copy(update={"alias": alias}) for path, alias in found.archives),
            beside=files_beside(found.application),
        )
    except OSError as error:
        raise unreadable(found.application, error) from error


def _artifact(put: Callable[[Path], BlobRef], path: Path) -> Artifact:
    if not path.is_dir():
        return Artifact(name=path.name, blob=_blob(put, path))
    with tempfile.TemporaryDirectory(prefix="spark-ha-") as scratch:
        archive = Path(scratch) / f"{path.name}.zip"
        pack(path, archive)
        return Artifact(name=archive.name, blob=_blob(put, archive), unpack=True)


def _blob(put: Callable[[Path], BlobRef], path: Path) -> Blob:
    sha256, size = put(path)
    return Blob(sha256=sha256, size=size)


def _archive(application: Path, target: Path) -> Path:
    """Zip the fetched files. The zip file stays as long as the run, because later executors need it."""
    archive = target / "modules.zip"
    archive.unlink(missing_ok=True)
    archive.touch(mode=0o600)
    pack_content(application, archive)
    return archive


def _fetch_all(store: ObjectStore, artifacts: Sequence[Artifact], directory: Path) -> tuple[Path, ...]:
    return tuple(_fetch(store, artifact, directory) for artifact in artifacts)


def _place(artifact: Artifact) -> str:
    """Return the directory name of an unpacked archive."""
    return _safe(artifact.alias or artifact.name)


def _safe(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "\\" in name or not name.isprintable():
        raise RecordCorruptError(f"the job graph holds an artifact with the unsafe name {name!r}")
    return name


def _fetch(store: ObjectStore, artifact: Artifact, directory: Path) -> Path:
    path = directory / _safe(artifact.name)
    fetch_blob(store, artifact.blob.sha256, path)
    return path


def _fetch_package(store: ObjectStore, artifact: Artifact, directory: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="spark-ha-") as scratch:
        unpack(_fetch(store, artifact, Path(scratch)), directory, source=f"artifact {artifact.name!r}")
