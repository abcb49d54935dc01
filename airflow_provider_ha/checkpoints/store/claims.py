"""Claims of a job: recorded with a run's first checkpoint, removed pointer first, then files; and the runs in use.

Invariants: ownership passes in the transaction that publishes the first checkpoint of the restored run. Before it the
restore may still fail, and the user owns the source; after it the job has a checkpoint that survives crashes. A source
is claimed once. It is marked for deletion when the job has taken as many later checkpoints as it retains, the newest
with pinned files; until then a restore would fall back to it. The list of deletions removes it, once its readers'
leases have ended.

Invariant: a removal outside of the cluster deletes only Spark's files of the claimed query, by name, and only while the
directory has the same query id and no later batch. A path that was replaced, is in use again, or is in a record by
mistake, loses no file. The id goes last, so that an interrupted removal can continue.

Invariant: an unreadable object may refer to any run, so it is an error (contract 6).
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.model import CheckpointPointer, Claim, SavepointPointer
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint, ClaimMode
from airflow_provider_ha.checkpoints.plan_model import RestorePlan
from airflow_provider_ha.checkpoints.spark.atomic import hidden_checksum
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, METADATA, OFFSETS, SOURCES, STATE, progress
from airflow_provider_ha.checkpoints.spark.files import names
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import read_query_id
from airflow_provider_ha.checkpoints.store.pointer_scan import Commit, P, PointerScan, ScannedPointer, decode, scan
from airflow_provider_ha.checkpoints.store.pointer_store import PointerStore
from airflow_provider_ha.checkpoints.store.removal import DeletionList, thing_of, waiting
from airflow_provider_ha.checkpoints.store.retention_policy import outlived
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Op, Reads, SetData
from airflow_provider_ha.coordination.node_names import is_checkpoint, is_plain, node_number, node_numbers
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.reader_leases import active
from airflow_provider_ha.errors import CheckpointCorruptError, RecordCorruptError, StorageUnavailableError
from airflow_provider_ha.storage.durable import flush_directory
from airflow_provider_ha.storage.keys import JobKeys


log = logging.getLogger(__name__)

_CLAIM = "claim"  # name of the node below the run
_AT_ONCE = 500  # nodes requested before the first answer


@dataclass(frozen=True, slots=True)
class _Claimed:
    """A claimed source.

    :param what: Name of the readers' leases on it.
    """

    what: str
    run: int
    mark: Callable[[Commit], object]


class Claims:
    """Claims of a job. For one thread at a time.

    Only the leader of the job claims, with its first checkpoint: the claims to subsume are read once, after it.
    """

    def __init__(self, coordinator: Coordinator, paths: JobPaths, to_delete: DeletionList, clock: Clock) -> None:
        self._coordinator = coordinator
        self._paths = paths
        self._to_delete = to_delete
        self._clock = clock
        self._savepoints = PointerStore(
            coordinator, paths.savepoints, SavepointPointer, to_delete=to_delete, is_ours=is_plain
        )
        self._open: list[_Claimed] | None = None

    def ops(self, plan: RestorePlan, *, run: int, epoch: int) -> list[Op]:
        """Return operations of the first checkpoint's transaction that make the job the owner of *plan*'s source.

        Empty for ``NO_CLAIM``, for a checkpoint, which the job already owns, and for an existing claim.
        """
        if plan.claim_mode is not ClaimMode.CLAIM:  # guard: unclaimed-savepoints-go
            return []
        if plan.adopted:
            if self._coordinator.find(self._paths.run_claim(run)) is not None:
                return []
            claim = Claim(run=run, epoch=epoch, adopted=plan.adopted, at=self._clock.now())
            return [Create(self._paths.run_claim(run), claim.to_bytes())]
        if plan.source != "savepoint":
            return []
        found = self._savepoints.find(plan.source_id)
        if found is None or found.record.claimed_by is not None:
            return []
        claimed = found.record.model_copy(update={"claimed_by": run})
        return [SetData(self._paths.savepoint(found.name), claimed.to_bytes(), found.version)]

    def subsume(
        self,
        commit: Commit,
        pointers: Sequence[CheckpointPointer],
        keep: int,
        pinned: Callable[[CheckpointPointer], bool],
    ) -> tuple[str, ...]:
        """Mark claims for deletion that later checkpoints have replaced; return them.

        :param pointers: The job's checkpoints, newest first.
        :raises LeadershipError: This process may no longer write for the job.
        """
        if self._open is None:
            self._open = [*self._claimed_savepoints(), *self._claimed_directories()]
        marked = []
        for claimed in list(self._open):
            newer = [pointer for pointer in pointers if pointer.run >= claimed.run]
            # guard: claims-go-under-their-readers
            if not outlived(newer, keep) or not pinned(newer[0]) or self._is_read(claimed.what):
                continue
            claimed.mark(commit)
            self._open.remove(claimed)
            marked.append(claimed.what)
            log.info("%s, which run %d has claimed, is no longer needed", claimed.what, claimed.run)
        return tuple(marked)

    def remove(self, what: str, adopted: AdoptedCheckpoint) -> None:
        """Remove a directory outside of the cluster, for an entry of the list of deletions.

        :raises RecordCorruptError: That run has not claimed it, or the job still needs it; it is kept.
        :raises StorageUnavailableError: It could not be read or removed: the next call continues.
        """
        kind, _, run = what.partition("-")
        number = node_number(run) if kind == _CLAIM else None
        found = self._claims_of(number).find(_CLAIM) if number is not None else None
        # guard: any-claim-will-do
        if found is None or not found.record.given_up or adopted not in found.record.adopted.values():
            raise RecordCorruptError(
                f"{adopted.path} stays: the claim of {what!r} of job {self._paths.job_id!r} does not name it",
                next_step="Remove the directory manually when it is not needed, then remove the entry",
            )
        remove_adopted(adopted)

    def _claimed_savepoints(self) -> Iterator[_Claimed]:
        for found in self._savepoints.scan().found:
            pointer = found.record
            if pointer.claimed_by is not None:
                yield _Claimed(f"savepoint-{found.name}", pointer.claimed_by, self._savepoint_mark(found.name))

    def _savepoint_mark(self, name: str) -> Callable[[Commit], object]:
        directories = (JobKeys(self._paths.job_id).savepoint(name),)  # never the directory in the pointer
        return lambda commit: self._savepoints.mark(commit, name, f"savepoint-{name}", directories=directories)

    def _claimed_directories(self) -> Iterator[_Claimed]:
        for run, found in claims_of_runs(self._coordinator, self._paths).items():
            if not found.record.given_up:
                mark = self._directory_mark(self._claims_of(run), found, f"{_CLAIM}-{run}")
                yield _Claimed(f"{_CLAIM}-{run}", run, mark)

    def _directory_mark(
        self, claims: PointerStore[Claim], found: ScannedPointer[Claim], what: str
    ) -> Callable[[Commit], None]:
        """Return the operation that marks the claim as given up. The claim stays: it authorizes the removal."""
        given_up = found.record.model_copy(update={"given_up": True})
        adopted = tuple(found.record.adopted.values())
        # The entry is created with the mark: it has the time, and a claim that is never given up has no entry.
        return lambda commit: claims.replace(
            commit, found, given_up, None, self._to_delete.entry(what, adopted=adopted)
        )

    def _claims_of(self, run: int) -> PointerStore[Claim]:
        return PointerStore(self._coordinator, self._paths.run(run), Claim, to_delete=self._to_delete)

    def _is_read(self, what: str) -> bool:
        return bool(active(self._coordinator, self._paths, what, self._clock))


def claims_of_runs(coordinator: Coordinator, paths: JobPaths) -> dict[int, ScannedPointer[Claim]]:
    """Return the directories claimed by runs, by run, including those no longer needed.

    :raises RecordCorruptError: A claim cannot be read.
    """
    numbers = node_numbers(coordinator.children(paths.runs), parent=paths.runs)
    found: dict[int, ScannedPointer[Claim]] = {}
    for start in range(0, len(numbers), _AT_ONCE):
        claims = {number: paths.run_claim(number) for number in numbers[start : start + _AT_ONCE]}
        nodes = coordinator.read(Reads(tuple(claims.values()))).nodes
        found |= {number: decode(node, Claim) for number, path in claims.items() if (node := nodes[path]) is not None}
    return found


def runs_in_use(coordinator: Coordinator, paths: JobPaths) -> frozenset[int]:
    """Return the runs whose records must stay because of their checkpoints and claims.

    An unclaimed savepoint does not need a run: its manifest has graph, cut and files.

    :raises RecordCorruptError: A pointer or a claim cannot be read.
    """
    checkpoints = _whole(scan(coordinator, paths.checkpoints, CheckpointPointer, is_ours=is_checkpoint))
    savepoints = _whole(scan(coordinator, paths.savepoints, SavepointPointer, is_ours=is_plain))
    found = {pointer.run for pointer in checkpoints}  # guard: runs-of-checkpoints-go
    found |= {pointer.claimed_by for pointer in savepoints if pointer.claimed_by is not None}
    return frozenset(found | _claims(coordinator, paths))


def _whole(found: PointerScan[P]) -> list[P]:
    for unreadable in found.unreadable:  # guard: runs-go-beside-what-cannot-be-read
        raise RecordCorruptError(f"{unreadable.name} may refer to any run: {unreadable.reason}")
    return [pointer.record for pointer in found.found]


def _claims(coordinator: Coordinator, paths: JobPaths) -> set[int]:
    """Return the runs whose claim of directories is open, or still needed to remove them."""
    claims = claims_of_runs(coordinator, paths)
    found = {run for run, claim in claims.items() if not claim.record.given_up}  # guard: runs-with-open-claims-go
    listed = (thing_of(entry).partition("-") for entry in waiting(coordinator, paths.cluster, paths.job_id))
    return found | {run for kind, _, name in listed if kind == "claim" and (run := node_number(name)) is not None}


def remove_adopted(claimed: AdoptedCheckpoint) -> None:
    """Remove a claimed checkpoint directory. Repeatable; files that are not Spark's stay, with their directory.

    :raises StorageUnavailableError: It could not be read or removed: the next call continues.
    """
    directory = Path(claimed.path)
    if directory.is_symlink() or not directory.is_dir():
        log.info("%s is no longer a directory: no file is removed", directory)
        return
    other = _changed(directory, claimed) if names(LocalTree(directory)) else ""
    if other:
        log.warning("%s stays: %s", directory, other)
        return
    try:
        _remove_parts(directory)
    except OSError as error:
        raise StorageUnavailableError(
            f"claimed checkpoint {directory} could not be removed: {error}",
            next_step="Check the file system (rights, mounts); the job's leader tries again",
        ) from error


def _changed(directory: Path, claimed: AdoptedCheckpoint) -> str:
    """Return why a directory differs from the claim; empty when it matches or is the remains of a removal.

    A removal that was interrupted at its last step leaves an empty directory.
    """
    try:
        found = read_query_id(LocalTree(directory))
    except CheckpointCorruptError as error:
        return f"it is no longer a checkpoint of query {claimed.query_id} ({error.reason})"
    if found != claimed.query_id:
        return f"it is now a checkpoint of query {found}, not of {claimed.query_id}"
    now = progress(LocalTree(directory))
    if now.planned > claimed.planned or now.committed > claimed.committed:
        return f"its query has advanced from batch {claimed.committed} to {now.planned} since it was claimed"
    return ""


def _remove_parts(directory: Path) -> None:
    for part in (STATE, SOURCES, COMMITS, OFFSETS):
        place = directory / part
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
    flush_directory(directory)
    for path in (hidden_checksum(directory / METADATA), directory / METADATA):
        path.unlink(missing_ok=True)
    left = sorted(path.name for path in directory.iterdir())
    if left:
        log.warning("%s stays, because it has files that are not Spark's: %s", directory, ", ".join(left[:5]))
        return
    directory.rmdir()
    flush_directory(directory.parent)
