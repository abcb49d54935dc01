"""What every store does: the same tests on a file system and on a real S3 server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import (
    ConfigurationError,
    ObjectExistsError,
    ObjectMissingError,
    RecordCorruptError,
    StorageUnavailableError,
)
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.blobs import fetch_blob, get_blob, put_blob
from airflow_provider_ha.storage.local import LocalStore
from airflow_provider_ha.storage.s3 import S3Store
from airflow_provider_ha.storage.store import ObjectStore
from tests.s3_server import loses_first_answer, s3_server


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture
def s3_bucket(s3_endpoint: str) -> tuple[str, str]:
    """Endpoint and name of a bucket that nobody else uses."""
    import boto3

    bucket = f"bucket-{new_id()}"
    client = boto3.client(
        "s3", endpoint_url=s3_endpoint, region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="secret"
    )
    client.create_bucket(Bucket=bucket)
    client.close()
    return s3_endpoint, bucket


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "local":
        return LocalStore(tmp_path / "root" / "cluster")
    endpoint, bucket = request.getfixturevalue("s3_bucket")
    return S3Store(f"s3://{bucket}/prefix/cluster", options_for(endpoint))


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

    run_at_once([lambda number=number: create(number) for number in range(8)])

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


def test_a_bucket_that_is_gone_is_not_an_empty_one(s3_endpoint: str, tmp_path: Path) -> None:
    store = S3Store("s3://nobody-made-this", options_for(s3_endpoint))

    with pytest.raises(StorageUnavailableError, match="nobody-made-this"):
        store.info("a")
    with pytest.raises(StorageUnavailableError):
        store.read("a")
    with pytest.raises(StorageUnavailableError):
        store.download("a", tmp_path / "target")
    with pytest.raises(StorageUnavailableError):
        list(store.list(""))


def test_a_creation_whose_answer_was_lost_is_recognised_as_ones_own(s3_bucket: tuple[str, str]) -> None:
    """The client library repeats the request, and the repetition finds what the first one wrote."""
    endpoint, bucket = s3_bucket

    with loses_first_answer(endpoint) as (proxied, lost):
        S3Store(f"s3://{bucket}", options_for(proxied)).create("a", b"mine")

    assert lost == ["PUT"]
    assert S3Store(f"s3://{bucket}", options_for(endpoint)).read("a") == b"mine"


def test_a_creation_whose_answer_was_lost_does_not_claim_the_object_of_another(s3_bucket: tuple[str, str]) -> None:
    endpoint, bucket = s3_bucket
    S3Store(f"s3://{bucket}", options_for(endpoint)).create("a", b"theirs")

    with loses_first_answer(endpoint) as (proxied, lost), pytest.raises(ObjectExistsError):
        S3Store(f"s3://{bucket}", options_for(proxied)).create("a", b"mine")

    assert lost == ["PUT"]


def options_for(endpoint: str) -> S3Options:
    return S3Options(endpoint_url=endpoint, access_key="key", secret_key="secret")


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
