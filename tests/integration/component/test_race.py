"""Races of writers: one wins on every store, except with Delta's default log store on S3."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from tests.integration.component.conftest import AREA, OWN, Store, on_s3
from tests.support.hdfs.hdfs_server import hdfs_server
from tests.support.ivy import Wanted, jars
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access, real_server
from tests.support.s3.s3a_jars import s3a_jars
from tests.support.spark.component_jvm import ComponentJvm, component_jvm, java_class


pytestmark = pytest.mark.timeout(600)


WRITERS, NAMES = 8, 20

EXISTS = "org.apache.hadoop.fs.FileAlreadyExistsException"


@pytest.fixture(scope="module")
def hdfs() -> Iterator[str]:
    """URI of a real HDFS."""
    with hdfs_server() as server:
        yield server.uri


@pytest.fixture
def s3_store(s3_jvm: ComponentJvm, s3: S3Access) -> Store:
    return on_s3(s3_jvm, s3, s3.endpoint)


@pytest.fixture
def local_store(jvm: ComponentJvm, tmp_path: Path) -> Store:
    uri = f"hafile://{tmp_path}/{OWN}"
    jvm.open_gate(uri)
    return Store(jvm, jvm.conf(f"file://{tmp_path}"), f"{uri}/q")


@pytest.fixture
def hdfs_store(jvm: ComponentJvm, hdfs: str) -> Store:
    uri = f"ha{hdfs}/root/{OWN}"
    jvm.open_gate(uri)
    conf = jvm.conf(f"{hdfs}/root", {"dfs.replication": "1", "dfs.client.use.datanode.hostname": "true"})
    return Store(jvm, conf, f"{uri}/q")


@pytest.mark.parametrize("store", ["local_store", "s3_store", pytest.param("hdfs_store", marks=pytest.mark.long)])
def test_one_of_eight_writers_gets_each_of_twenty_names(store: str, request: pytest.FixtureRequest) -> None:
    race(request.getfixturevalue(store))


def race(store: Store) -> None:
    """All writers have opened a name before the first of them closes it: what a frozen driver does."""
    manager = store.jvm.manager(store.conf, f"{store.uri}/commits")
    files = store.jvm.files(store.conf, store.uri)
    opened = threading.Barrier(WRITERS)

    def write(name: str, writer: int) -> str:
        stream = manager.createAtomic(store.jvm.path(name), False)
        stream.write(b"same bytes but one %d" % writer)
        opened.wait(120)
        try:
            stream.close()
        except Py4JJavaError as error:
            stream.cancel()
            return java_class(error)
        return f"same bytes but one {writer}"

    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(NAMES):
            name = f"{store.uri}/commits/{number}"
            told = list(pool.map(partial(write, name), range(WRITERS)))
            won = [answer for answer in told if answer != EXISTS]
            assert won == [store.jvm.read(files, name).decode()]


def test_a_winner_whose_reply_was_lost_has_won_and_no_other(s3_jvm: ComponentJvm, s3: S3Access) -> None:
    """The repeated request is answered with 412; equal bytes would let every writer believe that it has won."""
    lost: list[str] = []

    def lose_reply(exchange: Exchange) -> None:
        exchange.ask()
        lost.append(exchange.path)
        exchange.cut()

    faults = [Fault(lose_reply, "PUT", f"/commits/{number}") for number in range(3)]
    with s3_proxy(s3.endpoint, *faults) as proxied:
        store = on_s3(s3_jvm, s3, proxied)
        manager = s3_jvm.manager(store.conf, f"{store.uri}/commits")
        before = s3_jvm.counts()
        for number in range(3):
            name = f"{store.uri}/commits/{number}"
            first, second = (manager.createAtomic(s3_jvm.path(name), False) for _ in range(2))
            first.write(b"same")
            second.write(b"same")
            first.close()
            with pytest.raises(Py4JJavaError) as error:
                second.close()
            assert java_class(error.value) == EXISTS
            assert "was created by writer 8/s/process/" in str(error.value.java_exception.getMessage())

    after = s3_jvm.counts()
    assert len(lost) == 3
    assert after["write_owned"] - before.get("write_owned", 0) == 3
    assert after["write_lost"] - before.get("write_lost", 0) == 3


def test_a_loser_waits_until_the_store_shows_what_the_winner_wrote(s3_jvm: ComponentJvm, s3: S3Access) -> None:
    """The server refuses a writer some milliseconds before a HEAD finds the object."""
    late = Fault(refuse(404, "NoSuchKey"), "HEAD", "/offsets/0", times=3)  # S3A looks for the name with a slash as well
    with s3_proxy(s3.endpoint, late) as proxied:
        store = on_s3(s3_jvm, s3, proxied)
        manager = s3_jvm.manager(store.conf, f"{store.uri}/offsets")
        first, second = (manager.createAtomic(s3_jvm.path(f"{store.uri}/offsets/0"), False) for _ in range(2))
        first.close()

        with pytest.raises(Py4JJavaError) as error:
            second.close()

    assert java_class(error.value) == EXISTS
    assert late.hits == 3


@pytest.mark.long
@pytest.mark.parametrize("overwrite", [False, True])
def test_an_object_that_the_server_refuses_in_the_close_is_not_written(
    s3_jvm: ComponentJvm, s3: S3Access, overwrite: bool
) -> None:
    fault = Fault(refuse(503, "SlowDown"), "PUT", "/17.delta", times=FOR_EVER)
    with s3_proxy(s3.endpoint, fault) as proxied:
        store = on_s3(s3_jvm, s3, proxied)
        name = f"{store.uri}/state/0/3/17.delta"
        manager = s3_jvm.manager(store.conf, f"{store.uri}/state/0/3")
        stream = manager.createAtomic(s3_jvm.path(name), overwrite)
        stream.write(b"state")

        with pytest.raises(Py4JJavaError, match="503"):
            stream.close()
        with pytest.raises(Py4JJavaError, match="was not written"):
            stream.close()
        stream.cancel()

    assert fault.hits > 0
    assert not manager.exists(s3_jvm.path(name))


def test_what_is_cancelled_on_s3_is_never_sent(s3_jvm: ComponentJvm, s3: S3Access) -> None:
    sent: list[str] = []

    def note(exchange: Exchange) -> None:
        sent.append(exchange.path)
        exchange.forward()

    with s3_proxy(s3.endpoint, Fault(note, "PUT", "/offsets/", times=FOR_EVER)) as proxied:
        store = on_s3(s3_jvm, s3, proxied)
        stream = s3_jvm.manager(store.conf, f"{store.uri}/offsets").createAtomic(
            s3_jvm.path(f"{store.uri}/offsets/0"), False
        )
        stream.write(b"entry")
        stream.cancel()
        stream.close()

    assert sent == []


def test_an_entry_on_s3_costs_one_request(s3_jvm: ComponentJvm, s3: S3Access) -> None:
    asked: list[str] = []

    def note(exchange: Exchange) -> None:
        asked.append(exchange.path)
        exchange.forward()

    faults = [
        Fault(note, method, f"/root/{AREA}/", times=FOR_EVER) for method in ("GET", "HEAD", "PUT", "POST", "DELETE")
    ]
    with s3_proxy(s3.endpoint, *faults) as proxied:
        store = on_s3(s3_jvm, s3, proxied)
        manager = s3_jvm.manager(store.conf, f"{store.uri}/offsets")
        s3_jvm.create(manager, f"{store.uri}/offsets/0", b"entry")  # which looks for the base once
        asked.clear()

        s3_jvm.create(manager, f"{store.uri}/offsets/1", b"entry")

    assert len(asked) == 1, asked


def test_a_table_on_s3_is_uploaded_and_copied_back(s3_jvm: ComponentJvm, s3: S3Access, tmp_path: Path) -> None:
    """Tables of RocksDB travel by S3A's own copies, not through streams."""
    store = on_s3(s3_jvm, s3, s3.endpoint)
    name = f"{store.uri}/state/0/3/SSTs/000008-c351d044-0f03-447f-99fc-95d370f5fb88.sst"
    files = s3_jvm.files(store.conf, store.uri)
    (tmp_path / "table").write_bytes(b"table")

    files.copyFromLocalFile(False, True, s3_jvm.path(f"file://{tmp_path}/table"), s3_jvm.path(name))
    files.copyToLocalFile(False, s3_jvm.path(name), s3_jvm.path(f"file://{tmp_path}/copied"))

    assert (tmp_path / "copied").read_bytes() == b"table"
    assert s3_jvm.names(files, name.rpartition("/")[0]) == [name.rpartition("/")[2]]


