"""Adding and replacing an entry: one payload, one pointer, and what becomes of both when the write fails.

Ported from ``ZooKeeperStateHandleStoreTest``. Where Flink has lock nodes below an entry, ours has none: the epoch
guards the leader's writes and leases guard readers.
"""

from __future__ import annotations

import pytest
from kazoo import exceptions as kazoo_errors  # noqa: TID253  # the real errors, put through the real translation

from airflow_provider_ha.coordination._kazoo_transaction import translate
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.errors import FencedError, HaError, OutcomeUnknownError
from tests.conformance.stores.stage import Stage, flink, nodes
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters.pointer_helpers import Note, Pointers, Raising


# What ZooKeeper certainly rejected, as our translation knows it.
CERTAIN = (
    kazoo_errors.NoNodeError,
    kazoo_errors.NoAuthError,
    kazoo_errors.BadVersionError,
    kazoo_errors.AuthFailedError,
)
# Rejections too, and Flink knows them; here they are errors that are not foreseen.
UNFORESEEN = (
    kazoo_errors.BadArgumentsError,
    kazoo_errors.InvalidACLError,
    kazoo_errors.SessionMovedError,
    kazoo_errors.NotReadOnlyCallError,
)


def error_of(kind: type[Exception], entries: Pointers) -> HaError:
    return translate(kind(), f"{entries.paths.checkpoints}/1", "host")


@flink("ZooKeeperStateHandleStoreTest#testAddAndLock", entry=70, mutant="pointer-is-ephemeral")
def test_layout_of_an_entry(real_entries: Pointers) -> None:
    """An entry is one persistent node that names its payload, and one payload in storage.

    Flink: ZooKeeperStateHandleStoreTest#testAddAndLock [70].
    Differs: nothing lies below the node. Flink's lock nodes live and die with sessions, ours would block a removal.
    """
    note = real_entries.add("1", b"state")

    node = real_entries.coordinator.get(f"{real_entries.paths.checkpoints}/1")
    assert Note.from_bytes(node.data, source="the node") == note
    assert node.ephemeral_owner == 0
    assert nodes(real_entries.coordinator, node.path) == {}
    assert real_entries.objects.read(note.key) == b"state"


@flink(
    "ZooKeeperStateHandleStoreTest#testAddFailureHandlingFor"
    "{BadArguments,NoNode,NoAuth,BadVersion,AuthFailed,InvalidACL,SessionMoved,NotReadOnly}Exception",
    entry=3,
    mutant="rejected-payload-stays",
)
@pytest.mark.parametrize("kind", CERTAIN)
def test_a_certain_rejection_discards_the_new_payload(entries: Pointers, kind: type[Exception]) -> None:
    """A write that ZooKeeper certainly rejected leaves neither a pointer nor a payload.

    Flink: ZooKeeperStateHandleStoreTest#testAddFailureHandlingFor{NoNode,NoAuth,BadVersion,AuthFailed}Exception [3].
    """
    error = error_of(kind, entries)

    with pytest.raises(type(error)):
        entries.store().add(Raising(entries.leadership.commit, error, applied=False), "1", entries.note(b"x"), b"x")

    assert (entries.names(), entries.payloads()) == ([], [])


@flink(
    "ZooKeeperStateHandleStoreTest#testAddFailureHandlingFor"
    "{BadArguments,NoNode,NoAuth,BadVersion,AuthFailed,InvalidACL,SessionMoved,NotReadOnly}Exception",
    entry=3,
    mutant="unknown-counts-as-rejected",
)
@pytest.mark.parametrize("kind", UNFORESEEN)
def test_an_unforeseen_error_discards_nothing(entries: Pointers, kind: type[Exception]) -> None:
    """An error that is not foreseen keeps the payload, and the same call later finishes with it.

    Flink: ZooKeeperStateHandleStoreTest#testAddFailureHandlingFor{BadArguments,InvalidACL,SessionMoved,NotReadOnly}
    Exception [3].
    Differs: Flink counts these four as certain. They never arise here (no read-only sessions, one kind of ACL), and a
    payload too many is collected later, while one too few is a lost checkpoint.
    """
    error, note = error_of(kind, entries), entries.note(b"x")

    with pytest.raises(type(error)):
        entries.store().add(Raising(entries.leadership.commit, error, applied=False), "1", note, b"x")

    assert (entries.names(), entries.payloads()) == ([], ["a.json"])
    entries.store().add(entries.leadership.commit, "1", note, b"x")
    assert entries.store().payload(entries.found("1").record) == b"x"


