"""What every store does: on a directory, on HDFS, and on two S3 servers, one of which checks signatures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from airflow_provider_ha.errors import (
    ConfigurationError,
    ObjectExistsError,
    ObjectMissingError,
    RecordCorruptError,
    StorageUnavailableError,
)
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.blobs import fetch_blob, get_blob, put_blob
from airflow_provider_ha.storage.durable import PREPARED
from airflow_provider_ha.storage.hdfs_store import HdfsStore
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.storage.s3_store import S3Store
from tests.support.hdfs.hdfs_server import Hdfs
from tests.support.odd_names import ODD
from tests.support.s3.s3_server import S3Access


pytestmark = pytest.mark.timeout(120, func_only=True)  # the first test may have to build the server

HDFS = pytest.param("hdfs", marks=pytest.mark.long)


@pytest.fixture(params=["directory", "moto", "s3", HDFS])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store."""
    if request.param == "directory":
        (tmp_path / "root").mkdir()
        return LocalStore(tmp_path / "root" / ODD, new=True)
    if request.param == "hdfs":
        hdfs: Hdfs = request.getfixturevalue("hdfs")
        return HdfsStore(f"{hdfs.new_root()}/{ODD}", hdfs.options())
    access: S3Access = request.getfixturevalue("real" if request.param == "s3" else "moto")
    return S3Store(f"s3://{access.new_bucket()}/{ODD}", access.options())


def test_an_object_is_listed_with_what_tells_it_from_its_successor(store: ObjectStore) -> None:
    store.write("a/.hidden/file", b"content")

    (found,) = store.list("a/")

    assert (found.key, found.size, found.mtime > 0) == ("a/.hidden/file", 7, True)
    assert found == store.info("a/.hidden/file")


def test_a_listing_is_by_prefix_and_in_the_order_of_the_keys(store: ObjectStore) -> None:
    for key in ("a/x/2", "a/x-1", "a/x/1", "a/y", "b/x", "file"):
        store.write(key, b"1")

    assert [item.key for item in store.list("a/x")] == ["a/x-1", "a/x/1", "a/x/2"]
    assert [item.key for item in store.list("a/x/")] == ["a/x/1", "a/x/2"]
    assert [item.key for item in store.list("")] == ["a/x-1", "a/x/1", "a/x/2", "a/y", "b/x", "file"]
    assert list(store.list("nothing/here")) == []


def test_names_are_those_of_objects_and_directories(store: ObjectStore) -> None:
    for key in ("a/x/2", "a/x-1", "a/y", "file"):
        store.write(key, b"1")

    assert [list(store.names(prefix)) for prefix in ("", "a/", "none/")] == [["a", "file"], ["x", "x-1", "y"], []]


def test_what_is_not_there_is_missing_and_not_unavailable(store: ObjectStore, tmp_path: Path) -> None:
    store.write("some/other", b"")

    assert store.info("a/b") is None
    store.delete("a/b")
    for act in (store.read, store.touch, lambda key: store.download(key, tmp_path / "into" / "file")):
        with pytest.raises(ObjectMissingError, match="'a/b'"):
            act("a/b")
    assert list(tmp_path.glob("into/*")) == []


def test_an_object_is_created_once(store: ObjectStore) -> None:
    store.create("a", b"first", writer="1/s/one")

    for writer in ("", "1/s/two"):
        with pytest.raises(ObjectExistsError):
            store.create("a", b"first", writer=writer)

    assert store.read("a") == b"first"


def test_an_object_is_replaced_and_removed(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"third")

    store.write("a/b", b"first")
    store.write("a/b", b"second")
    second = store.read("a/b")
    store.upload("a/b", tmp_path / "source")
    third = store.read("a/b")
    store.delete("a/b")

    assert (second, third, list(store.names(""))) == (b"second", b"third", [])


def test_a_file_goes_up_and_comes_down_unchanged(store: ObjectStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)) * 1000)

    store.upload("a/b", source)
    store.download("a/b", tmp_path / "into" / "target")

    assert (tmp_path / "into" / "target").read_bytes() == source.read_bytes()
    assert (info := store.info("a/b")) is not None
    assert info.size == 256_000


def test_touching_renews_the_time_and_keeps_the_bytes(store: ObjectStore) -> None:
    store.write("a", b"1")
    before = store.info("a")

    run_at_once([lambda: store.touch("a")])

    after = store.info("a")
    assert before is not None
    assert after is not None
    assert after.modified >= before.modified
    assert store.read("a") == b"1"


def test_a_part_of_an_object_ends_with_it(store: ObjectStore) -> None:
    store.write("a", b"0123456789")
    (item,) = store.list("")

    assert [store.read_range(item, offset, 4) for offset in (0, 8, 10)] == [b"0123", b"89", b""]


def test_an_object_that_was_replaced_is_not_read_on(store: ObjectStore) -> None:
    store.write("a", b"0123456789")
    (item,) = store.list("")
    store.write("a", b"another that is longer")

    with pytest.raises(StorageUnavailableError, match="was replaced while it was read"):
        store.read_range(item, 0, 4)