@pytest.mark.long
def test_files_on_hdfs_have_the_replication_that_hdfs_is_set_to(jvm: ComponentJvm, hdfs: str) -> None:
    """A file system has 1 by default, also where HDFS is set to 3: a lost disk would take the state with it."""
    conf = jvm.conf(f"{hdfs}/root", {"dfs.replication": "3", "fs.hdfs.impl.disable.cache": "true"})
    uri = f"ha{hdfs}/root/{OWN}/q/state/0/3"
    files = jvm.files(conf, uri)

    jvm.create(jvm.manager(conf, uri), f"{uri}/17.delta", b"state", overwrite=True)
    files.create(jvm.path(f"{uri}/17.zip"), True).close()

    for name in ("17.delta", "17.zip"):
        assert files.getFileStatus(jvm.path(f"{uri}/{name}")).getReplication() == 3


@pytest.mark.long
def test_nothing_half_written_is_visible_on_hdfs(hdfs_store: Store) -> None:
    jvm, uri = hdfs_store.jvm, f"{hdfs_store.uri}/offsets"
    files = jvm.files(hdfs_store.conf, uri)
    stream = jvm.manager(hdfs_store.conf, uri).createAtomic(jvm.path(f"{uri}/77"), False)
    stream.write(b"entry")

    assert [name for name in jvm.names(files, uri) if not name.startswith(".")] == []
    stream.cancel()
    assert jvm.names(files, uri) == []


