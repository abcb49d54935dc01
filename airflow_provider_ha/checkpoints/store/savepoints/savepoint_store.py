"""Savepoints of one job: user-owned, relocatable copies of one cut.

Invariants: first the files, then the manifest, then verification, then the pointer: a savepoint with a pointer was
verified after it was written. Removal deletes the pointer first and the files second, through the list of deletions
(contract 2). Only its user removes a savepoint, or the schedule that made it, and a schedule never removes its last
one. The savepoint that the live run begins from stays until the run has a checkpoint. A savepoint that a restore has
claimed belongs to the job (``checkpoints.retention.claims``).
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.pins import read_entry
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.model import (
    CheckpointPointer,
    QuerySink,
    QuerySources,
    Savepoint,
    SavepointPointer,
    SinkKind,
)
from airflow_provider_ha.checkpoints.sinks.file_sink_log import log_files, sink_log
from airflow_provider_ha.checkpoints.spark.atomic import building
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree, path_on_this_host
from airflow_provider_ha.checkpoints.spark.tree import Tree, WritableTree
from airflow_provider_ha.checkpoints.store.pointer_scan import Commit, scan
from airflow_provider_ha.checkpoints.store.pointer_store import PointerListing, PointerStore, read_listing
from airflow_provider_ha.checkpoints.store.removal import DeletionList, LiveRunStart, Remover
from airflow_provider_ha.checkpoints.store.retention_policy import SavepointRetention, superfluous_savepoints
from airflow_provider_ha.checkpoints.store.savepoints.creation import CutPart, TreeDraft, gather
from airflow_provider_ha.checkpoints.store.savepoints.manifest import (
    MANIFEST,
    manifest_bytes,
    parse_manifest,
    pointer_to,
)
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import DirectoryDraft, Transfer
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import Dir, StoredSavepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import SavepointTree, check, problems
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import copied
from airflow_provider_ha.clock import Clock, SystemClock
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.node_names import is_checkpoint, is_plain
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.reader_leases import active
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    JobStateError,
    NodeExistsError,
    NodeMissingError,
    RecordCorruptError,
    VersionConflictError,
)
from airflow_provider_ha.names import check_savepoint_id
from airflow_provider_ha.storage.durable import remove_tree
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.outage import outages


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointRequest:
    """Request for a savepoint.

    :param savepoint_id: Two requests with one id make one savepoint.
    :param sink_logs: Query -> log of its file sink; by default the log in the sink's output.
    :param schedule: Name of the schedule that makes it and may remove it; ``None`` for a user's savepoint.
    """

    savepoint_id: str
    run: int
    epoch: int
    cut: Mapping[str, int]
    sinks: Mapping[str, QuerySink] = field(default_factory=dict)
    sources: Mapping[str, QuerySources] = field(default_factory=dict)
    sink_logs: Mapping[str, Tree] | None = None
    graph: str
    spark_version: str
    label: str = ""
    schedule: str | None = None


class SavepointStore:
    """The savepoints of a job.

    :param start: Returns the start of the live run; needed to remove savepoints.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        paths: JobPaths,
        keys: JobKeys,
        area: WorkArea,
        *,
        clock: Clock | None = None,
        start: Callable[[], LiveRunStart] | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._paths = paths
        self._keys = keys
        self._area = area
        self._clock = clock or SystemClock()
        self._start = start
        self._to_delete = DeletionList(coordinator, paths, clock=self._clock)
        self._pointers = PointerStore(
            coordinator, paths.savepoints, SavepointPointer, to_delete=self._to_delete, is_ours=is_plain
        )
        self._remover = Remover(coordinator, paths.cluster, area, objects=None, clock=self._clock)

    @property
    def job_id(self) -> str:
        """The job that owns the savepoints."""
        return self._paths.job_id

    def directory(self, savepoint_id: str) -> Path:
        """Return the local directory of a savepoint; it need not exist.

        :raises ConfigurationError: This storage has no local directories: see :meth:`tree`.
        """
        return path_on_this_host(self.tree(savepoint_id))

    def tree(self, savepoint_id: str) -> Tree:
        """Return the place of a savepoint; it need not exist."""
        return self._area.tree(self._keys.savepoint(savepoint_id))

    def uri(self, savepoint_id: str) -> str:
        """Return the place of a savepoint as a URI for people and other tools."""
        return self._area.uri(self._keys.savepoint(savepoint_id))

    def create(self, commit: Commit, request: SavepointRequest, live: Tree) -> Savepoint:
        """Copy a cut out of a working directory that Spark keeps using, verify the copy, and publish it.

        :param commit: ``leadership.commit``, or a coordinator's for a stopped job.
        :param live: Working directory, one directory per query.
        :returns: The savepoint; the existing one when the id was requested before.
        :raises CheckpointMissingError: Spark purged a batch of the cut: repeat the request with a newer cut.
        :raises CheckpointCorruptError: The closure or the copy is damaged; no pointer was written.
        :raises JobStateError: An earlier savepoint with that id was disposed of, and its files are still being read.
        """
        existing = self._pointers.find(request.savepoint_id)
        if existing is not None:
            return self.load(existing.record)
        self.finish_removal(commit, request.savepoint_id)
        savepoint = self.copy(request, live)
        self.publish(commit, savepoint)
        return savepoint

    def copy(self, request: SavepointRequest, live: Tree) -> Savepoint:
        """Copy the files and write the manifest, without a pointer yet. Raises as :meth:`create` does."""
        target = self._area.tree(self._keys.savepoint(request.savepoint_id))
        if target.local_path is None:
            return self._copy_in_place(request, live, target)
        directory = target.local_path
        if directory.exists():
            # Left by an attempt that died or whose outcome was unknown: without a pointer it has no owner.
            with outages("removed", directory):
                remove_tree(directory)
        # Under a unique name: a deposed leader that is still copying cannot write between these files.
        with building(directory) as hidden:
            draft = DirectoryDraft(hidden, Transfer())
            place = path_on_this_host(live)
            with tempfile.TemporaryDirectory(prefix="spark-ha-logs-") as scratch:
                parts = _parts(
                    request,
                    lambda query: LocalTree(place / query),
                    lambda query, log: _at_hand(log, request.cut[query], scratch, query),
                )
                return draft.describe(gather(draft, self._head(request), parts))

    def _copy_in_place(self, request: SavepointRequest, live: Tree, target: WritableTree) -> Savepoint:
        """Copy to storage without renames.

        A deposed leader may add files to the same directory, but replaces none (:class:`TreeDraft`).
        """
        key = self._keys.savepoint(request.savepoint_id)
        if self._area.contains(key):
            self._area.remove(key)  # as above
        draft = TreeDraft(target)
        parts: dict[str, CutPart[Tree]] = _parts(request, lambda query: live / query, lambda _, log: log.fresh())
        return draft.describe(gather(draft, self._head(request), parts))

    def _head(self, request: SavepointRequest) -> Savepoint:
        return Savepoint(
            savepoint_id=request.savepoint_id,
            job_id=self._paths.job_id,
            run=request.run,
            epoch=request.epoch,
            created_at=self._clock.now(),
            label=request.label,
            schedule=request.schedule,
            queries={},
            files={},
            graph=request.graph,
            spark_version=request.spark_version,
        )

    def receive(self, commit: Commit, stored: StoredSavepoint) -> Savepoint:
        """Copy a savepoint from elsewhere, verify and publish the copy; return an existing one with that id.

        :raises CheckpointCorruptError: It differs from its manifest, or the copy is damaged; no pointer was written.
        :raises JobStateError: An earlier savepoint with that id was disposed of, and its files are still being read.
        """
        savepoint_id = stored.savepoint.savepoint_id
        existing = self._pointers.find(check_savepoint_id(savepoint_id))
        if existing is not None:
            return self.load(existing.record)
        self.finish_removal(commit, savepoint_id)
        key = self._keys.savepoint(savepoint_id)
        if self._area.contains(key):
            self._area.remove(key)  # left by an attempt that died: without a pointer it has no owner
        savepoint = copied(stored, self._area.tree(key))
        self.publish(commit, savepoint)
        return savepoint

    def publish(self, commit: Commit, savepoint: Savepoint) -> SavepointPointer:
        """Read a savepoint again, and write its pointer when every byte matches.

        :raises CheckpointCorruptError: The first bad file; no pointer was written.
        """
        directory = self.tree(savepoint.savepoint_id)
        check(SavepointTree(directory, savepoint))
        data = manifest_bytes(directory)
        if parse_manifest(directory, data) != savepoint:
            raise CheckpointCorruptError(MANIFEST, "it differs from the written manifest")
        pointer = pointer_to(self._keys.savepoint(savepoint.savepoint_id), savepoint, data)
        self._pointers.add(commit, savepoint.savepoint_id, pointer)
        return pointer

    def verify(self, savepoint_id: str) -> list[str]:
        """Read every byte of a savepoint again and return the problems; empty when it can be restored.

        :raises CheckpointMissingError: The savepoint does not exist.
        """
        pointer = self.pointer(savepoint_id)
        try:
            savepoint = self.load(pointer)
        except CheckpointCorruptError as error:
            return [f"{error.path}: {error.reason}"]
        found = problems(SavepointTree(self._place(pointer), savepoint))
        return [f"{problem.path}: {problem.reason}" for problem in found]

    def list(self) -> PointerListing[SavepointPointer]:
        """Return the pointers, newest first, and the unreadable ones separately."""
        return read_listing(self._pointers, newest=lambda pointer: pointer.created_at)

    def pointer(self, savepoint_id: str) -> SavepointPointer:
        """Return the pointer of a savepoint.

        :raises CheckpointMissingError: The job has no savepoint with that id.
        """
        found = self._pointers.find(check_savepoint_id(savepoint_id))
        if found is None:
            raise CheckpointMissingError(
                f"job {self._paths.job_id!r} has no savepoint {savepoint_id!r}",
                next_step="List its savepoints with `spark-ha savepoint list`",
            )
        return found.record

    def has(self, savepoint_id: str) -> bool:
        """Whether a savepoint with that id exists."""
        return self._pointers.find(check_savepoint_id(savepoint_id)) is not None

    def load(self, savepoint: SavepointPointer | str) -> Savepoint:
        """Return the manifest of a savepoint.

        :param savepoint: Its pointer or its id.
        :raises CheckpointMissingError: The savepoint does not exist, or its manifest is missing.
        :raises CheckpointCorruptError: The manifest differs from the digest in the pointer.
        """
        pointer = self.pointer(savepoint) if isinstance(savepoint, str) else savepoint
        directory = self._place(pointer)
        data = manifest_bytes(directory)
        if hashlib.sha256(data).hexdigest() != pointer.manifest_sha256:
            raise CheckpointCorruptError(MANIFEST, "its digest differs from the one in the pointer")
        return _confined(parse_manifest(directory, data))

    def dispose(self, commit: Commit, savepoint_id: str) -> None:
        """Remove a savepoint: its pointer first, then its files.

        :raises JobStateError: It is being read, a live run without a checkpoint begins from it, or a run was created
            during
            the removal.
        :raises CheckpointMissingError: The job has no savepoint with that id.
        """
        self.pointer(savepoint_id)
        start = self.refuse_start(savepoint_id)
        if self._has_reader(savepoint_id):
            raise JobStateError(
                f"savepoint {savepoint_id!r} of job {self._paths.job_id!r} is being read",
                next_step="Wait until the restore that reads it has finished",
            )
        # guard: a-savepoint-takes-another-with-it
        directories = (self._keys.savepoint(savepoint_id),)  # never the directory in the pointer
        unchanged = start.unchanged
        try:
            # guard: savepoint-files-go-first
            self._pointers.mark(commit, savepoint_id, _lease(savepoint_id), directories=directories, also=unchanged)
        except (NodeExistsError, NodeMissingError, VersionConflictError) as error:
            raise JobStateError(
                f"a run of job {self._paths.job_id!r} was created while savepoint {savepoint_id!r} was being removed",
                next_step="Repeat the request",
            ) from error
        # A new reader may hold a lease: then the files stay on the list until the job's leader removes them.
        self._remover.work_off(commit, entries=self._to_delete.waiting(_lease(savepoint_id)))

    def refuse_start(self, savepoint_id: str) -> LiveRunStart:
        """Refuse the savepoint that the live run begins from and still needs; return the known start of that run.

        Its driver copies the savepoint, and would fall back to it while the run has no checkpoint.

        :raises JobStateError: It is needed.
        """
        if self._start is None:
            raise TypeError("this store does not know the starts of runs, so it removes no savepoint")
        start = self._start()
        begins = start.savepoint_id == savepoint_id and not self._has_checkpoint_of(start.run)
        if begins:  # guard: the-savepoint-of-a-run-is-removed
            raise JobStateError(
                f"run {start.run} of job {self._paths.job_id!r} starts from savepoint {savepoint_id!r}, and has "
                "taken no checkpoint yet",
                next_step="Wait for its first checkpoint, or cancel the run",
            )
        return start

    def _has_checkpoint_of(self, run: int | None) -> bool:
        found = scan(self._coordinator, self._paths.checkpoints, CheckpointPointer, is_ours=is_checkpoint).found
        return any(pointer.record.run == run for pointer in found)

    def finish_removal(self, commit: Commit, savepoint_id: str) -> None:
        """Remove the remains of a disposed savepoint with that id: a new one would have the same place (H6).

        :raises JobStateError: Its files are still being read.
        """
        entries = self._to_delete.waiting(_lease(savepoint_id))
        for postponed in self._remover.work_off(commit, entries=entries).postponed:
            raise JobStateError(
                f"an earlier savepoint {savepoint_id!r} is still being removed: {postponed.reason}",
                next_step="Choose another id, or try again later",
            )

    def retain(self, commit: Commit, retention: SavepointRetention) -> tuple[str, ...]:
        """Remove the savepoints that a schedule no longer keeps; return their ids. Its newest savepoint always stays.

        A savepoint in use by a reader or by the start of a live run stays until a later call. One with an unreadable
        pointer
        stays with its files, because its owner is unknown.
        """
        pointers = self.list().pointers
        leased = {pointer.savepoint_id for pointer in pointers if self._has_reader(pointer.savepoint_id)}
        superfluous = superfluous_savepoints(pointers, retention, now=self._clock.now(), leased=leased)
        return tuple(
            pointer.savepoint_id for pointer in superfluous if self._disposed_unless_read(commit, pointer.savepoint_id)
        )

    def _place(self, pointer: SavepointPointer) -> Tree:
        """Return the directory of a savepoint after checking that its pointer names it."""
        source = f"znode {self._paths.savepoints}/{pointer.savepoint_id}"
        key = self._area.admit(pointer.directory, inside=(self._keys.savepoints,), source=source)
        if key != self._keys.savepoint(pointer.savepoint_id):
            raise RecordCorruptError(
                f"{source} is refused, and unread: {pointer.directory!r} is the directory of another savepoint",
                next_step="Choose another savepoint",
            )
        return self.tree(pointer.savepoint_id)

    def _disposed_unless_read(self, commit: Commit, savepoint_id: str) -> bool:
        try:
            self.dispose(commit, savepoint_id)
        except JobStateError as error:  # a run begins from it, or a reader arrived since the leases were read
            log.info("savepoint %s stays until next time: %s", savepoint_id, error)
            return False
        return True

    def _has_reader(self, savepoint_id: str) -> bool:
        return bool(active(self._coordinator, self._paths, _lease(savepoint_id), self._clock))


