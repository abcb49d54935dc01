"""What only the local store can get wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ObjectExistsError, StorageUnavailableError
from airflow_provider_ha.storage import durable
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.open_storage import open_store
from tests.support.odd_names import ODD


def test_a_root_that_is_gone_is_not_an_empty_one(tmp_path: Path) -> None:
    """A share that is not mounted must not look like a cluster without checkpoints."""
    store = LocalStore(tmp_path / "root")
    store.write("a", b"1")
    (tmp_path / "root").rename(tmp_path / "unmounted")

    with pytest.raises(StorageUnavailableError, match="mounted"):
        store.read("a")
    with pytest.raises(StorageUnavailableError, match="mounted"):
        store.info("a")
    with pytest.raises(StorageUnavailableError, match="mounted"):
        list(store.list(""))


def test_reading_never_makes_a_root(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root")

    with pytest.raises(StorageUnavailableError):
        store.read("a")

    assert not (tmp_path / "root").exists()


def test_a_root_that_may_be_new_is_empty_until_it_is_made(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root", new=True)

    assert (list(store.list("")), list(store.names("")), store.info("a")) == ([], [], None)
    assert not (tmp_path / "root").exists()


def test_what_is_being_removed_or_built_is_not_listed(tmp_path: Path) -> None:
    for name in (".e1-x.0a1b.removed", ".e1-x.0a1b.tmp", ".plain"):
        (tmp_path / "live" / name).mkdir(parents=True)
        (tmp_path / "live" / name / "file").touch()

    assert [item.key for item in LocalStore(tmp_path).list("")] == ["live/.plain/file"]
    assert list(LocalStore(tmp_path).names("live/")) == [".plain"]


def test_a_directory_without_objects_has_no_name(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.write("a/b/c", b"")
    store.delete("a/b/c")

    assert (tmp_path / "a" / "b").is_dir()
    assert list(store.names("")) == []


def test_a_path_that_cannot_be_a_directory_is_unavailable_and_not_missing(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("a file is in the way")

    with pytest.raises(StorageUnavailableError, match="in the way"):
        LocalStore(tmp_path / "root").check_writable()


def test_an_object_in_preparation_is_neither_listed_nor_in_the_way(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with durable.prepared(tmp_path / "a") as (_, stream):
        stream.write(b"half")
        stream.flush()

        assert list(store.list("")) == []
        store.create("a", b"whole")

    assert store.read("a") == b"whole"


def test_a_failed_creation_leaves_the_other_object_and_no_rest(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("a", b"first")

    with pytest.raises(ObjectExistsError):
        store.create("a", b"second")

    assert store.read("a") == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_writer_that_is_killed_leaves_the_old_object_whole(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.write("a", b"old" * 1000)
    program = (
        "import os, signal, sys, pathlib; from airflow_provider_ha.storage import durable;"
        "durable.flush = lambda stream: (stream.flush(), os.kill(os.getpid(), signal.SIGKILL));"
        "from airflow_provider_ha.storage.local_store import LocalStore;"
        "LocalStore(pathlib.Path(sys.argv[1])).write('a', b'new' * 1000)"
    )

    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)

    assert killed.returncode == -signal.SIGKILL
    assert store.read("a") == b"old" * 1000
    assert [item.key for item in store.list("")] == ["a"]


def test_an_object_is_flushed_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    real_fsync, real_link = os.fsync, os.link

    def fsync(fd: int) -> None:
        events.append("fsync")
        real_fsync(fd)

    def link(source: str, target: str) -> None:
        events.append("link")
        real_link(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)

    LocalStore(tmp_path).create("a", b"1")

    assert events == ["fsync", "link", "fsync"]


def test_the_store_of_a_configuration_lies_below_its_cluster(tmp_path: Path) -> None:
    config = HaConfig.build(zookeeper="localhost:2181", storage_root=f"file://{tmp_path}/{ODD}", cluster_id="prod")

    open_store(config).write("a", b"1")

    assert (tmp_path / ODD / "prod" / "a").read_bytes() == b"1"


def test_a_root_that_cannot_be_written_is_named_and_no_object_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")

    with pytest.raises(StorageUnavailableError) as told:
        LocalStore(tmp_path / "file" / "root").check_writable()

    assert told.value.message == f"storage root file://{tmp_path}/file/root cannot be written: a file is in the way"
    assert told.value.next_step


def test_a_file_system_with_reflinks_shares_the_blocks(tmp_path: Path) -> None:
    source, target, content = tmp_path / "source", tmp_path / "target", os.urandom(1 << 20)
    source.write_bytes(content)

    with source.open("rb") as from_, target.open("wb") as to:
        shared = durable.reflink(from_, to)

    if not shared:
        assert target.stat().st_size == 0, "a refused reflink leaves a file that can be copied into"
        pytest.skip("the file system of the tests has no reflinks")
    assert target.read_bytes() == content
