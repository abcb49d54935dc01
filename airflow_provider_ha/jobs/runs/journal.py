"""Journal of a job's runs in storage: enough to rebuild its znodes.

Invariant: blob first, pointer second (contract 2). An entry is written before the znode that it repeats, so what was
ever acknowledged is here. The other way round an entry may be of a write that ZooKeeper never took: its name
identifies its writer (the submission's id, the leader's epoch), no writer overwrites another's, and ``control.rebuild``
decides which one counted. An epoch that comes twice, because ZooKeeper has lost its data in between, gets a second
name. Checkpoints and savepoints need no entry: their payloads and manifests describe themselves.

A job that was begun anew after ZooKeeper had lost its data has a first life in storage, whose directories and records
have the names that a clean-up looks for. `spark-ha rebuild` needs them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import ObjectExistsError, ObjectMissingError, RecordCorruptError, StorageError
from airflow_provider_ha.jobs.model import Generation, Run, RunResult
from airflow_provider_ha.jobs.move.move_records import MoveRecord
from airflow_provider_ha.jobs.removal.removal_records import RemovedRunStore
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.runs.submissions import Submission, SubmissionStarted
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore


log = logging.getLogger(__name__)
_ATTEMPT = re.compile(r"(\d+)-(\d+)-")
_RUN = re.compile(r"(\d+)-")
_EPOCH = re.compile(r"e(\d+)(?:-[0-9a-f]+)?\.json")


class SubmissionEntry(Record):
    """A submission that a process was about to make, and the run that it is of.

    :param run: The run as its node holds it. A run without a submission was never acknowledged to any caller.
    """

    kind: ClassVar[str] = "journal-submission"

    job_id: str
    run: Run
    submission: Submission


class StartedEntry(Record):
    """What the engine said when it took a submission."""

    kind: ClassVar[str] = "journal-started"

    job_id: str
    run: int
    attempt: int
    submission_id: str
    started: SubmissionStarted


class ResultEntry(Record):
    """A result that a leader was about to write."""

    kind: ClassVar[str] = "journal-result"

    job_id: str
    run: int
    result: RunResult


class GenerationEntry(Record):
    """A working directory that a leader was about to make current; it was complete then.

    :param noted_at: When storage got it, of one that was read from there.
    """

    kind: ClassVar[str] = "journal-generation"

    job_id: str
    generation: Generation
    noted_at: datetime | None = None


class MoveEntry(Record):
    """Where the job was about to go: without it, ZooKeeper's loss would let its old place start it again."""

    kind: ClassVar[str] = "journal-moved"

    job_id: str
    moved: MoveRecord


JournalEntry = SubmissionEntry | StartedEntry | ResultEntry | GenerationEntry | MoveEntry
_KINDS: dict[str, type[JournalEntry]] = {
    "submission": SubmissionEntry,
    "started": StartedEntry,
    "result": ResultEntry,
    "generation": GenerationEntry,
    "moved": MoveEntry,
}


@dataclass(frozen=True, slots=True)
class UnreadableEntry:
    """An entry that is there and cannot be read.

    :param key: Its key.
    :param reason: What is wrong with it.
    """

    key: str
    reason: str


