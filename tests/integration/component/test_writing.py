"""Writes, deletes and logs of sinks in the JVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from tests.integration.component.conftest import Local
from tests.support.spark.component_jvm import ComponentJvm, java_class


pytestmark = pytest.mark.timeout(400)
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


def test_a_cancelled_write_leaves_no_file_even_after_a_close(leader: Local) -> None:
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


COLLECTED = ("offsets/4", "commits/3", "sources/0/9.compact", "state/0/3/17.zip", "state/0/3/17.delta.crc")


@pytest.mark.parametrize("name", COLLECTED)
def test_a_delete_is_left_to_the_collector_and_counted(local: Local, name: str) -> None:
    local.write(name)
    before = local.jvm.counts().get("delete_left", 0)

    local.manager(name.rpartition("/")[0]).delete(local.jvm.path(f"{local.uri}/{name}"))

    assert local.read(name) == f"8 {name}"
    assert local.jvm.counts()["delete_left"] == before + 1


@pytest.mark.parametrize("name", ["state", "state/0/3", "", "offsets"])
def test_directories_are_left_as_well(local: Local, name: str) -> None:
    local.write("state/0/3/17.zip")
    local.write("offsets/4")

    local.files.delete(local.jvm.path(f"{local.uri}/{name}".rstrip("/")), True)

    assert (local.own / "state/0/3/17.zip").exists()
    assert (local.own / "offsets/4").exists()


def test_hidden_files_are_removed(local: Local) -> None:
    local.write("offsets/.4.0b7e6f1a.tmp")

    local.files.delete(local.jvm.path(f"{local.uri}/offsets/.4.0b7e6f1a.tmp"), False)

    assert not (local.own / "offsets/.4.0b7e6f1a.tmp").exists()


@pytest.mark.parametrize("name", ["17.zip", "17.delta"])
def test_a_name_that_was_deleted_is_written_again(local: Local, name: str) -> None:
    """Format 1: a batch that is executed again deletes and writes the version that it wrote before, in one JVM."""
    local.inherit(f"state/0/3/{name}")
    manager, files, uri = local.manager("state/0/3"), local.files, f"{local.uri}/state/0/3/{name}"
    for content in (b"first", b"second"):
        local.jvm.create(manager, uri, content, overwrite=True)
        manager.delete(local.jvm.path(uri))

    assert local.jvm.names(files, f"{local.uri}/state/0/3") == [name]
    assert local.jvm.read(files, uri) == b"second"
    assert (local.old / "state/0/3" / name).read_bytes() == f"7 state/0/3/{name}".encode()


@pytest.fixture
def owner(jvm: ComponentJvm, tmp_path: Path) -> Local:
    """A root where Spark deletes by itself."""
    return Local(jvm, jvm.conf(f"file://{tmp_path}", {"fs.ha.deletes": "own"}), tmp_path)


def test_with_own_deletes_only_own_files_go(owner: Local) -> None:
    owner.inherit("offsets/3", "offsets/4")
    owner.write("offsets/5")
    files = owner.files

    for name in ("offsets/3", "offsets/5"):
        files.delete(owner.jvm.path(f"{owner.uri}/{name}"), False)

    assert owner.jvm.names(files, f"{owner.uri}/offsets") == ["4"]
    assert not (owner.own / "offsets/5").exists()
    assert (owner.old / "offsets/3").exists()


def test_another_way_to_delete_is_refused(jvm: ComponentJvm, tmp_path: Path) -> None:
    with pytest.raises(Py4JJavaError, match=r"fs\.ha\.deletes is all: it can be collector or own"):
        jvm.files(jvm.conf(f"file://{tmp_path}", {"fs.ha.deletes": "all"}), f"hafile://{tmp_path}")


ANOTHER = "io.github.sparkha.SinkLogs$EntryOfAnother"


@pytest.fixture
def output(local: Local, tmp_path: Path) -> Path:
    """An output whose log has batches 0 and 1, in a JVM that leads."""
    local.jvm.open_gate(f"hafile://{local.own.parent}")
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for batch in range(2):
        (log / str(batch)).write_bytes(b"v1")
    return log.parent


@pytest.fixture
def names(local: Local, output: Path) -> Callable[[], list[str]]:
    """Lists the log as Spark does."""
    uri = f"file://{output}/_spark_metadata"
    manager = local.jvm.manager(local.conf, uri)
    return lambda: sorted(status.getPath().getName() for status in manager.list(local.jvm.path(uri)))


@pytest.mark.parametrize("late", ["2", "2.compact"])
def test_an_entry_that_another_driver_adds_after_the_look_ends_the_query(
    local: Local, output: Path, names: Callable[[], list[str]], late: str
) -> None:
    local.jvm.classes.SinkLogs.start(str(output), 1)
    assert names() == ["0", "1"]
    (output / "_spark_metadata" / late).write_bytes(b"v1")

    with pytest.raises(Py4JJavaError, match=f"{late} was written by another driver after this one had looked") as met:
        names()

    assert java_class(met.value) == ANOTHER


def test_what_this_driver_adds_is_no_surprise(local: Local, output: Path, names: Callable[[], list[str]]) -> None:
    local.jvm.classes.SinkLogs.start(str(output), 1)
    uri = f"file://{output}/_spark_metadata"
    manager = local.jvm.manager(local.conf, uri)

    for name in ("2.compact", "3"):
        local.jvm.create(manager, f"{uri}/{name}", b"v1")

    assert names() == ["0", "1", "2.compact", "3"]


def test_a_new_look_knows_the_entry(local: Local, output: Path, names: Callable[[], list[str]]) -> None:
    local.jvm.classes.SinkLogs.start(str(output), 0)
    local.jvm.classes.SinkLogs.start(f"file://{output}/", 1)

    assert names() == ["0", "1"]


def test_a_log_that_no_query_of_this_job_writes_is_read_as_it_is(names: Callable[[], list[str]]) -> None:
    assert names() == ["0", "1"]
