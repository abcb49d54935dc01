"""Files that Spark writes as well, on a directory, on S3 and on HDFS: what every store of them does."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from airflow_provider_ha.errors import (
    ConfigurationError,
    ObjectExistsError,
    ObjectMissingError,
    StorageUnavailableError,
)
from airflow_provider_ha.storage.durable import PREPARED
from airflow_provider_ha.storage.file_store import FileStore
from airflow_provider_ha.storage.hdfs_files import HdfsFileStore
from airflow_provider_ha.storage.local_files import LocalFileStore
from airflow_provider_ha.storage.roots import probe_races
from airflow_provider_ha.storage.s3_files import S3FileStore
from tests.support.hdfs.hdfs_server import Hdfs
from tests.support.odd_names import ODD
from tests.support.s3.s3_faults import Fault, lose_answer, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access


@pytest.fixture(params=["directory", "s3", pytest.param("hdfs", marks=pytest.mark.long)])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FileStore]:
    """An empty store."""
    if request.param == "directory":
        yield LocalFileStore(tmp_path / ODD)
        return
    if request.param == "hdfs":
        hdfs: Hdfs = request.getfixturevalue("hdfs")
        yield HdfsFileStore(f"{hdfs.new_root()}/{ODD}", hdfs.options())
        return
    real: S3Access = request.getfixturevalue("real")
    yield S3FileStore(f"s3://{real.new_bucket()}/{ODD}", real.options())


def test_a_file_is_listed_with_what_tells_it_from_its_successor(files: FileStore) -> None:
    files.write("a/.hidden/file", b"content")

    (found,) = files.list("a/")

    assert (found.key, found.size, found.mtime > 0) == ("a/.hidden/file", 7, True)
    assert found == files.info("a/.hidden/file")


def test_only_what_lies_below_the_prefix_is_listed(files: FileStore) -> None:
    for key in ("a/1", "a/b/2", "ab/3"):
        files.write(key, b"")

    assert [file.key for file in files.list("a/")] == ["a/1", "a/b/2"]
    assert (list(files.names("a/")), list(files.names("none/"))) == (["1", "b"], [])


def test_names_are_those_of_files_and_directories_of_the_root(files: FileStore) -> None:
    files.write("a/1", b"")
    files.write("file", b"")

    assert list(files.names("")) == ["a", "file"]


def test_what_is_not_there_has_no_bytes_and_is_removed_already(files: FileStore) -> None:
    assert files.info("a") is None
    with pytest.raises(ObjectMissingError):
        files.read("a")
    files.delete("a")


def test_a_file_is_created_once(files: FileStore) -> None:
    files.create("a", b"first", writer="1/s/one")

    with pytest.raises(ObjectExistsError):
        files.create("a", b"first", writer="1/s/two")

    assert files.read("a") == b"first"


def test_a_file_is_replaced_and_removed(files: FileStore, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"third")

    files.write("a/b", b"first")
    files.write("a/b", b"second")
    second = files.read("a/b")
    files.upload("a/b", tmp_path / "source")
    third = files.read("a/b")
    files.delete("a/b")

    assert (second, third, list(files.names(""))) == (b"second", b"third", [])


def test_a_part_of_a_file_ends_with_it(files: FileStore) -> None:
    files.write("a", b"0123456789")
    (file,) = files.list("")

    assert [files.read_range(file, offset, 4) for offset in (0, 8, 10)] == [b"0123", b"89", b""]


def test_a_file_that_was_replaced_is_not_read_on(files: FileStore) -> None:
    files.write("a", b"0123456789")
    (file,) = files.list("")
    files.write("a", b"another that is longer")

    with pytest.raises(StorageUnavailableError, match="was replaced while it was read"):
        files.read_range(file, 0, 4)


@pytest.mark.parametrize("key", ["../a", "a/../../b", "", "/a", "a//b", "a/./b", "a\n"])
def test_a_key_never_leads_out(files: FileStore, key: str) -> None:
    for act in (files.read, files.delete, files.info):
        with pytest.raises(ConfigurationError):
            act(key)


@pytest.mark.parametrize("name", ["a b", "a%20b", "a+b", "\u00e4#?;=&", "q'\"\\", "[x]{y}"])
def test_a_name_of_any_characters_is_found_as_it_was_written(files: FileStore, name: str) -> None:
    files.create(f"{name}/{name}", name.encode())

    (found,) = files.list("")

    assert (found.key, files.read(found.key), list(files.names(""))) == (f"{name}/{name}", name.encode(), [name])


@pytest.mark.parametrize("files", ["directory", pytest.param("hdfs", marks=pytest.mark.long)], indirect=True)
def test_what_is_in_preparation_is_no_file(files: FileStore) -> None:
    files.write(f"a/{PREPARED}1", b"begun")
    files.write("a/file", b"")

    assert [file.key for file in files.list("")] == ["a/file"]
    assert list(files.names("a/")) == ["file"]
    assert [file.key for file in files.prepared("")] == [f"a/{PREPARED}1"]


def test_what_was_written_is_listed_and_read_at_once(files: FileStore) -> None:
    def write(writer: int) -> list[str]:
        """Return what is missing after each write: from listings, from reads."""
        missing = []
        for number in range(10):
            key = f"a/{writer}-{number}"
            files.create(key, key.encode(), writer=key)
            listed = key in {file.key for file in files.list("a/")} and key.removeprefix("a/") in files.names("a/")
            if not listed or files.read(key) != key.encode():
                missing.append(key)
        return missing

    with ThreadPoolExecutor(4) as pool:
        missing = [key for keys in pool.map(write, range(4)) for key in keys]

    assert missing == []
    assert len(list(files.list("a/"))) == 40


def test_a_file_is_never_seen_in_part(files: FileStore, tmp_path: Path) -> None:
    """While it is replaced by one of another length, again and again."""
    sizes, over, seen = (6 << 20, 9 << 20), Event(), set[int]()
    for size in sizes:
        (tmp_path / str(size)).write_bytes(b"x" * size)

    def look() -> None:
        while not over.is_set():
            found = files.info("a/large")
            seen.add(found.size if found is not None else 0)

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(look)
        for size in sizes * 2:
            files.upload("a/large", tmp_path / str(size))
        over.set()
        watching.result()

    assert seen <= {0, *sizes}
    assert [(file.key, file.size) for file in files.list("")] == [("a/large", sizes[-1])]


def test_a_later_file_is_not_older(files: FileStore) -> None:
    for number in range(5):
        files.write(f"a/{number}", b"")

    times = [file.mtime for file in files.list("a/")]

    assert times == sorted(times)


def test_of_creations_at_one_moment_one_wins(files: FileStore) -> None:
    probe_races(files, "probe/race")

    assert list(files.names("")) == []


def test_a_creation_whose_answer_was_lost_is_recognised_by_its_writer(real: S3Access) -> None:
    bucket, lost = real.new_bucket(), Fault(lose_answer, "PUT")

    with s3_proxy(real.endpoint, lost) as proxied:
        S3FileStore(f"s3://{bucket}/prefix", real.options(proxied)).create("a", b"v1", writer="8/s/5e1c")

    assert lost.hits == 1


def test_a_writer_waits_until_the_store_shows_the_object_that_it_was_refused_for(real: S3Access) -> None:
    bucket, late = real.new_bucket(), Fault(refuse(404, "NoSuchKey"), "HEAD", "/a", times=2)
    S3FileStore(f"s3://{bucket}/prefix", real.options()).create("a", b"v1", writer="7/s/one")

    with s3_proxy(real.endpoint, late) as proxied, pytest.raises(ObjectExistsError):
        S3FileStore(f"s3://{bucket}/prefix", real.options(proxied)).create("a", b"v2", writer="8/s/two")

    assert late.hits == 2


def test_equal_bytes_of_another_writer_are_not_ones_own(real: S3Access) -> None:
    """Two leaders write the same commit: only who wrote it tells who has won."""
    bucket, lost = real.new_bucket(), Fault(lose_answer, "PUT")
    S3FileStore(f"s3://{bucket}/prefix", real.options()).create("a", b"v1", writer="7/s/one")

    with s3_proxy(real.endpoint, lost) as proxied, pytest.raises(ObjectExistsError):
        S3FileStore(f"s3://{bucket}/prefix", real.options(proxied)).create("a", b"v1", writer="8/s/two")
