"""A job that only keeps records: batches, checkpoints, savepoints, losses and restores, and what is stored of them.

Beside the storage that is collected it keeps every payload that was ever written, so that a test can ask whether a plan
would have been another one if nothing had ever been removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.model import BatchEntry, Checkpoint, CheckpointKind, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import RestorePlan
from airflow_provider_ha.checkpoints.restore.facts import RestoreCase, gather_facts
from airflow_provider_ha.checkpoints.restore.plan import RestoreChoices, plan_restore
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.store.payload_collector import PayloadCollection, RemovalBounds
from airflow_provider_ha.checkpoints.store.payload_history import PayloadHistory
from airflow_provider_ha.checkpoints.store.retention_policy import floors
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.storage.keys import JobKeys
from tests.fake.memory_store import MemoryStore


AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
JOB = "flights"
QUERIES = ("a", "b")
RETAINED = 2
SHOWN = 3  # entries before the last one that a working directory still has


class Died(BaseException):
    """The process that collects is killed."""


class MortalStore(MemoryStore):
    """Kills who works with it at a request that changes something, before or after it is done.

    :ivar left: Changes until then; ``None`` for never.
    """

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.left: int | None = None

    def write(self, key: str, data: bytes) -> None:
        with _Blow(self):
            super().write(key, data)

    def delete(self, key: str) -> None:
        with _Blow(self):
            super().delete(key)


class _Blow:
    def __init__(self, store: MortalStore) -> None:
        self._store = store

    def __enter__(self) -> None:
        self._strike()

    def __exit__(self, *_: object) -> None:
        self._strike()

    def _strike(self) -> None:
        if self._store.left is not None:
            self._store.left -= 1
            if self._store.left < 0:
                raise Died


@dataclass
class Leader:
    """What a collection needs of a leadership."""

    epoch: int
    proofs: int = 0

    def prove(self) -> None:
        self.proofs += 1


@dataclass
class Timeline:
    """What the directory of one query shows, and what no payload holds yet."""

    entries: dict[int, BatchEntry] = field(default_factory=dict)
    unpublished: dict[int, BatchEntry] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        return max(self.entries, default=-1)

    def add(self, entry: BatchEntry) -> None:
        self.entries[entry.batch] = entry
        self.unpublished[entry.batch] = entry

    def shown(self, last: int) -> dict[int, BatchEntry]:
        return {batch: entry for batch, entry in self.entries.items() if last - SHOWN <= batch <= last}


class RecordedJob:
    """The job. Every method is one step of its life."""

    def __init__(self) -> None:
        self.store = MortalStore()
        self.keys = JobKeys(JOB)
        self.history = PayloadHistory(self.store, self.keys)
        self.leader = Leader(1)
        self.collection = PayloadCollection(self.history, SystemClock())
        self.queries = {name: Timeline() for name in QUERIES}
        self.written: list[Checkpoint] = []
        self.retained: list[Checkpoint] = []
        self.savepoints: list[RestoreSource] = []

    def batch(self, query: str) -> None:
        """Plan a batch afresh and commit it."""
        timeline = self.queries[query]
        batch = timeline.batch + 1
        timeline.add(BatchEntry(batch=batch, offsets=f"{query} {batch} planned by {self.leader.epoch}"))

    def checkpoint(self) -> None:
        """Publish what was recorded since the last one; the oldest beyond the retained ones is subsumed."""
        made = Checkpoint(
            job_id=JOB,
            number=len(self.written) + 1,
            run=1,
            epoch=self.leader.epoch,
            reason=CheckpointKind.STOP,
            created_at=AT + timedelta(seconds=len(self.written)),
            queries={name: _cut(each.batch, each.unpublished) for name, each in self.queries.items()},
            directory="d",
            pin="p",
            graph="g",
            spark_version="4.2.0",
        )
        for each in self.queries.values():
            each.unpublished = {}
        self.store.create(self.keys.payload(made.number, made.epoch), made.to_bytes())
        self.written.append(made)
        self.retained = [*self.retained, made][-RETAINED:]

    def savepoint(self) -> None:
        """Keep the present cut until it is disposed of."""
        cuts = {name: _cut(each.batch, each.shown(each.batch)) for name, each in self.queries.items()}
        self.savepoints.append(self._chosen("savepoint", str(len(self.savepoints)), cuts, self.leader.epoch))

    def dispose(self, which: int) -> None:
        """Remove a savepoint, but not while the run has no own checkpoint: it may have begun from that one."""
        if self.savepoints and self.retained and self.retained[-1].epoch == self.leader.epoch:
            self.savepoints.pop(which % len(self.savepoints))

    def lose(self) -> None:
        """Lose the driver: the next one goes on, and knows what its directory shows and no payload holds."""
        self._next_epoch({name: (each.batch, each.unpublished) for name, each in self.queries.items()})

    def restore(self, which: int, replayed: int) -> None:
        """Restore a cut; of what could be replayed so many batches are, and the others are planned afresh later."""
        cuts = self.cuts()
        if not cuts:
            return
        chosen = cuts[which % len(cuts)]
        plan = self.plan(chosen, self.written)
        self._next_epoch({name: (part.batch, {}) for name, part in chosen.queries.items()})
        for name, part in plan.queries.items():
            for entry in part.replay[:replayed]:
                self.queries[name].add(entry)

    def collect(self, dies_after: int | None = None) -> None:
        """Collect to the end, or until the process is killed; another one begins without its memory."""
        if not self.retained:
            return
        cuts = [{name: part.batch for name, part in each.queries.items()} for each in self.cuts()]
        last = min(each.number for each in self.retained) - 1
        self.collection.bounds = RemovalBounds(last, floors(cuts))
        self.store.left = dies_after
        try:
            for _ in self.collection.steps(self.leader):  # type: ignore[arg-type]
                pass
        except Died:
            self.collection = PayloadCollection(self.history, SystemClock())
        finally:
            self.store.left = None

    def cuts(self) -> list[RestoreSource]:
        """Return everything that can be restored."""
        checkpoints = [
            self._chosen("checkpoint", str(each.number), each.queries, each.epoch, each.created_at)
            for each in self.retained
        ]
        return [*checkpoints, *self.savepoints]

    def plan(self, chosen: RestoreSource, payloads: Any) -> RestorePlan:
        """Return the plan that restores *chosen* with what *payloads* record."""
        facts = gather_facts(RestoreCase(chosen=chosen, at=AT, root=LocalTree(Path("/nowhere")), payloads=payloads))
        return plan_restore(facts, RestoreChoices(job_id=JOB, source_job=JOB))

    def objects(self, prefix: str) -> list[str]:
        """Return the names below a prefix."""
        return [info.key.removeprefix(prefix) for info in self.store.list(prefix)]

    def _next_epoch(self, goes_on_from: dict[str, tuple[int, dict[int, BatchEntry]]]) -> None:
        self.leader = Leader(self.leader.epoch + 1)
        self.collection = PayloadCollection(self.history, SystemClock())
        for name, (batch, carried) in goes_on_from.items():
            shown = self.queries[name].shown(batch) | carried
            known = {number: entry for number, entry in self.queries[name].entries.items() if number <= batch}
            self.queries[name] = Timeline(known, dict(sorted(shown.items())))

    def _chosen(
        self, source: str, name: str, queries: dict[str, QueryCut], epoch: int, at: datetime = AT
    ) -> RestoreSource:
        return RestoreSource(source, name, "d", dict(queries), 1, epoch, "g", "4.2.0", at)


def _cut(batch: int, entries: dict[int, BatchEntry]) -> QueryCut:
    return QueryCut(
        batch=batch,
        sink=QuerySink(kind=SinkKind.FOREACH_BATCH),
        entries=tuple(entries[number] for number in sorted(entries)),
        files={"offsets/0": 1},
    )


def steps_of(job: RecordedJob, life: list[tuple[str, int, int]]) -> Iterator[str]:
    """Live *life*, and yield the name of each step once it is done."""
    for name, first, second in life:
        if name == "batch":
            job.batch(QUERIES[first % len(QUERIES)])
        elif name == "restore":
            job.restore(first, second)
        elif name == "collect":
            job.collect()
        elif name == "die":
            job.collect(dies_after=first)
        elif name == "dispose":
            job.dispose(first)
        else:
            getattr(job, name)()
        yield name