def _parts(
    request: SavepointRequest, directory_of: Callable[[str], Dir], log_in: Callable[[str, Tree], Dir]
) -> dict[str, CutPart[Dir]]:
    logs = request.sink_logs
    if logs is None:
        logs = {
            query: sink_log(sink.path)
            for query, sink in request.sinks.items()
            if sink.kind is SinkKind.FILE and sink.path is not None
        }
    return {
        query: CutPart(
            directory=directory_of(query),
            batch=batch,
            sink=request.sinks.get(query, QuerySink(kind=SinkKind.OTHER)),
            sources=request.sources.get(query, QuerySources()),
            sink_log=log_in(query, logs[query]) if query in logs else None,
        )
        for query, batch in request.cut.items()
    }


def _at_hand(log: Tree, batch: int, scratch: str, query: str) -> LocalTree:
    """Return the part of a log that a cut needs as local files; a remote log is copied first."""
    now = log.fresh()
    if now.local_path is not None:
        return LocalTree(now.local_path)
    copy = LocalTree(Path(scratch) / query)
    for name in log_files(now, batch):
        copy.write(name, read_entry(now, name))
    return copy


def _confined(savepoint: Savepoint) -> Savepoint:
    """Return a savepoint whose names all stay inside its directory.

    :raises CheckpointCorruptError: A name leads out.
    """
    if any("/" in query for query in savepoint.queries):
        raise CheckpointCorruptError(MANIFEST, "the name of a query is not a directory name")
    for name in (*savepoint.queries, *savepoint.files):
        if not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise CheckpointCorruptError(MANIFEST, f"{name!r} leads out of the savepoint")
    return savepoint


def _lease(savepoint_id: str) -> str:
    return f"savepoint-{savepoint_id}"
