"""Journal of a job's runs in storage, sufficient to rebuild the job's znodes.

Invariant: blob first, pointer second (contract 2). An entry is written before the znode that it repeats, so the journal
has every acknowledged write. It may also have a write that ZooKeeper never accepted: the entry's name identifies its
writer (the submission's id, the leader's epoch), no writer overwrites another's entry, and ``jobs.rebuild`` decides
which write counted. An epoch that repeats after a loss of ZooKeeper's data gets a second name. Checkpoints and
savepoints need no entry: their payloads and manifests describe themselves.

If a job began anew after a loss of ZooKeeper's data, storage still holds its earlier life, and a cleanup would take its
directories and records for garbage. `spark-ha cluster rebuild` needs them; see :func:`has_earlier_life`.
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
    """A submission about to be created, and its run.

    :param run: The run as its node has it. A run without a submission was never acknowledged to a caller.
    """

    kind: ClassVar[str] = "journal-submission"

    job_id: str
    run: Run
    submission: Submission


class StartedEntry(Record):
    """The engine's response to a submission."""

    kind: ClassVar[str] = "journal-started"

    job_id: str
    run: int
    attempt: int
    submission_id: str
    started: SubmissionStarted


class ResultEntry(Record):
    """A result about to be written by a leader."""

    kind: ClassVar[str] = "journal-result"

    job_id: str
    run: int
    result: RunResult


class GenerationEntry(Record):
    """A complete working directory about to become current.

    :param noted_at: Time at which storage received the entry; set when an entry is read.
    """

    kind: ClassVar[str] = "journal-generation"

    job_id: str
    generation: Generation
    noted_at: datetime | None = None


class MoveEntry(Record):
    """The target of a move about to begin.

    It keeps the old place from starting the job again after a loss of ZooKeeper's data.
    """

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
    """An existing entry that cannot be read.

    :param key: Its storage key.
    :param reason: Description of the error.
    """

    key: str
    reason: str


class JobJournal:
    """A job's journal. Owns nothing; safe in any thread."""

    def __init__(self, store: ObjectStore, keys: JobKeys) -> None:
        self._store = store
        self._keys = keys
        self._written: set[str] = set()

    def submission(self, run: Run, submission: Submission) -> None:
        """Record a submission, before its node is created.

        :raises StorageError: The entry could not be written: the node must not be created.
        """
        key = self._keys.journal("submission", f"{run.number}-{submission.attempt}-{submission.submission_id}")
        self._create(key, SubmissionEntry(job_id=self._keys.job_id, run=run, submission=submission))

    def started(self, run: int, submission: Submission, started: SubmissionStarted) -> None:
        """Record that a submission runs. Errors are only logged: the entry serves the count of attempts alone."""
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
            log.warning("the start of submission %s is not recorded in storage: %s", submission.submission_id, error)

    def result(self, run: int, result: RunResult) -> None:
        """Record a result, before its node is created; a leader that tries again replaces its own entry.

        :raises StorageError: The entry could not be written: the node must not be created.
        """
        entry = ResultEntry(job_id=self._keys.job_id, run=run, result=result)
        self._note("result", f"{run}-e{result.epoch}", entry)

    def generation(self, generation: Generation) -> None:
        """Record a working directory, before the node that makes it current is set.

        :raises StorageError: The entry could not be written: the directory must not become current.
        """
        entry = GenerationEntry(job_id=self._keys.job_id, generation=generation)
        self._note("generation", f"e{generation.epoch}", entry)

    def moved(self, moved: MoveRecord) -> None:
        """Record the target of a move, before its node is created or set.

        :raises StorageError: The entry could not be written: the node must not be written.
        """
        entry = MoveEntry(job_id=self._keys.job_id, moved=moved)
        self._store.write(self._keys.journal("moved", moved.move_id), entry.to_bytes())

    def stays(self) -> None:
        """Remove the entries of all moves, after the removal of the node: the job has come back, or never left.

        :raises StorageError: Storage could not be read or written.
        """
        for info in list(self._store.list(self._keys.journal("moved", "").removesuffix(".json"))):
            self._store.delete(info.key)

    def read(self) -> tuple[list[JournalEntry], list[UnreadableEntry]]:
        """Return the readable entries, and the unreadable ones.

        :raises StorageUnavailableError: Storage could not be read, so the past of the job is unknown.
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
                continue  # removed after the names were read
            except RecordCorruptError as error:
                unreadable.append(UnreadableEntry(info.key, error.message))
        return entries, unreadable

    def submissions_before(self, moment: Callable[[], datetime | None]) -> Iterator[SubmissionEntry]:
        """Yield the submissions of runs created before a moment; unreadable entries are left out.

        :param moment: Function that returns the moment, called once if there are submissions; ``None``: no submission
            is earlier.
        :raises StorageUnavailableError: Storage could not be read.
        """
        noted = list(self._store.list(f"{self._keys.journals}submission/"))
        limit = moment() if noted else None
        for info in noted:
            if limit is None or info.modified >= limit:
                continue  # an entry is written after the creation of its run
            with suppress(ObjectMissingError, RecordCorruptError):
                entry = SubmissionEntry.from_bytes(self._store.read(info.key), source=info.key)
                if entry.run.created_at < limit:  # the store's clock may differ
                    yield entry

    def forget(self, forgotten: Callable[[int, int], bool], *, before_epoch: int) -> Iterator[None]:
        """Remove entries that are useless for a rebuild; yield after each removal.

        :param forgotten: Function of run and attempt: whether ZooKeeper's records about it were removed.
        :param before_epoch: Entries of working directories of earlier epochs are removed.
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
        """Remove the entries of removed runs; yield after each removal.

        :param removed: Function of a run: whether ZooKeeper's records about it were removed.
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
        """Write an entry under its name; use a second name if another writer has the first one."""
        key = self._keys.journal(kind, name)
        if key in self._written:
            self._store.write(key, entry.to_bytes())
            return
        try:
            self._store.create(key, entry.to_bytes())
            self._written.add(key)
        except ObjectExistsError:
            log.warning(
                "%s belongs to another leader of this epoch; it remains, and this entry receives another name", key
            )
            self._store.create(self._keys.journal(kind, f"{name}-{new_id()[:12]}"), entry.to_bytes())

    def _create(self, key: str, entry: JournalEntry) -> None:
        try:
            self._store.create(key, entry.to_bytes())
        except ObjectExistsError:
            log.info("%s was written before", key)  # by this writer: the name is unique to it


def has_earlier_life(coordinator: Coordinator, paths: JobPaths, journal: JobJournal) -> bool:
    """Return whether the journal has a submission of a run created before the oldest run in ZooKeeper.

    Runs that ZooKeeper has removed do not count.

    :raises RecordCorruptError: The oldest run cannot be read, so the answer is unknown.
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
                "no past run of job %s is removed: run %d of request %r was created before ZooKeeper knew the job",
                paths.job_id,
                entry.run.number,
                entry.run.request_id,
            )
            return True
    return False