class JobJournal:
    """The journal of one job. Owns nothing; safe in any thread."""

    def __init__(self, store: ObjectStore, keys: JobKeys) -> None:
        self._store = store
        self._keys = keys
        self._written: set[str] = set()

    def submission(self, run: Run, submission: Submission) -> None:
        """Note a submission, before its node is made.

        :raises StorageError: It could not be written: then no node may be made.
        """
        key = self._keys.journal("submission", f"{run.number}-{submission.attempt}-{submission.submission_id}")
        self._create(key, SubmissionEntry(job_id=self._keys.job_id, run=run, submission=submission))

    def started(self, run: int, submission: Submission, started: SubmissionStarted) -> None:
        """Note that a submission runs. Only the count of attempts needs it, so what hinders it is no error."""
        entry = StartedEntry(
            job_id=self._keys.job_id,
            run=run,
            attempt=submission.attempt,
            submission_id=submission.submission_id,
            started=started,
        )
        key = self._keys.journal("started", f"{run}-{submission.attempt}-{submission.submission_id}")
        try:
            self._create(key, entry)
        except StorageError as error:
            log.warning("that submission %s runs is not noted in storage: %s", submission.submission_id, error)

    def result(self, run: int, result: RunResult) -> None:
        """Note a result, before its node is made; a leader that tries again replaces its own note.

        :raises StorageError: It could not be written: then no node may be made.
        """
        entry = ResultEntry(job_id=self._keys.job_id, run=run, result=result)
        self._note("result", f"{run}-e{result.epoch}", entry)

    def generation(self, generation: Generation) -> None:
        """Note a working directory, before the node that makes it current is set.

        :raises StorageError: It could not be written: then the directory may not become current.
        """
        entry = GenerationEntry(job_id=self._keys.job_id, generation=generation)
        self._note("generation", f"e{generation.epoch}", entry)

    def moved(self, moved: MoveRecord) -> None:
        """Note where the job goes, before the node that says so is made, or set.

        :raises StorageError: It could not be written: then the node may not be made.
        """
        entry = MoveEntry(job_id=self._keys.job_id, moved=moved)
        self._store.write(self._keys.journal("moved", moved.move_id), entry.to_bytes())

    def stays(self) -> None:
        """Forget every move: the job has come back, or was never gone. After the node is removed.

        :raises StorageError: Storage could not be read or written.
        """
        for info in list(self._store.list(self._keys.journal("moved", "").removesuffix(".json"))):
            self._store.delete(info.key)

    def read(self) -> tuple[list[JournalEntry], list[UnreadableEntry]]:
        """Return every entry, and beside them those that cannot be read.

        :raises StorageUnavailableError: Storage could not be read: nothing is known about the job.
        """
        entries: list[JournalEntry] = []
        unreadable: list[UnreadableEntry] = []
        for info in self._store.list(self._keys.journals):
            kind = info.key.removeprefix(self._keys.journals).partition("/")[0]
            try:
                entry = self._entry(kind, info.key)
                if isinstance(entry, GenerationEntry):
                    entry = entry.model_copy(update={"noted_at": info.modified})
                entries.append(entry)
            except ObjectMissingError:
                continue  # removed since the names were read
            except RecordCorruptError as error:
                unreadable.append(UnreadableEntry(info.key, error.message))
        return entries, unreadable

    def submissions_before(self, moment: Callable[[], datetime | None]) -> Iterator[SubmissionEntry]:
        """Yield the submissions of runs that were made before *moment*; those that cannot be read are left out.

        :param moment: Asked once, where there is any submission; ``None`` when nothing is before it.
        :raises StorageUnavailableError: Storage could not be read.
        """
        noted = list(self._store.list(f"{self._keys.journals}submission/"))
        limit = moment() if noted else None
        for info in noted:
            if limit is None or info.modified >= limit:
                continue  # an entry is written after its run is made
            with suppress(ObjectMissingError, RecordCorruptError):
                entry = SubmissionEntry.from_bytes(self._store.read(info.key), source=info.key)
                if entry.run.created_at < limit:  # the store may have another clock
                    yield entry

    def forget(self, forgotten: Callable[[int, int], bool], *, before_epoch: int) -> Iterator[None]:
        """Remove entries that no rebuild needs any more; yields after each.

        :param forgotten: Whether ZooKeeper was made to forget that attempt of that run.
        :param before_epoch: Working directories of earlier epochs are forgotten.
        :raises StorageError: Storage could not be read or written.
        """
        for kind in ("submission", "started"):
            prefix = f"{self._keys.journals}{kind}/"
            for key in [info.key for info in self._store.list(prefix)]:
                found = _ATTEMPT.match(key.removeprefix(prefix))
                if found and forgotten(int(found[1]), int(found[2])):
                    self._store.delete(key)
                    yield
        prefix = f"{self._keys.journals}generation/"
        for key in [info.key for info in self._store.list(prefix)]:
            written = _EPOCH.fullmatch(key.removeprefix(prefix))
            if written and int(written[1]) < before_epoch:
                self._store.delete(key)
                yield

    def forget_runs(self, removed: Callable[[int], bool]) -> Iterator[None]:
        """Remove the entries of runs that are removed; yields after each.

        :param removed: Whether ZooKeeper was made to forget that run.
        :raises StorageError: Storage could not be read or written.
        """
        for kind in ("submission", "started", "result"):
            prefix = f"{self._keys.journals}{kind}/"
            for key in [info.key for info in self._store.list(prefix)]:
                found = _RUN.match(key.removeprefix(prefix))
                if found and removed(int(found[1])):
                    self._store.delete(key)
                    yield

    def _entry(self, kind: str, key: str) -> JournalEntry:
        record = _KINDS.get(kind)
        if record is None:
            raise RecordCorruptError(f"{key} is of a kind that this release does not know")
        return record.from_bytes(self._store.read(key), source=key)

    def _note(self, kind: str, name: str, entry: JournalEntry) -> None:
        """Write an entry under its name, again when it is this writer's, else under a second one."""
        key = self._keys.journal(kind, name)
        if key in self._written:
            self._store.write(key, entry.to_bytes())
            return
        try:
            self._store.create(key, entry.to_bytes())
            self._written.add(key)
        except ObjectExistsError:
            log.warning("%s is of another leader of this epoch; it stays, and this one is noted beside it", key)
            self._store.create(self._keys.journal(kind, f"{name}-{new_id()[:12]}"), entry.to_bytes())

    def _create(self, key: str, entry: JournalEntry) -> None:
        try:
            self._store.create(key, entry.to_bytes())
        except ObjectExistsError:
            log.info("%s was written before", key)  # by this very writer: the name is its own


def has_earlier_life(coordinator: Coordinator, paths: JobPaths, journal: JobJournal) -> bool:
    """Whether the journal has a submission of a run that was made before the oldest run of the tree.

    What the tree has removed is not asked for.

    :raises RecordCorruptError: The oldest run cannot be read, so nothing is known.
    :raises StorageUnavailableError: The journal could not be read.
    """
    runs = RunStore(coordinator, paths)
    numbers = runs.numbers()

    def oldest() -> datetime | None:
        found = runs.runs(numbers[:1])
        return found[numbers[0]].created_at if found else None

    for entry in journal.submissions_before(oldest):
        if entry.run.number in numbers or entry.run.number > RemovedRunStore(coordinator, paths).read().through:
            log.warning(
                "nothing of job %s is removed: run %d of request %r was made before ZooKeeper knew the job",
                paths.job_id,
                entry.run.number,
                entry.run.request_id,
            )
            return True
    return False
