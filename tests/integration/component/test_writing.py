"""A file appears whole and once, or not at all: on the local disk, where no server can help."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from tests.integration.component.conftest import Local
from tests.support.spark.component_jvm import java_class


pytestmark = pytest.mark.timeout(400)  # the first test waits for the compiler and for a JVM
EXISTS = "org.apache.hadoop.fs.FileAlreadyExistsException"


@pytest.fixture
def leader(local: Local) -> Local:
    """A root whose gate is open."""
    local.jvm.open_gate(f"hafile://{local.own.parent}")
    return local


def test_nothing_is_there_before_the_close(leader: Local) -> None:
    stream = leader.manager("offsets").createAtomic(leader.jvm.path(f"{leader.uri}/offsets/0"), False)
    stream.write(b"entry")

    assert not (leader.own / "offsets/0").exists()
    stream.close()
    assert [path.name for path in (leader.own / "offsets").iterdir()] == ["0"]


def test_what_was_cancelled_leaves_nothing_and_a_close_does_not_bring_it_back(leader: Local) -> None:
    stream = leader.manager("offsets").createAtomic(leader.jvm.path(f"{leader.uri}/offsets/0"), False)
    stream.write(b"half")
    stream.cancel()
    stream.close()

    assert list((leader.own / "offsets").iterdir()) == []


def test_the_second_of_two_open_writers_loses(leader: Local) -> None:
    manager = leader.manager("commits")
    first, second = (manager.createAtomic(leader.jvm.path(f"{leader.uri}/commits/0"), False) for _ in range(2))
    first.write(b"same")
    second.write(b"same")
    first.close()

    with pytest.raises(Py4JJavaError) as lost:
        second.close()

    assert java_class(lost.value) == EXISTS
    assert [path.name for path in (leader.own / "commits").iterdir()] == ["0"]


def test_a_close_that_failed_never_succeeds_later(leader: Local) -> None:
    manager = leader.manager("commits")
    first, second = (manager.createAtomic(leader.jvm.path(f"{leader.uri}/commits/0"), False) for _ in range(2))
    first.close()
    with pytest.raises(Py4JJavaError):
        second.close()

    with pytest.raises(Py4JJavaError, match="was not written"):
        second.close()
    second.cancel()


def test_a_file_with_a_failed_write_is_not_published(leader: Local) -> None:
    path = leader.own / "state/0/3/17.delta"
    stream = leader.manager("state/0/3").createAtomic(leader.jvm.path(f"{leader.uri}/state/0/3/17.delta"), True)
    stream.write(b"begun")
    hidden = next(path.parent.iterdir())
    inside = stream.underlyingStream()
    field = inside.getClass().getDeclaredField("out")
    field.setAccessible(True)
    field.get(inside).close()  # as if the disk were full from here on
    with pytest.raises(Py4JJavaError, match="ClosedChannelException"):
        stream.write(b"more")

    with pytest.raises(Py4JJavaError, match="the file is not whole"):
        stream.close()

    assert not path.exists()
    assert not hidden.exists()


def test_a_file_of_state_replaces_one_that_hadoop_has_a_checksum_of(leader: Local) -> None:
    name = "state/0/3/17.zip"
    leader.write(name)
    (leader.own / "state/0/3/.17.zip.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + bytes(4))

    leader.jvm.create(leader.manager("state/0/3"), f"{leader.uri}/{name}", b"new", overwrite=True)

    assert leader.read(name) == "new"


@pytest.mark.parametrize(("first", "second"), [("9", "9.compact"), ("9.compact", "9")])
def test_both_names_of_a_batch_of_a_sink_s_log_are_one(leader: Local, tmp_path: Path, first: str, second: str) -> None:
    uri = f"file://{tmp_path}/out/_spark_metadata"
    manager = leader.jvm.manager(leader.conf, uri)
    leader.jvm.create(manager, f"{uri}/{first}", b"v1")

    with pytest.raises(Py4JJavaError) as lost:
        leader.jvm.create(manager, f"{uri}/{second}", b"v1")

    assert java_class(lost.value) == EXISTS
    assert [path.name for path in (tmp_path / "out/_spark_metadata").iterdir()] == [first]


def test_of_two_open_writers_under_both_names_at_most_one_goes_on(leader: Local, tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/out/_spark_metadata"
    manager = leader.jvm.manager(leader.conf, uri)
    first, second = (manager.createAtomic(leader.jvm.path(f"{uri}/{name}"), False) for name in ("9", "9.compact"))
    first.close()

    with pytest.raises(Py4JJavaError) as lost:
        second.close()

    assert java_class(lost.value) == EXISTS


def test_it_knows_a_local_disk_and_makes_directories(leader: Local) -> None:
    manager = leader.manager("offsets")

    assert manager.isLocal()
    assert str(manager.createCheckpointDirectory()) == f"hafile:{leader.own}/offsets"
    assert (leader.own / "offsets").is_dir()
    assert not manager.exists(leader.jvm.path(f"{leader.uri}/offsets/0"))
    manager.delete(leader.jvm.path(f"{leader.uri}/offsets/0"))