@flink(
    "ZooKeeperStateHandleStoreTest#testFailingAddWithPossiblyInconsistentState",
    entry=1,
    mutant="unknown-counts-as-rejected",
)
def test_a_write_that_arrives_late_finds_its_payload(stage: Stage, entries: Pointers) -> None:
    """A write without an answer discards nothing, for it may still be applied.

    Flink: ZooKeeperStateHandleStoreTest#testFailingAddWithPossiblyInconsistentState [1].
    """
    stage.ensemble.delay(2.5, containing="/checkpoints/1")

    with pytest.raises(OutcomeUnknownError):
        entries.add("1", b"state")
    before = entries.names(), entries.payloads()
    stage.ensemble.advance(2.0)

    assert before == ([], ["1.json"])
    assert entries.store().payload(entries.found("1").record) == b"state"


@flink("ZooKeeperStateHandleStoreTest#testAddAndLockRetrySuccessfulTransaction", entry=2, mutant="no-read-back")
def test_a_write_whose_answer_was_lost_is_a_success(stage: Stage, entries: Pointers) -> None:
    """A write that was applied and not answered is recognised by its bytes, and its payload stays the only one.

    Flink: ZooKeeperStateHandleStoreTest#testAddAndLockRetrySuccessfulTransaction [2].
    Differs: Flink takes any "exists" for its own (CURATOR-584); here the bytes decide.
    """
    stage.ensemble.drop_reply(containing="/checkpoints/1")

    entries.add("1", b"state")

    assert (entries.names(), entries.payloads()) == (["1"], ["1.json"])


@flink("ZooKeeperStateHandleStoreTest#testReplaceRequiringALock", entry=67, mutant="replace-is-not-fenced")
def test_only_the_leader_replaces(stage: Stage, job: Job, entries: Pointers) -> None:
    """Only the leader of the newest epoch replaces an entry; a deposed one changes nothing and leaves no payload.

    Flink: ZooKeeperStateHandleStoreTest#testReplaceRequiringALock [67].
    Differs: what Flink asks the entry's own lock node, the epoch of the job answers here for every entry.
    """
    entries.add("1", b"old")
    seen = entries.found("1")
    epoch = entries.coordinator.get(entries.paths.epoch)
    stage.session("another").commit(SetData(entries.paths.epoch, b"another leader", epoch.version))

    with pytest.raises(FencedError):
        entries.store().replace(job.leadership.commit, seen, entries.note(b"new", "b"), b"new")

    assert entries.store().payload(entries.found("1").record) == b"old"
    assert (entries.payloads(), entries.entries()) == (["1.json"], [])


@flink(
    "ZooKeeperStateHandleStoreTest#testDiscardAfterReplaceFailureWith*",
    entry=69,
    mutant="rejected-payload-stays",
)
@pytest.mark.parametrize("kind", CERTAIN)
def test_a_certain_rejection_of_a_replacement_discards_the_new_payload(
    entries: Pointers, kind: type[Exception]
) -> None:
    """A replacement that was certainly rejected leaves the old pointer and the old payload, and no other.

    Flink: ZooKeeperStateHandleStoreTest#testDiscardAfterReplaceFailureWith* [69].
    """
    entries.add("1", b"old")
    error = error_of(kind, entries)
    rejected = Raising(entries.leadership.commit, error, applied=False)

    with pytest.raises(type(error)):
        entries.store().replace(rejected, entries.found("1"), entries.note(b"new", "b"), b"new")

    assert entries.store().payload(entries.found("1").record) == b"old"
    assert (entries.payloads(), entries.entries()) == (["1.json"], [])


@flink(
    "ZooKeeperStateHandleStoreTest#testDiscardAfterReplaceFailureWith*",
    entry=69,
    mutant="unknown-counts-as-rejected",
)
@pytest.mark.parametrize("kind", [*UNFORESEEN, kazoo_errors.ConnectionLoss])
def test_an_uncertain_replacement_discards_neither_payload(entries: Pointers, kind: type[Exception]) -> None:
    """A replacement whose outcome is unknown keeps the old payload and the new one.

    Flink: ZooKeeperStateHandleStoreTest#testDiscardAfterReplaceFailureWith* [69].
    Differs: four errors that are certain for Flink are unforeseen here, as with additions.
    """
    entries.add("1", b"old")
    error = error_of(kind, entries)
    unsure = Raising(entries.leadership.commit, error, applied=False)

    with pytest.raises(type(error)):
        entries.store().replace(unsure, entries.found("1"), entries.note(b"new", "b"), b"new")

    assert entries.store().payload(entries.found("1").record) == b"old"
    assert entries.payloads() == ["1.json", "b.json"]
