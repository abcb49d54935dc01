"""Marking for deletion, removing and scanning: what is marked is no entry any more, and its removal can be repeated.

Ported from ``ZooKeeperStateHandleStoreTest``. "Marked" is a place on the list of deletions here, and no childless node.
"""

from __future__ import annotations

from airflow_provider_ha.checkpoints.store.removal import RemovalResult, waiting
from airflow_provider_ha.coordination.reader_leases import active, hold
from tests.conformance.stores.stage import Stage, flink, nodes, pins, pointers, reading
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters.pointer_helpers import Before, Failing, Pointers


def work_off(entries: Pointers, **options: object) -> RemovalResult:
    return entries.remover(**options).work_off(entries.leadership.commit)


@flink("ZooKeeperStateHandleStoreTest#testConcurrentDeleteOperation", entry=4, mutant="removal-ignores-leases")
def test_what_another_session_reads_is_not_removed(stage: Stage, entries: Pointers) -> None:
    """What is under a lease is not removed, and is removed as soon as the lease is given back.

    Flink: ZooKeeperStateHandleStoreTest#testConcurrentDeleteOperation [4].
    Differs: the pointer goes all the same. The holder of the lease has read it, and no new reader may begin to.
    """
    note, pin = entries.add("1"), entries.pin()
    reader = stage.session("reader")
    held = hold(reader, entries.paths, "checkpoint-1", holder="a restore", seconds=60, clock=stage.wall)
    entry = entries.mark("1")

    assert [kept.entry for kept in work_off(entries).postponed] == [entry]
    assert (entries.objects.read(note.key), pin.is_dir()) == (b"1", True)
    held.release()
    assert work_off(entries).done == (entry,)
    assert (entries.payloads(), pin.exists(), entries.entries()) == ([], False, [])


@flink(
    "ZooKeeperStateHandleStoreTest#testRepeatableCleanupWithLockOnNode",
    entry=56,
    mutant="removal-ignores-leases",
)
def test_a_removal_that_failed_once_still_asks_for_readers(stage: Stage, entries: Pointers) -> None:
    """A removal that storage refused is tried again, and waits again for a reader that has come in between.

    Flink: ZooKeeperStateHandleStoreTest#testRepeatableCleanupWithLockOnNode [56].
    """
    entries.add("1")
    entries.pin()
    entry = entries.mark("1")
    refused = work_off(entries, objects=Failing(entries.objects, "delete"))

    held = hold(entries.coordinator, entries.paths, "checkpoint-1", holder="x", seconds=60, clock=stage.wall)
    postponed = work_off(entries)

    assert [kept.entry for kept in (*refused.postponed, *postponed.postponed)] == [entry, entry]
    assert entries.payloads() == ["1.json"]
    held.release()
    assert work_off(entries).done == (entry,)
    assert (entries.payloads(), entries.entries()) == ([], [])


@flink("ZooKeeperStateHandleStoreTest#testAddAndLockOnMarkedForDeletionNode", entry=57, mutant="entries-share-a-name")
def test_a_marked_name_is_free_and_can_be_marked_again(entries: Pointers) -> None:
    """A name whose entry is marked can be given out again, and marked again, before anything was removed.

    Flink: ZooKeeperStateHandleStoreTest#testAddAndLockOnMarkedForDeletionNode [57].
    Differs: Flink finishes the removal first. Here the old payload waits on the list under its own name.
    """
    entries.add("1", b"old")
    first = entries.mark("1")
    entries.store().add(entries.leadership.commit, "1", entries.note(b"new", "b"), b"new")
    second = entries.mark("1")

    assert (entries.names(), set(entries.entries())) == ([], {first, second})
    assert set(work_off(entries).done) == {first, second}
    assert entries.payloads() == []


@flink("ZooKeeperStateHandleStoreTest#testExistsOnMarkedForDeletionNode", entry=58, mutant="mark-leaves-the-pointer")
@flink(
    "ZooKeeperStateHandleStoreTest#testGetAllAndLockWhileEntryIsMarkedForDeletion",
    entry=59,
    mutant="mark-leaves-the-pointer",
)
@flink(
    "ZooKeeperStateHandleStoreTest#testGetAllHandlesWithMarkedForDeletionEntries",
    entry=60,
    mutant="mark-leaves-no-entry",
)
def test_what_is_marked_is_found_on_the_list_only(entries: Pointers) -> None:
    """What is marked is no entry any more, neither alone nor in a scan, and the list of deletions names it.

    Flink: ZooKeeperStateHandleStoreTest#testExistsOnMarkedForDeletionNode [58],
    #testGetAllAndLockWhileEntryIsMarkedForDeletion [59], #testGetAllHandlesWithMarkedForDeletionEntries [60].
    """
    for name in ("1", "2"):
        entries.add(name)
    entry = entries.mark("1")

    assert entries.store().find("1") is None
    assert [found.name for found in entries.store().scan().found] == ["2"]
    assert [found.name for found, _ in entries.store().load().found] == ["2"]
    assert waiting(entries.coordinator, entries.paths.cluster, entries.paths.job_id) == [entry]
    assert entries.payloads() == ["1.json", "2.json"]