@pytest.mark.parametrize("key", ["../a", "a/../../b", "", "/a", "a//b", "a/./b", "a\nb"])
def test_a_key_never_leads_out(store: ObjectStore, key: str) -> None:
    for act in (store.read, store.delete, store.info):
        with pytest.raises(ConfigurationError, match="key"):
            act(key)


@pytest.mark.parametrize("name", ["a b", "a%20b", "a+b", "\u00e4#?;=&", "q'\"\\", "[x]{y}"])
def test_a_name_of_any_characters_is_found_as_it_was_written(store: ObjectStore, name: str) -> None:
    store.create(f"{name}/{name}", name.encode())

    (found,) = store.list("")

    assert (found.key, store.read(found.key), list(store.names(""))) == (f"{name}/{name}", name.encode(), [name])


@pytest.mark.parametrize("store", ["directory", HDFS], indirect=True)
def test_what_is_in_preparation_is_no_object(store: ObjectStore) -> None:
    store.write(f"a/{PREPARED}1", b"begun")
    store.write("a/file", b"")

    assert [item.key for item in store.list("")] == ["a/file"]
    assert list(store.names("a/")) == ["file"]
    assert [item.key for item in store.prepared("")] == [f"a/{PREPARED}1"]


def test_what_was_written_is_listed_and_read_at_once(store: ObjectStore) -> None:
    def write(writer: int) -> list[str]:
        """Return what is missing after each write: from listings, from reads."""
        missing = []
        for number in range(10):
            key = f"a/{writer}-{number}"
            store.create(key, key.encode(), writer=key)
            listed = key in {item.key for item in store.list("a/")} and key.removeprefix("a/") in store.names("a/")
            if not listed or store.read(key) != key.encode():
                missing.append(key)
        return missing

    with ThreadPoolExecutor(4) as pool:
        missing = [key for keys in pool.map(write, range(4)) for key in keys]

    assert missing == []
    assert len(list(store.list("a/"))) == 40


def test_an_object_is_never_seen_in_part(store: ObjectStore, tmp_path: Path) -> None:
    """While it is replaced by one of another length, again and again."""
    sizes, over, seen = (6 << 20, 9 << 20), Event(), set[int]()
    for size in sizes:
        (tmp_path / str(size)).write_bytes(b"x" * size)

    def look() -> None:
        while not over.is_set():
            found = store.info("a/large")
            seen.add(found.size if found is not None else 0)

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(look)
        for size in sizes * 2:
            store.upload("a/large", tmp_path / str(size))
        over.set()
        watching.result()

    assert seen <= {0, *sizes}
    assert [(item.key, item.size) for item in store.list("")] == [("a/large", sizes[-1])]


def test_a_later_object_is_not_older(store: ObjectStore) -> None:
    for number in range(5):
        store.write(f"a/{number}", b"")

    times = [item.modified for item in store.list("a/")]

    assert times == sorted(times)


def test_of_racing_creations_exactly_one_wins(store: ObjectStore) -> None:
    winners: list[int] = []

    def create(number: int) -> None:
        try:
            store.create("race/key", str(number).encode())
        except ObjectExistsError:
            return
        winners.append(number)

    run_at_once([partial(create, number) for number in range(8)])

    assert len(winners) == 1
    assert store.read("race/key") == str(winners[0]).encode()


def test_the_probe_leaves_nothing_behind(store: ObjectStore) -> None:
    store.check_writable()

    assert list(store.names("")) == []


def test_a_store_that_ignores_conditional_writes_is_refused(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "create", store.write)

    with pytest.raises(StorageUnavailableError, match="conditional"):
        store.check_writable()


def test_a_blob_is_found_by_its_digest(store: ObjectStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"content")

    assert put_blob(store, source) == put_blob(store, b"content")
    sha256, size = put_blob(store, b"content")
    fetch_blob(store, sha256, tmp_path / "into" / "target")

    assert size == 7
    assert get_blob(store, sha256) == b"content"
    assert (tmp_path / "into" / "target").read_bytes() == b"content"
    assert (tmp_path / "into" / "target").stat().st_mode & 0o077 == 0


def test_a_damaged_blob_is_never_returned(store: ObjectStore, tmp_path: Path) -> None:
    sha256, _ = put_blob(store, b"content")
    store.write(keys.blob(sha256), b"garbage")

    with pytest.raises(RecordCorruptError, match=sha256):
        get_blob(store, sha256)
    with pytest.raises(RecordCorruptError, match=sha256):
        fetch_blob(store, sha256, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_an_upload_mends_a_blob_of_another_size(store: ObjectStore, tmp_path: Path) -> None:
    sha256, _ = put_blob(store, b"content")
    (tmp_path / "source").write_bytes(b"content")

    for content in (tmp_path / "source", b"content"):
        store.write(keys.blob(sha256), b"cont")
        put_blob(store, content)

        assert get_blob(store, sha256) == b"content"


def run_at_once(functions: list[Callable[[], None]]) -> None:
    barrier = threading.Barrier(len(functions))

    def run(function: Callable[[], None]) -> None:
        barrier.wait()
        function()

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
