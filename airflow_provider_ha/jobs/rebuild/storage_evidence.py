"""Evidence of a job in storage: journal, graphs, checkpoints and savepoints.

Invariants:

- Unreadable evidence is an error or a named problem, never a gap: a job that looks smaller than it is would get an
  epoch that was used before.
- Pointers are created only for complete objects. A payload without its pin is kept for exact replay but is no longer a
  checkpoint. Without pins, as on S3 and HDFS, the same holds for a payload whose batches the collector has removed from
  the logs of its working directory. A directory without a manifest, or whose files differ from its manifest, is no
  savepoint.
- Of two payloads with the same number, the payload with the higher epoch counts: the other leader lost the job before
  it could write its pointer.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.areas.working_records import missing_entry
from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointKind, CheckpointPointer, SavepointPointer
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, OFFSETS
from airflow_provider_ha.checkpoints.store.payload_history import PayloadHistory
from airflow_provider_ha.checkpoints.store.savepoints.manifest import (
    check_files,
    manifest_bytes,
    parse_manifest,
    pointer_to,
)
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ConfigurationError,
    ObjectMissingError,
    RecordCorruptError,
)
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.runs.journal import JobJournal, JournalEntry
from airflow_provider_ha.names import check_job_id
from airflow_provider_ha.storage import keys as storage_keys
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore


@dataclass(frozen=True, slots=True)
class CheckpointEvidence:
    """A payload.

    :param pointer: The pointer that its writer has created, or was about to create.
    :param graph: Digest of the job graph that wrote it.
    :param pinned: Whether its files exist.
    """

    pointer: CheckpointPointer
    graph: str
    pinned: bool


@dataclass(frozen=True, slots=True)
class SavepointEvidence:
    """A complete savepoint.

    :param pointer: The pointer that its writer has created.
    """

    pointer: SavepointPointer
    run: int
    epoch: int


def checkpoint_pointer(key: str, data: bytes) -> tuple[CheckpointPointer, Checkpoint]:
    """Return the pointer to a payload, and the payload.

    :raises RecordCorruptError: The payload is damaged.
    """
    checkpoint = Checkpoint.from_bytes(data, source=key)
    pointer = CheckpointPointer(
        number=checkpoint.number,
        epoch=checkpoint.epoch,
        run=checkpoint.run,
        reason=checkpoint.reason,
        payload=key,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        cut={query: part.batch for query, part in checkpoint.queries.items()},
        created_at=checkpoint.created_at,
        seconds=checkpoint.seconds,
        state_size=checkpoint.state_size,
    )
    return pointer, checkpoint


def find_checkpoints(
    store: ObjectStore, keys: JobKeys, area: WorkArea, problems: list[str]
) -> Iterator[CheckpointEvidence]:
    """Yield every readable payload, ascending by number and epoch, then the known facts about archived ones.

    :param problems: Receives a sentence for each unreadable payload.
    :raises StorageUnavailableError: Storage could not be read; a partial result is never passed off as the whole.
    """
    logs = _Logs(area)
    for info in store.list(keys.payloads):
        try:
            pointer, checkpoint = checkpoint_pointer(info.key, store.read(info.key))
        except ObjectMissingError:
            continue  # removed by the collector after the names were read
        except RecordCorruptError as error:
            problems.append(error.message)
            continue
        try:
            pinned = _is_kept(area, keys, checkpoint, info.key, logs)
        except (RecordCorruptError, CheckpointCorruptError) as error:
            problems.append(error.message)
            continue
        yield CheckpointEvidence(pointer, checkpoint.graph, pinned)
    yield from _archived(PayloadHistory(store, keys), keys, problems)


def _archived(history: PayloadHistory, keys: JobKeys, problems: list[str]) -> Iterator[CheckpointEvidence]:
    """Yield the first and the last checkpoint per epoch and graph in the archives; none can get a pointer."""
    for name in history.archives():
        try:
            head = history.head(name)
        except ObjectMissingError:
            continue  # removed by the collector after the names were read
        except RecordCorruptError as error:
            problems.append(error.message)
            continue
        for span in head.spans:
            for number, at in {span.first: span.first_at, span.last: span.last_at}.items():
                pointer = CheckpointPointer(
                    number=number,
                    epoch=span.epoch,
                    run=span.run,
                    reason=CheckpointKind.PERIODIC,
                    payload=keys.archive(name.text),
                    sha256=head.sha256,
                    size=head.size,
                    cut={},
                    created_at=at,
                )
                yield CheckpointEvidence(pointer, span.graph, pinned=False)


def _is_kept(area: WorkArea, keys: JobKeys, checkpoint: Checkpoint, payload: str, logs: _Logs) -> bool:
    """Return whether the files of a checkpoint exist: its pin, or its batches in its working directory."""
    source = f"payload {payload}"
    if checkpoint.pin is not None:
        return area.contains(area.admit(checkpoint.pin, inside=(keys.pins,), source=source))
    directory = area.current(area.admit(checkpoint.directory, inside=(keys.live,), source=source))
    if not area.contains(directory):
        return False
    return all(logs.hold(f"{directory}/{query}", part.batch) for query, part in checkpoint.queries.items())


class _Logs:
    """Names in the logs of queries; a log is listed once, for all checkpoints in the same directory.

    :param area: Work area with the logs.
    """

    def __init__(self, area: WorkArea) -> None:
        self._area = area
        self._known: dict[str, Mapping[str, frozenset[str]]] = {}

    def hold(self, query: str, batch: int) -> bool:
        """Return whether the logs of a query directory have the entries for a start after *batch*.

        :raises CheckpointCorruptError: A base is refused.
        :raises StorageUnavailableError: The logs could not be listed.
        """
        if query not in self._known:
            self._known[query] = self._area.log_entries(query)
        logs = self._known[query]
        return missing_entry(batch, offsets=logs[OFFSETS], commits=logs[COMMITS]) is None


def find_savepoints(keys: JobKeys, area: WorkArea, problems: list[str]) -> Iterator[SavepointEvidence]:
    """Yield every complete savepoint, by id; sizes are compared with the manifest, contents are not read.

    :param problems: Receives a sentence for each incomplete savepoint.
    :raises StorageUnavailableError: A directory could not be read.
    """
    for name in area.list(keys.savepoints):
        if not area.contains(f"{keys.savepoints}{name}"):
            continue  # the remains of an unfinished copy
        directory = area.tree(f"{keys.savepoints}{name}")
        try:
            key = keys.savepoint(name)
            data = manifest_bytes(directory)
            savepoint = parse_manifest(directory, data)
        except (ConfigurationError, CheckpointMissingError, CheckpointCorruptError) as error:
            problems.append(f"{directory}: {error.message}")
            continue
        damage = check_files(directory, savepoint, digests=False)
        if damage:
            problems.append(f"savepoint {savepoint.savepoint_id}: {damage[0].message}")
            continue
        yield SavepointEvidence(pointer_to(key, savepoint, data), savepoint.run, savepoint.epoch)


def completed(found: list[CheckpointEvidence]) -> list[CheckpointPointer]:
    """Return the checkpoints among the payloads, ascending by number. Pure."""
    newest = {item.pointer.number: item for item in sorted(found, key=lambda item: item.pointer.epoch)}
    return [newest[number].pointer for number in sorted(newest) if newest[number].pinned]


_LIVE = re.compile(r"\.*e(\d+)-")  # e7-<uuid>, also fenced, drained, or as hidden remains
_NUMBERED = re.compile(r"\.*(\d+)-e(\d+)")  # <number>-e<epoch>, of pins and payloads
_NOTED = re.compile(r"[/-]e(\d+)(?:-[0-9a-f]+)?\.json$")  # <run>-e<epoch>.json and e<epoch>.json, of the journal


@dataclass(frozen=True, slots=True)
class JobEvidence:
    """Facts about a job in storage.

    :param entries: The journal of its runs.
    :param checkpoints: Every readable payload, and the ends of archives, ascending by number and epoch.
    :param graphs: Existing job graphs that a checkpoint names, by digest.
    :param highest_epoch: Highest epoch in any name or record; 0 for none.
    :param highest_number: Highest checkpoint number in any name; 0 for none.
    :param problems: Unreadable findings, as sentences.
    """

    job_id: str
    entries: tuple[JournalEntry, ...] = ()
    checkpoints: tuple[CheckpointEvidence, ...] = ()
    savepoints: tuple[SavepointEvidence, ...] = ()
    graphs: tuple[Blob, ...] = ()
    highest_epoch: int = 0
    highest_number: int = 0
    problems: tuple[str, ...] = ()


def find_jobs(config: HaConfig, store: ObjectStore) -> list[str]:
    """Return the ids of all jobs that storage knows, sorted.

    :raises StorageUnavailableError: A root is missing: an unmounted disk is not an empty cluster.
    """
    area = open_work_area(config)
    area.require()
    names = set(area.list(storage_keys.JOBS))
    if config.work_root is not None:  # otherwise blobs and directories share a root, and this would walk through both
        names |= {info.key.split("/")[1] for info in store.list(storage_keys.JOBS)}
    return sorted(name for name in names if _is_job(name))


def gather(config: HaConfig, store: ObjectStore, job_id: str) -> JobEvidence:
    """Read the evidence of a job in storage.

    :raises StorageUnavailableError: Storage could not be read.
    """
    keys, problems = JobKeys(job_id), list[str]()
    entries, unreadable = JobJournal(store, keys).read()
    problems += [entry.reason for entry in unreadable]
    area = open_work_area(config)
    payloads = find_checkpoints(store, keys, area, problems)
    checkpoints = tuple(sorted(payloads, key=lambda item: (item.pointer.number, item.pointer.epoch)))
    savepoints = tuple(find_savepoints(keys, area, problems))
    numbered = list(_numbered(area, store, keys))
    epochs = [epoch for _, epoch in numbered]
    epochs += [int(found[1]) for name in area.list(keys.live) if (found := _LIVE.match(name))]
    epochs += [item.epoch for item in savepoints]
    epochs += _epochs_of_journal(store, keys)
    return JobEvidence(
        job_id=job_id,
        entries=tuple(entries),
        checkpoints=checkpoints,
        savepoints=savepoints,
        graphs=tuple(_graphs(store, {item.graph for item in checkpoints})),
        highest_epoch=max(epochs, default=0),
        highest_number=max((number for number, _ in numbered), default=0),
        problems=tuple(problems),
    )


def _numbered(area: WorkArea, store: ObjectStore, keys: JobKeys) -> Iterator[tuple[int, int]]:
    names = [info.key.removeprefix(keys.payloads) for info in store.list(keys.payloads)]
    names += area.list(keys.pins)
    for name in names:
        if found := _NUMBERED.match(name):
            yield int(found[1]), int(found[2])
    yield from ((archive.last, archive.epoch) for archive in PayloadHistory(store, keys).archives())


def _epochs_of_journal(store: ObjectStore, keys: JobKeys) -> Iterator[int]:
    """Yield the epochs in the names of journal entries, readable or not."""
    for kind in ("result", "generation"):
        for info in store.list(keys.journal(kind, "").removesuffix(".json")):
            if found := _NOTED.search(info.key):
                yield int(found[1])


def _graphs(store: ObjectStore, digests: set[str]) -> Iterator[Blob]:
    for sha256 in sorted(digests):
        info = store.info(storage_keys.blob(sha256))
        if info is not None:
            yield Blob(sha256=sha256, size=info.size)


def _is_job(name: str) -> bool:
    try:
        check_job_id(name)
    except ConfigurationError:
        return False
    return True
