"""What every coordinator keeps: the same tests on the fake ensemble and on a real ZooKeeper, so that neither drifts."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

from airflow_provider_ha.coordination.coordinator import (
    Check,
    Coordinator,
    Create,
    Delete,
    Op,
    Reads,
    SessionState,
    SetData,
)
from airflow_provider_ha.errors import (
    CoordinationError,
    NodeExistsError,
    NodeMissingError,
    NotConnectedError,
    OutcomeUnknownError,
    VersionConflictError,
)
from tests.contract.clusters import Cluster
from tests.support.fake import FakeEnsemble


BACKENDS = ("fake", "zookeeper")


def test_a_node_is_read_with_its_version_and_owner(coordinator: Coordinator, base: str) -> None:
    coordinator.commit(Create(f"{base}/a", b"1", ephemeral=True))
    coordinator.commit(SetData(f"{base}/a", b"2"))

    node = coordinator.get(f"{base}/a")

    assert (node.data, node.version) == (b"2", 1)
    assert coordinator.session is not None
    assert node.ephemeral_owner == coordinator.session.session_id


def test_versions_come_back_in_the_order_of_the_operations(coordinator: Coordinator, base: str) -> None:
    coordinator.commit(Create(f"{base}/a"), Create(f"{base}/b"))

    versions = coordinator.commit(
        Check(f"{base}/a"), SetData(f"{base}/a", b"x", 0), Create(f"{base}/c"), Delete(f"{base}/b")
    )

    assert versions == [-1, 1, 0, -1]


@pytest.mark.parametrize("before", [1, 100], ids=["at_first", "after_many"])
def test_several_reads_are_one(coordinator: Coordinator, base: str, before: int) -> None:
    coordinator.commit(Create(f"{base}/b", b"1"), Create(f"{base}/a"))
    coordinator.read(Reads((base,) * before))

    seen = coordinator.read(Reads((f"{base}/b", f"{base}/gone"), (base, f"{base}/gone")))

    assert seen.there(f"{base}/b") == coordinator.get(f"{base}/b")
    assert seen.nodes[f"{base}/gone"] is None
    assert seen.lists == {base: ["a", "b"], f"{base}/gone": []}
    with pytest.raises(NodeMissingError, match=f"{base}/gone does not exist") as caught:
        seen.there(f"{base}/gone")
    assert caught.value.path == f"{base}/gone"


def test_more_reads_than_one_request_takes_are_one(coordinator: Coordinator, base: str) -> None:
    names = [f"node-{number:04d}" for number in range(1_100)]
    coordinator.commit(Create(f"{base}/zwölf"), Create(f"{base}/zwölf/größe", b"g"), Create(f"{base}/empty"))
    for start in range(0, len(names), 100):
        coordinator.commit(*(Create(f"{base}/{name}", name.encode()) for name in names[start : start + 100]))
    paths = [f"{base}/{name}" for name in (*names, "gone", "empty", "zwölf/größe")]

    seen = coordinator.read(Reads(tuple(paths), (base, f"{base}/gone", f"{base}/zwölf", f"{base}/empty")))

    assert seen.nodes == {path: coordinator.find(path) for path in paths}
    assert list(seen.nodes) == paths
    assert seen.lists == {
        base: [*sorted(["empty", *names]), "zwölf"],
        f"{base}/gone": [],
        f"{base}/zwölf": ["größe"],
        f"{base}/empty": [],
    }


def test_many_reads_survive_a_cut(cluster: Cluster, base: str) -> None:
    cluster.cut_for_a_moment()

    seen = cluster.fragile.read(Reads((base, *(f"{base}/{number}" for number in range(200)))))

    assert [path for path, node in seen.nodes.items() if node is not None] == [base]


def test_many_reads_see_an_unanswered_write(cluster: Cluster, base: str) -> None:
    cluster.lose_answer(containing=f"{base}/a")
    with pytest.raises(OutcomeUnknownError):
        cluster.fragile.commit(Create(f"{base}/a", b"1"))

    seen = cluster.fragile.read(Reads((f"{base}/a", *(f"{base}/{number}" for number in range(200)))))

    assert seen.there(f"{base}/a").data == b"1"


def test_an_empty_read_sends_no_request(coordinator: Coordinator) -> None:
    seen = coordinator.read(Reads())

    assert (seen.nodes, seen.lists) == ({}, {})


@pytest.mark.parametrize(("name", "version", "error"), [("gone", -1, NodeMissingError), ("a", 7, VersionConflictError)])
def test_one_rejected_operation_rejects_all(
    coordinator: Coordinator, base: str, name: str, version: int, error: type[CoordinationError]
) -> None:
    coordinator.commit(Create(f"{base}/a"))

    with pytest.raises(error) as caught:
        coordinator.commit(Create(f"{base}/b"), Check(f"{base}/{name}", version))

    assert caught.value.path == f"{base}/{name}"
    assert coordinator.children(base) == ["a"]


def test_a_name_is_created_once(coordinator: Coordinator, base: str) -> None:
    coordinator.commit(Create(f"{base}/a"))

    with pytest.raises(NodeExistsError, match=f"{base}/a exists"):
        coordinator.commit(Create(f"{base}/a"))


def test_a_missing_node_is_none_and_has_no_children(coordinator: Coordinator, base: str) -> None:
    assert coordinator.find(f"{base}/a") is None
    assert coordinator.children(f"{base}/a") == []
    with pytest.raises(NodeMissingError):
        coordinator.get(f"{base}/a")


def test_ensure_creates_missing_parents_and_keeps_existing_nodes(coordinator: Coordinator, base: str) -> None:
    coordinator.commit(Create(f"{base}/a", b"kept"))

    coordinator.ensure(f"{base}/a/b/c", f"{base}/a")

    assert coordinator.get(f"{base}/a").data == b"kept"
    assert coordinator.children(f"{base}/a/b") == ["c"]


def test_a_watch_reports_a_creation_a_change_and_a_new_child(coordinator: Coordinator, base: str) -> None:
    created, changed, child = threading.Event(), threading.Event(), threading.Event()
    coordinator.find(f"{base}/a", watch=created.set)

    coordinator.commit(Create(f"{base}/a"))
    coordinator.get(f"{base}/a", watch=changed.set)
    coordinator.children(f"{base}/a", watch=child.set)
    coordinator.commit(SetData(f"{base}/a", b"x"), Create(f"{base}/a/b"))

    assert created.wait(5)
    assert changed.wait(5)
    assert child.wait(5)


def test_a_watch_fires_once(cluster: Cluster, coordinator: Coordinator, base: str) -> None:
    calls: list[int] = []
    last = threading.Event()
    coordinator.get(base, watch=lambda: calls.append(1))

    coordinator.commit(SetData(base, b"1"))
    coordinator.commit(SetData(base, b"2"))
    coordinator.get(base, watch=last.set)
    coordinator.commit(SetData(base, b"3"))

    cluster.eventually(last.is_set, "the last change")
    assert calls == [1]


few_and_many = pytest.mark.parametrize("beside", [0, 150, 1_100], ids=["few", "many", "more_than_a_request_takes"])


@few_and_many
def test_a_watch_of_several_reads_names_the_node_that_was_changed_created_or_deleted(
    cluster: Cluster, coordinator: Coordinator, base: str, beside: int
) -> None:
    coordinator.commit(*(Create(f"{base}/{name}") for name in ("a", "b", "c")))
    others = tuple(f"{base}/other-{number}" for number in range(beside))
    moved: list[str] = []

    seen = coordinator.read(
        Reads((f"{base}/a", f"{base}/b", f"{base}/new", *others, f"{base}/never", f"{base}/c"), (base,)),
        watch=moved.append,
    )
    coordinator.commit(SetData(f"{base}/a", b"1"), Create(f"{base}/new"), Delete(f"{base}/c"))
    coordinator.commit(SetData(f"{base}/a", b"2"), SetData(f"{base}/new", b"1"), Create(f"{base}/c"))

    cluster.eventually(lambda: sorted(moved) == [f"{base}/a", f"{base}/c", f"{base}/new"], "all, once")
    assert [path for path, node in seen.nodes.items() if node is not None] == [f"{base}/{name}" for name in "abc"]
    assert seen.lists == {base: ["a", "b", "c"]}


@few_and_many
def test_a_watch_that_is_set_again_fires_once(
    cluster: Cluster, coordinator: Coordinator, base: str, beside: int
) -> None:
    reads = Reads((base, f"{base}/new", *(f"{base}/other-{number}" for number in range(beside))))
    moved: list[str] = []
    coordinator.read(reads, watch=moved.append)
    coordinator.read(reads, watch=moved.append)

    coordinator.commit(SetData(base, b"1"), Create(f"{base}/new"))

    cluster.eventually(lambda: len(moved) >= 2, "both")
    coordinator.get(base)  # answered after every event of before
    assert sorted(moved) == [base, f"{base}/new"]


@few_and_many
def test_nodes_that_are_likely_to_be_absent_are_read_and_watched_like_all_others(
    cluster: Cluster, coordinator: Coordinator, base: str, beside: int
) -> None:
    coordinator.commit(Create(f"{base}/there", b"1"))
    there, new, never = (f"{base}/{name}" for name in ("there", "new", "never"))
    others = tuple(f"{base}/other-{number}" for number in range(beside))
    moved: list[str] = []

    seen = coordinator.read(
        Reads((never, there, base, new, *others), absent=frozenset({there, new, never})), watch=moved.append
    )
    coordinator.commit(SetData(there, b"2"), Create(new))

    cluster.eventually(lambda: sorted(moved) == [new, there], "both, once")
    found = [node.data if node else None for node in seen.nodes.values()]
    assert found == [None, b"1", b"", None, *[None] * beside]
    assert list(seen.nodes) == [never, there, base, new, *others]


@few_and_many
def test_a_lost_connection_fires_the_watch_of_every_node_that_was_read(
    cluster: Cluster, base: str, beside: int
) -> None:
    watched = {base, *(f"{base}/gone-{number}" for number in range(beside + 1))}
    moved: set[str] = set()
    cluster.fragile.read(Reads(tuple(watched)), watch=moved.add)

    cluster.fragile.drop_connection()

    cluster.eventually(lambda: moved == watched, "all watches")


def test_a_watch_for_children_waits_for_a_parent_that_is_not_there(
    cluster: Cluster, coordinator: Coordinator, base: str
) -> None:
    came = threading.Event()
    assert coordinator.children(f"{base}/a", watch=came.set) == []

    coordinator.commit(Create(f"{base}/a"))

    cluster.eventually(came.is_set, "the parent")


@pytest.mark.parametrize(
    ("ops", "error", "path"),
    [
        ((Delete("{base}/parent"),), VersionConflictError, "{base}/parent"),
        ((Create("{base}/a/b"),), NodeMissingError, "{base}/a/b"),
        ((SetData("{base}/a", b""),), NodeMissingError, "{base}/a"),
        ((Delete("{base}/parent/child", 3),), VersionConflictError, "{base}/parent/child"),
        ((Check("{base}/parent"), Create("{base}/parent/child")), NodeExistsError, "{base}/parent/child"),
        ((Create("{base}/own", ephemeral=True), Create("{base}/own/b")), CoordinationError, "{base}/own/b"),
        (
            (Delete("{base}/parent/child"), Delete("{base}/parent"), Check("{base}/parent")),
            NodeMissingError,
            "{base}/parent",
        ),
    ],
)
def test_a_rejection_names_the_operation(
    coordinator: Coordinator, base: str, ops: tuple[Op, ...], error: type[CoordinationError], path: str
) -> None:
    coordinator.commit(Create(f"{base}/parent"), Create(f"{base}/parent/child"))

    with pytest.raises(CoordinationError) as caught:
        coordinator.commit(*(at(op, base) for op in ops))

    assert type(caught.value) is error
    assert caught.value.path == path.format(base=base)
    assert coordinator.children(base) == ["parent"]
    assert coordinator.children(f"{base}/parent") == ["child"]


def at(op: Op, base: str) -> Op:
    """Return the operation below *base*."""
    values = {name: getattr(op, name) for name in op.__dataclass_fields__}
    return type(op)(**{**values, "path": op.path.format(base=base)})


def test_later_changes_have_higher_transactions(coordinator: Coordinator, base: str) -> None:
    coordinator.commit(Create(f"{base}/a"), Create(f"{base}/b"))
    coordinator.commit(SetData(f"{base}/a", b"x"))

    first, second = coordinator.get(f"{base}/b").modified_zxid, coordinator.get(f"{base}/a").modified_zxid

    assert 0 < first < second


def test_a_closed_session_takes_its_nodes_along(cluster: Cluster, coordinator: Coordinator, base: str) -> None:
    other, gone = cluster.connect(), threading.Event()
    other.commit(Create(f"{base}/a", ephemeral=True))
    coordinator.get(f"{base}/a", watch=gone.set)

    other.close()

    cluster.eventually(gone.is_set, "the node to go")
    assert coordinator.find(f"{base}/a") is None
    assert other.session is None


def test_a_closed_session_says_so(cluster: Cluster, base: str) -> None:
    session = cluster.connect()
    session.close()
    session.close()

    with pytest.raises(CoordinationError, match="was closed"):
        session.get(base)


def test_a_lost_connection_fires_the_watches_because_they_are_gone(cluster: Cluster, base: str) -> None:
    doubt = threading.Event()
    cluster.fragile.get(base, watch=doubt.set)

    cluster.fragile.drop_connection()

    cluster.eventually(doubt.is_set, "the watch")


def test_a_dropped_connection_comes_back_with_the_same_session(cluster: Cluster, base: str) -> None:
    session = cluster.fragile
    states: list[SessionState] = []
    session.add_state_listener(states.append)
    before = session.session

    session.drop_connection()
    cluster.eventually(lambda: states[-1:] == [SessionState.CONNECTED], "the session to be back")

    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert session.session == before
    assert session.get(base).path == base


def test_a_session_that_was_ended_is_lost_and_another_one_follows(
    cluster: Cluster, coordinator: Coordinator, base: str
) -> None:
    session = cluster.fragile
    states: list[SessionState] = []
    session.commit(Create(f"{base}/own", ephemeral=True))
    session.add_state_listener(states.append)
    before = session.session

    cluster.end_session()
    cluster.eventually(lambda: states[-1:] == [SessionState.CONNECTED], "the next session")

    assert states == [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED]
    assert session.session not in {None, before}
    assert coordinator.find(f"{base}/own") is None


def test_a_silent_session_ends_by_its_timeout(cluster: Cluster, coordinator: Coordinator, base: str) -> None:
    session, gone = cluster.fragile, threading.Event()
    session.commit(Create(f"{base}/own", ephemeral=True))
    coordinator.get(f"{base}/own", watch=gone.set)

    cluster.cut()
    cluster.eventually(gone.is_set, "the session to expire")

    assert session.state is SessionState.SUSPENDED, "it has not heard of it"
    cluster.heal()
    cluster.eventually(lambda: session.state is SessionState.CONNECTED, "the next session")


@pytest.mark.parametrize(("asked", "granted"), [(3600.0, 60.0), (0.1, 0.4), (3.0, 3.0)])
def test_the_granted_timeout_is_known_not_only_the_one_asked_for(
    cluster: Cluster, asked: float, granted: float
) -> None:
    """Two ticks are the least, the server's limit is the most."""
    assert cluster.connect(session_timeout=asked).negotiated_timeout == granted


