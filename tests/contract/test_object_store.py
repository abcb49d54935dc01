"""What every store does: the same tests on a file system and on two S3 servers, one of which checks signatures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

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
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.storage.s3 import S3Store
from tests.support.s3.s3_faults import Fault, lose_answer, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access


pytestmark = pytest.mark.timeout(120, func_only=True)  # the first test may have to build the server


@pytest.fixture(params=["local", "moto", "real"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "local":
        return LocalStore(tmp_path / "root" / "cluster")
    access: S3Access = request.getfixturevalue(request.param)
    return access.store(access.new_bucket())


def test_an_object_is_read_back_as_it_was_written(store: ObjectStore) -> None:
    store.write("a/b.json", b"first")
    store.write("a/b.json", b"second")

    assert store.read("a/b.json") == b"second"


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


def test_what_is_not_there_is_missing_and_not_unavailable(store: ObjectStore) -> None:
    store.write("some/other", b"")

    assert store.info("a/b") is None
    store.delete("a/b")
    with pytest.raises(ObjectMissingError, match="'a/b'"):
        store.read("a/b")
    with pytest.raises(ObjectMissingError, match="'a/b'"):
        store.touch("a/b")


def test_a_failed_download_leaves_nothing_behind(store: ObjectStore, tmp_path: Path) -> None:
    store.write("some/other", b"")
    target = tmp_path / "into" / "file"

    with pytest.raises(ObjectMissingError):
        store.download("a/b", target)

    assert list(tmp_path.glob("into/*")) == []


def test_a_file_goes_up_and_comes_down_unchanged(store: ObjectStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)) * 1000)

    store.upload("a/b", source)
    store.download("a/b", tmp_path / "into" / "target")

    assert (tmp_path / "into" / "target").read_bytes() == source.read_bytes()
    assert (info := store.info("a/b")) is not None
    assert info.size == 256_000


def test_a_listing_is_by_prefix_and_in_the_order_of_the_keys(store: ObjectStore) -> None:
    for key in ("a/x/2", "a/x-1", "a/x/1", "a/y", "b/x"):
        store.write(key, b"1")

    assert [item.key for item in store.list("a/x")] == ["a/x-1", "a/x/1", "a/x/2"]
    assert [item.key for item in store.list("a/x/")] == ["a/x/1", "a/x/2"]
    assert [item.key for item in store.list("")] == ["a/x-1", "a/x/1", "a/x/2", "a/y", "b/x"]
    assert list(store.list("nothing/here")) == []


def test_touching_renews_the_time_and_keeps_the_bytes(store: ObjectStore) -> None:
    store.write("a", b"1")
    before = store.info("a")

    run_at_once([lambda: store.touch("a")])

    after = store.info("a")
    assert before is not None
    assert after is not None
    assert after.modified >= before.modified
    assert store.read("a") == b"1"


@pytest.mark.parametrize("key", ["../a", "a/../b", "/a", "", "a//b", "a/.prepared-1", "a\nb"])
def test_a_key_cannot_leave_the_root(store: ObjectStore, key: str) -> None:
    with pytest.raises(ConfigurationError, match="key"):
        store.read(key)


def test_the_probe_leaves_nothing_behind(store: ObjectStore) -> None:
    store.check_writable()

    assert list(store.list("")) == []


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
    store.write(keys.blob(sha256), b"cont")
    (tmp_path / "source").write_bytes(b"content")

    put_blob(store, tmp_path / "source")
    assert get_blob(store, sha256) == b"content"

    store.write(keys.blob(sha256), b"cont")
    put_blob(store, b"content")
    assert get_blob(store, sha256) == b"content"


def test_a_bucket_that_is_gone_is_not_an_empty_one(s3: S3Access, tmp_path: Path) -> None:
    store = S3Store("s3://nobody-made-this", s3.options())

    with pytest.raises(StorageUnavailableError, match="nobody-made-this"):
        store.info("a")
    with pytest.raises(StorageUnavailableError):
        store.read("a")
    with pytest.raises(StorageUnavailableError):
        store.download("a", tmp_path / "target")
    with pytest.raises(StorageUnavailableError):
        list(store.list(""))


def test_a_creation_whose_answer_was_lost_is_recognised_as_ones_own(s3: S3Access) -> None:
    """The client library repeats the request, and the repetition finds what the first one wrote."""
    bucket, lost = s3.new_bucket(), Fault(lose_answer, "PUT")

    with s3_proxy(s3.endpoint, lost) as proxied:
        s3.store(bucket, proxied).create("a", b"mine")

    assert lost.hits == 1
    assert s3.store(bucket).read("a") == b"mine"


def test_a_creation_whose_answer_was_lost_does_not_claim_the_object_of_another(s3: S3Access) -> None:
    bucket, lost = s3.new_bucket(), Fault(lose_answer, "PUT")
    s3.store(bucket).create("a", b"theirs")

    with s3_proxy(s3.endpoint, lost) as proxied, pytest.raises(ObjectExistsError):
        s3.store(bucket, proxied).create("a", b"mine")

    assert lost.hits == 1


@pytest.mark.parametrize("there", [True, False])
def test_a_conflict_says_nothing_about_who_wins_and_is_asked_again(s3: S3Access, there: bool) -> None:
    """S3 answers so when a removal of the key is under way as well: then no writer has won."""
    bucket, conflict = s3.new_bucket(), Fault(refuse(409, "ConditionalRequestConflict"), "PUT", times=2)
    if there:
        s3.store(bucket).create("a", b"theirs")

    with s3_proxy(s3.endpoint, conflict) as proxied:
        store = s3.store(bucket, proxied)
        if there:
            with pytest.raises(ObjectExistsError):
                store.create("a", b"mine")
        else:
            store.create("a", b"mine")

    assert conflict.hits == 2
    assert s3.store(bucket).read("a") == (b"theirs" if there else b"mine")


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
