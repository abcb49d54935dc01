"""Selection of the checkpoint or savepoint for a restore: newest first, verified, rejections with file and reason.

Invariant: after a bad candidate, the next older one may follow, and the selection reports it; a failed read gives no
information about the checkpoint and stops the selection with its error (design, contract 6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointPointer, QueryCut, Savepoint, SavepointPointer
from airflow_provider_ha.checkpoints.plan_model import Candidate
from airflow_provider_ha.checkpoints.restore.restore_point import (
    CHECKPOINT,
    LATEST,
    SAVEPOINT,
    RestorePoint,
    parse_restore_point,
)
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.savepoints.manifest import check_files
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_lookup import named_savepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.checkpoints.verify.restorable import Verify, damage, verifier
from airflow_provider_ha.checkpoints.verify.verification import Depth
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ObjectMissingError,
    RecordCorruptError,
)


@dataclass(frozen=True, slots=True)
class RestoreSource:
    """Start of a restore.

    :param source: ``"checkpoint"`` or ``"savepoint"``.
    :param source_id: Number of the checkpoint, or id of the savepoint.
    :param directory: Key of the directory with the closures of the queries.
    :param graph: Digest of the job graph of its writer.
    """

    source: str
    source_id: str
    directory: str
    queries: dict[str, QueryCut]
    run: int
    epoch: int
    graph: str
    spark_version: str
    created_at: datetime

    @property
    def name(self) -> str:
        """``checkpoint-12`` or ``savepoint-<id>``: also the name of a reader's lease on it."""
        return f"{self.source}-{self.source_id}"


@dataclass(frozen=True, slots=True)
class Selection:
    """The candidates of a restore, newest first, and the chosen one."""

    candidates: tuple[Candidate, ...]
    chosen: RestoreSource | None
    job_id: str = ""
    wanted: RestorePoint = field(default_factory=RestorePoint)

    def require(self) -> RestoreSource:
        """Return the chosen candidate.

        :raises CheckpointMissingError: No candidate exists, or none can be restored.
        """
        if self.chosen is not None:
            return self.chosen
        if not self.candidates and self.wanted.before is not None:
            raise CheckpointMissingError(
                f"job {self.job_id!r} has no checkpoint and no savepoint from before {self.wanted.before.isoformat()}",
                next_step="List them with `spark-ha checkpoint list` and `spark-ha savepoint list`",
            )
        if not self.candidates:
            raise CheckpointMissingError(
                f"job {self.job_id!r} has no checkpoint and no savepoint",
                next_step="Submit it with start_from='fresh', or restore from a savepoint of another job",
                options=("start_from",),
            )
        reasons = "; ".join(f"{item.source}: {item.file or 'record'}: {item.reason}" for item in self.candidates)
        raise CheckpointMissingError(
            f"none of {len(self.candidates)} candidate(s) of job {self.job_id!r} can be restored: {reasons}",
            next_step="Check them with `spark-ha checkpoint verify`, or restore from a savepoint",
        )


def select(
    checkpoints: CheckpointStore,
    savepoints: SavepointStore,
    area: WorkArea,
    *,
    start_from: str = LATEST,
    fallback: bool = True,
    depth: Depth = "full",
    spark_version: str | None = None,
    verify: Verify | None = None,
    now: datetime | None = None,
    passed_over: Mapping[str, str] | None = None,
) -> Selection:
    """Return the newest restorable candidate, with the candidates examined before it.

    :param area: Work area with the retained directories and savepoints.
    :param start_from: ``"latest"``, ``"checkpoint-<n>"``, ``"savepoint-<id>"`` or ``"before <time>"`` (:mod:`.wanted`).
    :param fallback: Whether to skip a bad candidate for the next older one.
    :param depth: Depth of the verification; the digests of a savepoint are compared when ``"full"``.
    :param spark_version: The release for the start; by default the installed one.
    :param verify: Verification of a query's directory, in place of the default.
    :param now: The current time, for a time of day; by default the host's.
    :param passed_over: Reasons to skip candidates, by name such as ``checkpoint-12``.
    :raises ConfigurationError: *start_from* has no such form.
    :raises CheckpointMissingError: The named checkpoint or savepoint does not exist.
    :raises StorageUnavailableError: A candidate could not be read.
    """
    look = verify or verifier(depth, spark_version)
    selector = _Selector(checkpoints, savepoints, area, depth, look, passed_over or {})
    return selector.select(parse_restore_point(start_from, now=now or datetime.now(timezone.utc)), fallback=fallback)