def test_an_unanswered_write_is_unknown_and_the_next_read_sees_it(cluster: Cluster, base: str) -> None:
    cluster.lose_answer(containing=f"{base}/a")

    with pytest.raises(OutcomeUnknownError, match=f"{base}/a"):
        cluster.fragile.commit(Create(f"{base}/a", b"1"))

    assert cluster.fragile.get(f"{base}/a").data == b"1"


def test_ensure_makes_its_nodes_when_the_answer_to_a_write_is_lost(
    cluster: Cluster, coordinator: Coordinator, base: str
) -> None:
    cluster.lose_answer(containing=f"{base}/a")

    cluster.fragile.ensure(f"{base}/a/b")

    assert coordinator.get(f"{base}/a/b").path == f"{base}/a/b"


def test_a_write_without_a_server_is_not_sent_and_not_kept_for_later(
    cluster: Cluster, coordinator: Coordinator, base: str
) -> None:
    cluster.cut()

    with pytest.raises(NotConnectedError, match="no request was sent"):
        cluster.fragile.commit(Create(f"{base}/a"), timeout=0.2)

    cluster.heal()
    cluster.fragile.get(base)
    assert coordinator.find(f"{base}/a") is None


def test_a_read_survives_a_cut(cluster: Cluster, base: str) -> None:
    cluster.cut_for_a_moment()

    assert cluster.fragile.get(base).path == base