@flink("ZooKeeperStateHandleStoreTest#testGetAllAndLockOnConcurrentDelete", entry=61, mutant="scan-looks-once")
def test_a_scan_meets_a_removal(entries: Pointers) -> None:
    """A scan during which an entry goes shows the entries of one moment.

    Flink: ZooKeeperStateHandleStoreTest#testGetAllAndLockOnConcurrentDelete [61].
    """
    entries.add("1")

    def subsume() -> None:
        entries.add("2")
        entries.mark("1")

    scan = entries.store(Before(entries.coordinator, subsume, reading="/checkpoints/1")).scan()

    assert [found.name for found in scan.found] == ["2"]


@flink("ZooKeeperStateHandleStoreTest#testCleanupOfNonExistingState", entry=62, mutant="missing-entry-is-an-error")
def test_what_is_not_there_is_removed(entries: Pointers) -> None:
    """What is not there counts as removed, whichever step is asked for.

    Flink: ZooKeeperStateHandleStoreTest#testCleanupOfNonExistingState [62].
    """
    entries.add("1")
    seen = entries.found("1")
    entry = entries.mark("1")
    assert work_off(entries).done == (entry,)

    assert entries.store().mark(entries.leadership.commit, "1", "checkpoint-1") is None
    assert entries.remover().work_off(entries.leadership.commit, entries=[entry]).done == (entry,)
    assert entries.store().remove(entries.leadership.commit, seen) is False
    assert (entries.names(), entries.entries(), entries.payloads()) == ([], [], [])


@flink("ZooKeeperStateHandleStoreTest#testLockCleanupWhenClientTimesOut", entry=64, mutant="lease-never-ends")
def test_a_reader_that_died_protects_until_its_lease_ends(stage: Stage, job: Job) -> None:
    """The lease of a reader that died outlives its session, protects until its expiry, and then leaves no node.

    Flink: ZooKeeperStateHandleStoreTest#testLockCleanupWhenClientTimesOut [64].
    Differs: Flink's lock ends with the session, so a reader that is only cut off is robbed of what it reads.
    """
    for number in (1, 2):
        job.add(number, number, number)
    reader = stage.session("reader")
    hold(reader, job.paths, "checkpoint-1", holder="a restore", seconds=60, clock=stage.wall)
    stage.ensemble.kill(reader)
    assert reader.connection.session is not None
    assert stage.ensemble.close_session(reader.connection.session)

    assert job.checkpoints.retain(job.leadership, 1) == ()
    assert (pointers(job), pins(job)) == ([1, 2], [1, 2])
    stage.wall.pass_by(61)
    assert job.checkpoints.retain(job.leadership, 1) == (1,)
    assert (pointers(job), pins(job)) == ([2], [2])
    assert job.coordinator.find(job.paths.leases("checkpoint-1")) is None


@flink("ZooKeeperStateHandleStoreTest#testRelease", entry=65, mutant="release-does-nothing")
def test_a_lease_that_is_given_back_is_gone(stage: Stage, job: Job) -> None:
    """A lease that is given back leaves no node, and can be given back again.

    Flink: ZooKeeperStateHandleStoreTest#testRelease [65].
    """
    reader = stage.session("reader")
    with reading(job, reader, 1, clock=stage.wall) as held:
        assert list(nodes(reader, f"{job.paths.base}/leases")) == [job.paths.leases("checkpoint-1"), held.path]

    held.release()

    assert job.coordinator.children(job.paths.leases("checkpoint-1")) == []
    assert held.path not in nodes(reader, job.paths.base)


@flink("ZooKeeperStateHandleStoreTest#testReleaseAll", entry=66, mutant="release-takes-all")
def test_who_gives_its_leases_back_takes_nobody_elses(stage: Stage, job: Job) -> None:
    """Who gives its leases back leaves those of others alone, also on the same thing and under the same name.

    Flink: ZooKeeperStateHandleStoreTest#testReleaseAll [66].
    """
    one, other = stage.session("one"), stage.session("other")
    with reading(job, other, 1, clock=stage.wall) as kept:
        with reading(job, one, 1, clock=stage.wall), reading(job, one, 2, clock=stage.wall):
            pass

        left = [lease.lease_id for lease in active(job.coordinator, job.paths, "checkpoint-1", stage.wall)]
        assert left == [kept.record.lease_id]
        assert active(job.coordinator, job.paths, "checkpoint-2", stage.wall) == []
