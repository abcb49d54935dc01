"""Plays one cell: an epoch is stopped at a moment, its successor takes over and goes on, and the old epoch wakes up."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from airflow_provider_ha.checkpoints.areas.layered.base_file import FILE, parse_base
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, OFFSETS, Progress, progress
from airflow_provider_ha.errors import ObjectMissingError
from airflow_provider_ha.testing.waiting import wait_until
from lab.zombie.cells import Cell, State, Where, Who
from lab.zombie.driver import PATIENCE, Driver, resume, suspend
from lab.zombie.driver_program import QUERY
from lab.zombie.hold import Hold
from lab.zombie.stage import Stage
from lab.zombie.stream import Stream
from lab.zombie.takeover import Storage
from tests.support.judged import Judged


HELD = 5  # the batch in which the old epoch is stopped: old enough for purges and for a compacted log
_VERSION = HELD + 1  # of the state that it writes
_FIRST, _AT_FULL_SPEED, _MORE = 8, 14, 2  # files
_TRIES = 4  # successors, of which all but the last lose a race for an entry of the sink's log
_GRACE = timedelta(seconds=3)  # files of a batch are old once the batch after the next is committed
_STATE = "spark.sql.streaming.stateStore."
_CLASSES = "org.apache.spark.sql.execution.streaming.state."
_ROCKSDB = {f"{_STATE}providerClass": f"{_CLASSES}RocksDBStateStoreProvider"}
CONF = {
    State.ROCKSDB_2: {**_ROCKSDB, f"{_STATE}checkpointFormatVersion": "2"},
    State.CHANGELOG_2: {
        **_ROCKSDB,
        f"{_STATE}checkpointFormatVersion": "2",
        f"{_STATE}rocksdb.changelogCheckpointing.enabled": "true",
    },
    State.ROCKSDB_1: {**_ROCKSDB, f"{_STATE}checkpointFormatVersion": "1"},
    State.HDFS_BACKED: {
        f"{_STATE}providerClass": f"{_CLASSES}HDFSBackedStateStoreProvider",
        f"{_STATE}checkpointFormatVersion": "1",
    },
}

KNOWN = {
    "CONCURRENT_STREAM_LOG_UPDATE": "entry of its log taken",
    "Multiple streaming queries are concurrently using": "entry of its log taken",
    "failed to read correct log version from spark-ha-fence": "record of the fence in its log",
    "Race while writing batch": "entry of the sink's log taken",
    "was written by another driver after this one": "entry of the sink's log by another driver",
}
"""Part of an error of Spark -> what it says of a driver that comes back."""
OVERTAKEN = {"entry of the sink's log taken", "entry of the sink's log by another driver"}
"""What a successor may die of: an entry of its predecessor that arrives late. The next one starts after it."""
DEAD = "its driver was dead"


class Outcome(Judged):
    """What was seen in one cell.

    :param seconds: From the start of the drivers to the last look.
    :param ended: Why the old epoch ended.
    :param takeovers: How many there were; more than one after a lost race for an entry of the sink's log.
    :param base: How many files the successor had begun with.
    :param left: How many deletes were left to the collector, by drivers and executors that could still be asked.
    :param collected: How many files the collector has removed.
    :param wrong: What does not hold, one sentence each.
    """

    seconds: float
    ended: str
    takeovers: int
    base: int
    left: int
    collected: int
    wrong: list[str]


@dataclass
class Scene:
    """One cell while it is played.

    :ivar hired: Every driver of the cell.
    :ivar spare: The next successor, which may be up already.
    :ivar epoch: Who leads.
    :ivar collected: Keys that the collector has removed.
    """

    stage: Stage
    storage: Storage
    state: State
    stream: Stream
    hired: list[Driver] = field(default_factory=list)
    spare: Driver | None = None
    epoch: int = 1
    wrong: list[str] = field(default_factory=list)
    collected: list[str] = field(default_factory=list)

    def hire(self, *, held: bool = False) -> Driver:
        """Return a driver for the cell; it may still be starting."""
        self.hired.append(self.stage.hire(held=held))
        return self.hired[-1]

    def lead(self, driver: Driver, epoch: int, *, stubborn: bool = False) -> None:
        """Let a driver lead an epoch whose directory is made."""
        reached, replays = self.storage.look(epoch)
        part = {
            "epoch": epoch,
            "directory": self.storage.area().uri(self.storage.directory(epoch)),
            "reached": reached,
            "replays": replays,
            "input": str(self.stream.source),
            "output": self.storage.output,
            "state": CONF[self.state],
            "stubborn": stubborn,
        }
        driver.go(part)

    def take_over(self, made: int | None = None) -> Driver:
        """Make the next epoch of this one, and let a driver lead it.

        :param made: The epoch, where another process has made it.
        """
        leader, self.spare = self.spare or self.hire(), None
        leader.await_ready()
        if made is None:
            self.storage.take_over(self.epoch, self.epoch + 1)
        self.epoch = made or self.epoch + 1
        self.lead(leader, self.epoch)
        return leader

    def lead_to(self, leader: Driver, batch: int) -> Driver:
        """Wait until a batch is committed, by the next driver where this one has lost a race; return who leads."""
        for _ in range(_TRIES):
            self._await(leader, batch)
            lost = leader.answered()
            if lost is None:
                return leader
            assert reason(lost["failures"][0]) in OVERTAKEN, leader.text()
            self.stage.give_back(leader)
            leader = self.take_over()
        raise AssertionError(f"{_TRIES} successors have lost a race")

    def _await(self, leader: Driver, batch: int) -> None:
        def reached() -> bool:
            return self.progress(self.epoch).committed >= batch or leader.answered() is not None

        leader.await_this(reached, f"batch {batch}", 0.2)

    def progress(self, epoch: int) -> Progress:
        """Return where the query of an epoch stands now."""
        return progress((self.storage.area().tree(self.storage.directory(epoch)) / QUERY).fresh())

    def log_names(self, epoch: int) -> dict[str, Sequence[str]]:
        """Return the entries of the logs of an epoch's query; what was never finished is none."""
        place, files = f"{self.storage.directory(epoch)}/{QUERY}", self.storage.files()
        logs = {log: files.names(f"{place}/{log}/") for log in (OFFSETS, COMMITS)}
        return {log: [name for name in names if not name.startswith(".")] for log, names in logs.items()}

    def base(self, epoch: int) -> dict[str, str]:
        """Return place -> digest of the files that an epoch began with."""
        base = parse_base(self.storage.files().read(f"{self.storage.directory(epoch)}/{QUERY}/{FILE}"))
        return self.digests([entry.place for entry in base.entries])

    def digests(self, places: Collection[str]) -> dict[str, str]:
        """Return place -> digest of files."""
        files = self.storage.files()

        def digest(place: str) -> str:
            try:
                return hashlib.sha256(files.read(place)).hexdigest()
            except ObjectMissingError:
                return "gone"

        with ThreadPoolExecutor(4) as pool:
            return dict(zip(places, pool.map(digest, places), strict=True))

    def collect(self, grace: timedelta = _GRACE) -> None:
        """Let the collector remove what nothing needs."""
        self.collected += self.storage.collect(self.epoch, grace)

    def expect(self, holds: object, sentence: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.wrong.append(sentence)


@contextmanager
def scene(stage: Stage, folder: Path, state: State, hold: Hold | None = None) -> Iterator[Scene]:
    """Yield a new job, whose first epoch may begin.

    :param folder: For the input.
    """
    storage = stage.new_job()
    storage.area().create(storage.directory(1))
    stage.holds.now = hold
    on = Scene(stage, storage, state, Stream(folder / storage.job))
    try:
        yield on
    except BaseException:
        for each in on.hired:  # what they do now is not known
            each.kill()
        raise
    finally:
        stage.holds.now = None
        if hold is not None:
            hold.release()


def play(cell: Cell, stage: Stage, folder: Path) -> Outcome:
    """Play a cell.

    :param folder: For the input.
    :raises AssertionError: It could not be played to its end.
    """
    began, hold = time.monotonic(), hold_of(cell.where)
    with scene(stage, folder, cell.state, hold) as on:
        on.stream.feed(_AT_FULL_SPEED if cell.where is Where.NEVER else _FIRST)
        zombie, on.spare = on.hire(held=True), on.hire()
        for each in (zombie, on.spare):
            each.await_ready()
        executors = zombie.executors()
        on.lead(zombie, 1)
        frozen = stop(cell, on, zombie, hold)
        try:
            leader = on.take_over()
            logs, base = on.log_names(1), on.base(2)
            leader = on.lead_to(leader, HELD + 1)
        finally:
            hold.release()
            resume(frozen)
        on.stream.feed(_MORE)
        ended = end_of(cell, zombie, executors)
        on.expect(ended in {*KNOWN.values(), DEAD}, f"The old epoch ended because of {ended}.")
        leader = on.lead_to(leader, on.stream.files - 1)
        on.expect(on.log_names(1) == logs, "The old epoch has added an entry to its logs.")
        on.expect(on.digests(base) == base, "A file of the base was changed.")
        old = time.monotonic() + _GRACE.total_seconds()
        while time.monotonic() < old:  # a fast machine commits several batches within the grace
            on.stream.feed(1)
            leader = on.lead_to(leader, on.stream.files - 1)
        on.collect()
        on.stream.feed(_MORE)
        leader = on.lead_to(leader, on.stream.files - 1)
        seen = leader.stop()
        on.wrong += on.stream.wrong(seen)
        left = deletes_left([seen, zombie.answered() or {}])
        judge_processes(on, executors, leader, seen)
        on.expect(left and on.collected, f"{left} deletes were left, and {len(on.collected)} files collected.")
        stage.give_back(leader)
        stage.give_back(zombie, held=True)
    return Outcome(
        seconds=time.monotonic() - began,
        ended=ended,
        takeovers=on.epoch - 1,
        base=len(base),
        left=left,
        collected=len(on.collected),
        wrong=on.wrong,
    )


def hold_of(where: Where) -> Hold:
    """Return what stops an epoch at a moment; where nothing does, it is released before it meets a request."""
    if where is Where.PLANNING:
        return Hold(rf"/sources/0/{HELD}\b")
    if where is Where.PLAN_PUT:
        return Hold(rf"/offsets/{HELD}\b")
    if where is Where.TASK:
        return Hold(r"-out/part-", after=rf"/offsets/{HELD}\b", call="create")
    if where is Where.SINK:
        return Hold(rf"/_spark_metadata/{HELD}\b", answered=True)
    if where is Where.COMMIT_PUT:
        return Hold(rf"/commits/{HELD}\b")
    return Hold(rf"/state/\d+/\d+/\.?{_VERSION}[._]", call="addBlock")


def stop(cell: Cell, on: Scene, zombie: Driver, hold: Hold) -> Sequence[psutil.Process]:
    """Bring the old epoch to its moment, and return what is frozen there."""
    if cell.where is Where.NEVER and cell.who is Who.BOTH:
        hold.release()
        zombie.await_this(lambda: on.progress(1).planned >= HELD, "the batch", interval=0.01)
        return ()
    zombie.await_this(lambda: hold.met.is_set() or zombie.answered(), "the held request")
    assert hold.met.is_set(), zombie.text()
    programs, executors = zombie.programs(), zombie.executors()
    assert executors, zombie.text()
    if cell.who is Who.EXECUTORS:
        frozen = executors if cell.where is not Where.NEVER else []
        suspend(frozen)
        for process in reversed(programs):
            process.kill()
        zombie.process.wait()  # its executors stay
    else:
        frozen = programs if cell.who is Who.DRIVER else [*programs, *executors]
        suspend(frozen)
        if cell.who is Who.DRIVER and cell.where in (Where.TASK, Where.UPLOAD):
            hold.release()  # the executors go on
    _check_moment(cell.where, on)
    return frozen


def _check_moment(where: Where, on: Scene) -> None:
    """Assert that the old epoch is where the cell says."""
    if where is Where.SINK:
        wait_until(lambda: on.storage.sink().reached() == HELD, timeout=60, what="the entry in the sink's log")
    at = on.progress(1)
    planned = HELD - 1 if where in (Where.PLANNING, Where.PLAN_PUT) else HELD
    assert (at.planned, at.committed) == (planned, HELD - 1), at


def end_of(cell: Cell, zombie: Driver, executors: Sequence[psutil.Process]) -> str:
    """Wait until nothing of the old epoch runs any more, and return why it ended."""
    if cell.who is Who.EXECUTORS:
        _, alive = psutil.wait_procs(executors, timeout=PATIENCE)
        assert not alive, zombie.text()
        return DEAD
    return reason(zombie.answer()["failures"][0])


def reason(failure: str) -> str:
    """Return why a query has died, in a few words. Pure."""
    found = [words for sign, words in KNOWN.items() if sign in failure]
    return found[0] if found else failure.splitlines()[0][:120]


def deletes_left(answers: Sequence[dict[str, Any]]) -> int:
    """Return how many deletes were left to the collector. Pure."""
    counted = (counts for said in answers for counts in said.get("counters", {}).values())
    return sum(counts.get("delete_left", 0) for counts in counted)


def judge_processes(on: Scene, old: Sequence[psutil.Process], leader: Driver, seen: dict[str, Any]) -> None:
    """See that state was written by other processes than the drivers'."""
    drivers = {str(process.pid) for process in leader.programs()}
    executors = {str(process.pid) for process in leader.executors()}
    counted = {pid: counts for pid, counts in seen["counters"].items() if pid != "driver"}
    apart = executors.isdisjoint({str(process.pid) for process in old}) and executors.isdisjoint(drivers)
    on.expect(old and executors and apart, "There are no executors in other processes.")
    on.expect(counted.keys() <= executors, f"Tasks ran in {sorted(counted)}; the executors are {sorted(executors)}.")
    on.expect(any(counts.get("write", 0) for counts in counted.values()), "No executor has written state.")
