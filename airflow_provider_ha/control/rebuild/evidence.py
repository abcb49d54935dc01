"""Everything that storage says about one job. Reads, and judges nothing.

Invariant: what could not be read is an error or a named problem, never a gap: a job that looks smaller than it is would
get an epoch that was used before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.retention.history import PayloadHistory
from airflow_provider_ha.checkpoints.working.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.control.rebuild.pointers import (
    FoundCheckpoint,
    FoundSavepoint,
    find_checkpoints,
    find_savepoints,
)
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.journal import Entry, JobJournal
from airflow_provider_ha.jobs.model import Blob
from airflow_provider_ha.names import check_job_id
from airflow_provider_ha.storage import keys as storage_keys
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.store import ObjectStore


_LIVE = re.compile(r"\.*e(\d+)-")  # e7-<uuid>, also fenced, drained, or the hidden remains of one
_NUMBERED = re.compile(r"\.*(\d+)-e(\d+)")  # <number>-e<epoch>, of pins and payloads
_NOTED = re.compile(r"[/-]e(\d+)(?:-[0-9a-f]+)?\.json$")  # <run>-e<epoch>.json and e<epoch>.json, of the journal


@dataclass(frozen=True, slots=True)
class JobEvidence:
    """What storage says about a job.

    :param entries: The journal of its runs.
    :param checkpoints: Every payload that can be read, and the ends of what is archived, ascending by number and epoch.
    :param graphs: Job graphs that a checkpoint names and that are there, by digest.
    :param highest_epoch: Highest epoch in any name or record; 0 for none.
    :param highest_number: Highest checkpoint number in any name; 0 for none.
    :param problems: What is there and cannot be read, one sentence each.
    """

    job_id: str
    entries: tuple[Entry, ...] = ()
    checkpoints: tuple[FoundCheckpoint, ...] = ()
    savepoints: tuple[FoundSavepoint, ...] = ()
    graphs: tuple[Blob, ...] = ()
    highest_epoch: int = 0
    highest_number: int = 0
    problems: tuple[str, ...] = ()


def find_jobs(config: HaConfig, store: ObjectStore) -> list[str]:
    """Return the ids of all jobs that storage knows, sorted.

    :raises StorageUnavailableError: A part of storage is not there: an unmounted disk is not an empty cluster.
    """
    area = open_work_area(config)
    area.require()
    names = set(area.list(storage_keys.JOBS))
    if config.work_root is not None:  # else blobs and directories share one root, and this would walk through both
        names |= {info.key.split("/")[1] for info in store.list(storage_keys.JOBS)}
    return sorted(name for name in names if _is_job(name))


def gather(config: HaConfig, store: ObjectStore, job_id: str) -> JobEvidence:
    """Read what storage says about a job.

    :raises StorageUnavailableError: It could not be read.
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