@dataclass(frozen=True, slots=True)
class _Selector:
    """Iterates over the checkpoints and savepoints of a job."""

    _checkpoints: CheckpointStore
    _savepoints: SavepointStore
    _area: WorkArea
    _depth: Depth
    _verify: Verify
    _passed_over: Mapping[str, str]

    def select(self, wanted: RestorePoint, *, fallback: bool) -> Selection:
        candidates: list[Candidate] = []
        for look in self._looks(wanted):
            candidate, chosen = look()
            candidates.append(candidate)
            if chosen is not None:
                return Selection(tuple(candidates), chosen, self._checkpoints.job_id, wanted)
            if not fallback:  # guard: wish-is-taken-for-a-selection
                break
        return Selection(tuple(candidates), None, self._checkpoints.job_id, wanted)

    def _looks(self, wanted: RestorePoint) -> Iterator[Callable[[], _Look]]:
        """Yield a check per candidate, newest first, beginning with the wanted one."""
        if wanted.savepoint_id is not None:
            first = named_savepoint(self._savepoints, wanted.savepoint_id)
            older = [pointer for pointer in self._savepoints.list() if pointer.created_at < first.created_at]
            yield from (_bind(self._look_at_savepoint, pointer) for pointer in (first, *older))
        elif wanted.before is not None:
            yield from self._taken_before(wanted.before)
        else:
            if wanted.number is not None:
                self._checkpoints.pointer(wanted.number)
            yield from self._by_number(wanted.number)

    def _by_number(self, highest: int | None) -> Iterator[Callable[[], _Look]]:
        """Yield checkpoints by number, then savepoints: numbers are an order independent of clocks."""
        checkpoints, savepoints = self._checkpoints.list(), self._savepoints.list()
        looks: dict[int, Callable[[], _Look]] = {
            pointer.number: _bind(self._look_at_checkpoint, pointer) for pointer in checkpoints
        }
        looks |= {
            int(pointer.name): _bind(_unreadable, f"{CHECKPOINT}-{int(pointer.name)}", pointer.reason)
            for pointer in checkpoints.unreadable
        }
        # guard: oldest-checkpoint-wins
        yield from (looks[number] for number in sorted(looks, reverse=True) if highest is None or number <= highest)
        yield from (_bind(self._look_at_savepoint, pointer) for pointer in savepoints)
        for broken in savepoints.unreadable:
            yield _bind(_unreadable, f"{SAVEPOINT}-{broken.name}", broken.reason)

    def _taken_before(self, moment: datetime) -> Iterator[Callable[[], _Look]]:
        """Return both kinds by the time at which they were taken; pointers without a readable time come first."""
        checkpoints, savepoints = self._checkpoints.list(), self._savepoints.list()
        for kind, listing in ((CHECKPOINT, checkpoints), (SAVEPOINT, savepoints)):
            yield from (_bind(_unreadable, f"{kind}-{each.name}", each.reason) for each in listing.unreadable)
        taken = [
            *((pointer.created_at, _bind(self._look_at_checkpoint, pointer)) for pointer in checkpoints),
            *((pointer.created_at, _bind(self._look_at_savepoint, pointer)) for pointer in savepoints),
        ]
        before = [each for each in taken if each[0] < moment]
        yield from (look for _, look in sorted(before, key=lambda each: each[0], reverse=True))

    def _look_at_checkpoint(self, pointer: CheckpointPointer) -> _Look:
        seen = Candidate(
            source=f"{CHECKPOINT}-{pointer.number}",
            number=pointer.number,
            cut=pointer.cut,
            created_at=pointer.created_at,
            accepted=False,
        )
        if (refused := self._passed_over.get(seen.source)) is not None:
            return _rejected(seen, None, refused), None
        try:
            payload = self._checkpoints.load(pointer)
            directory = self._area.tree(self._checkpoints.directory(payload))
        except (RecordCorruptError, ObjectMissingError) as error:
            return _rejected(seen, pointer.payload, error.message), None
        problem = damage(directory, pointer.cut, self._verify)
        if problem is not None:
            return _rejected(seen, problem.path, problem.reason), None
        return _accepted(seen, payload.pin or payload.directory, payload)

    def _look_at_savepoint(self, pointer: SavepointPointer) -> _Look:
        seen = Candidate(
            source=f"{SAVEPOINT}-{pointer.savepoint_id}",
            savepoint_id=pointer.savepoint_id,
            cut=pointer.cut,
            created_at=pointer.created_at,
            accepted=False,
        )
        if (refused := self._passed_over.get(seen.source)) is not None:
            return _rejected(seen, None, refused), None
        try:
            savepoint = self._savepoints.load(pointer)  # refuses a pointer to another directory
        except CheckpointCorruptError as error:
            return _rejected(seen, error.path, error.reason), None
        except (CheckpointMissingError, RecordCorruptError) as error:
            return _rejected(seen, None, error.message), None
        root = self._area.tree(pointer.directory)
        bad = check_files(root, savepoint, digests=self._depth == "full")
        problem = bad[0] if bad else damage(root, pointer.cut, self._verify)
        if problem is not None:
            return _rejected(seen, problem.path, problem.reason), None
        return _accepted(seen, pointer.directory, savepoint)


_Look = tuple[Candidate, RestoreSource | None]


def _bind(look: Callable[..., _Look], *arguments: object) -> Callable[[], _Look]:
    return lambda: look(*arguments)


def _accepted(candidate: Candidate, directory: str, record: Checkpoint | Savepoint) -> _Look:
    source, _, source_id = candidate.source.partition("-")
    chosen = RestoreSource(
        source=source,
        source_id=source_id,
        directory=directory,
        queries=record.queries,
        run=record.run,
        epoch=record.epoch,
        graph=record.graph,
        spark_version=record.spark_version,
        created_at=record.created_at,
    )
    return candidate.model_copy(update={"accepted": True}), chosen


def _rejected(candidate: Candidate, file: str | None, reason: str) -> Candidate:
    return candidate.model_copy(update={"file": file, "reason": reason})


def _unreadable(source: str, reason: str) -> _Look:
    never = datetime.fromtimestamp(0, tz=timezone.utc)
    return Candidate(source=source, cut={}, created_at=never, accepted=False, reason=reason), None