def test_too_much_data_is_refused_before_it_breaks_the_connection(coordinator: Coordinator, base: str) -> None:
    with pytest.raises(CoordinationError, match="only a pointer"):
        coordinator.commit(Create(f"{base}/a", b"x" * 1_100_000))

    assert coordinator.state is SessionState.CONNECTED


def outcome_of(coordinator: Coordinator, ops: list[Op]) -> object:
    """Return the versions, or the error with its node."""
    try:
        return coordinator.commit(*ops)
    except CoordinationError as error:
        return type(error), error.path


def random_ops(chance: random.Random, base: str) -> list[Op]:
    """Return a transaction about few nodes, so that it often meets another one."""

    def version() -> int:
        return chance.choice([-1, -1, 0, 1, 2])  # a new one for each operation

    makers: list[Callable[[str], Op]] = [
        lambda path: Check(path, version()),
        lambda path: Create(path, b"c", ephemeral=chance.random() < 0.2),
        lambda path: SetData(path, b"s", version()),
        lambda path: Delete(path, version()),
    ]
    names = ("a", "b", "a/x", "a/y", "b/x")
    return [chance.choice(makers)(f"{base}/{chance.choice(names)}") for _ in range(chance.randint(1, 4))]


def test_the_fake_answers_like_the_real_one(backend: str, coordinator: Coordinator, base: str) -> None:
    """Random transactions, each sent to the backend and to a fresh fake: equal answers, equal trees."""
    fake = FakeEnsemble(seed=1).connect()
    fake.ensure(base)
    chance = random.Random(20131)
    answers = set()
    for _ in range(400):
        ops = random_ops(chance, base)
        answer = outcome_of(coordinator, ops)
        answers.add(answer[0] if isinstance(answer, tuple) else "applied")

        assert outcome_of(fake, ops) == answer, ops
        for name in ("a", "b", "a/x", "a/y", "b/x"):
            assert described(fake, f"{base}/{name}") == described(coordinator, f"{base}/{name}")

    assert answers >= {"applied", NodeMissingError, NodeExistsError, VersionConflictError, CoordinationError}


def described(coordinator: Coordinator, path: str) -> object:
    node = coordinator.find(path)
    return node and (node.data, node.version, bool(node.ephemeral_owner), coordinator.children(path))