COMMIT = "_delta_log/00000000000000000001.json"


@pytest.mark.long
def test_a_driver_that_wakes_in_its_request_writes_over_the_commit_of_the_next_one() -> None:
    storage = jars("delta-storage-4.4.0", (Wanted("io.delta", "delta-storage", "4.4.0", transitive=False),))
    more_jars = (*s3a_jars(), *storage)
    with real_server() as s3, component_jvm(more_jars) as jvm:
        bucket, met, go_on = s3.new_bucket(), threading.Event(), threading.Event()

        def hold(exchange: Exchange) -> None:
            exchange.body()
            met.set()
            go_on.wait(120)
            exchange.forward()

        with s3_proxy(s3.endpoint, Fault(hold, "PUT", COMMIT)) as slow, ThreadPoolExecutor() as pool:
            zombie = pool.submit(write, jvm, _s3a(s3, slow), bucket, "of the zombie")
            assert met.wait(120)
            with component_jvm(more_jars) as other:
                write(other, _s3a(s3, s3.endpoint), bucket, "of the new driver")
            assert _commit(s3, bucket) == "of the new driver\n"

            go_on.set()
            zombie.result(120)

        assert _commit(s3, bucket) == "of the zombie\n"  # and the rows of the new driver are in no commit


def write(jvm: ComponentJvm, values: dict[str, str], bucket: str, action: str) -> None:
    """Write the commit as Delta does, of one action."""
    conf = jvm.conf(f"s3a://{bucket}", values)
    actions = jvm.jvm.java.util.ArrayList()
    actions.add(action)
    store = jvm.jvm.io.delta.storage.S3SingleDriverLogStore(conf)
    store.write(jvm.path(f"s3a://{bucket}/table/{COMMIT}"), actions.iterator(), False, conf)


def _commit(s3: S3Access, bucket: str) -> str:
    body = s3.client().get_object(Bucket=bucket, Key=f"table/{COMMIT}")["Body"]
    return str(body.read().decode())


def _s3a(s3: S3Access, endpoint: str) -> dict[str, str]:
    return {
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": s3.access_key,
        "fs.s3a.secret.key": s3.secret_key,
    }
