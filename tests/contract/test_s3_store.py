"""What only S3 can get wrong: a missing bucket, answers that are lost, and copies by the server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_provider_ha.errors import ObjectExistsError, ObjectMissingError, StorageUnavailableError
from airflow_provider_ha.storage.limits import MIB, S3Limits
from airflow_provider_ha.storage.object_store import ObjectInfo, ObjectStore
from airflow_provider_ha.storage.s3_store import S3Store
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, lose_answer, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access


pytestmark = pytest.mark.timeout(120, func_only=True)  # the first test may have to build the server

IN_PARTS = S3Limits(copy_whole=5 * MIB, copy_part=5 * MIB)  # S3 has no smaller parts
LARGE = os.urandom(11 * MIB)  # three parts


def written(store: ObjectStore, content: bytes) -> ObjectInfo:
    """Write an object, and return it as a listing has it."""
    store.write("a", content)
    (found,) = store.list("a")
    return found


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


@pytest.mark.parametrize("writer", ["", "8/s/5e1c"])
def test_a_creation_whose_answer_was_lost_is_recognised_by_its_writer(s3: S3Access, writer: str) -> None:
    """The client library repeats the request, and the repetition finds what the first one wrote."""
    bucket, lost = s3.new_bucket(), Fault(lose_answer, "PUT")

    with s3_proxy(s3.endpoint, lost) as proxied:
        s3.store(bucket, proxied).create("a", b"mine", writer=writer)

    assert lost.hits == 1
    assert s3.store(bucket).read("a") == b"mine"


@pytest.mark.parametrize("writer", ["", "8/s/two"])
def test_equal_bytes_of_another_writer_are_not_ones_own(s3: S3Access, writer: str) -> None:
    """Two leaders write the same commit: only who wrote it tells who has won."""
    bucket, lost = s3.new_bucket(), Fault(lose_answer, "PUT")
    s3.store(bucket).create("a", b"v1", writer="7/s/one")

    with s3_proxy(s3.endpoint, lost) as proxied, pytest.raises(ObjectExistsError):
        s3.store(bucket, proxied).create("a", b"v1", writer=writer)

    assert lost.hits == 1


def test_a_caller_that_repeats_a_creation_is_its_writer(s3: S3Access) -> None:
    store = s3.store(s3.new_bucket())
    store.create("a", b"v1", writer="8/s/one")

    store.create("a", b"v1", writer="8/s/one")

    assert store.read("a") == b"v1"


def test_a_writer_waits_until_the_store_shows_the_object_that_it_was_refused_for(s3: S3Access) -> None:
    bucket, late = s3.new_bucket(), Fault(refuse(404, "NoSuchKey"), "HEAD", "/a", times=2)
    s3.store(bucket).create("a", b"v1", writer="7/s/one")

    with s3_proxy(s3.endpoint, late) as proxied, pytest.raises(ObjectExistsError):
        s3.store(bucket, proxied).create("a", b"v2", writer="8/s/two")

    assert late.hits == 2


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


def test_markers_of_directories_are_listed_only_when_they_are_asked_for(s3: S3Access) -> None:
    bucket = s3.new_bucket()
    s3.client().put_object(Bucket=bucket, Key="prefix/cluster/a/empty/", Body=b"")
    store = s3.store(bucket)

    assert list(store.list("a/")) == []
    assert [item.key for item in store.list("a/", markers=True)] == ["a/empty/"]


@pytest.mark.parametrize("content", [b"", b"small", LARGE], ids=["empty", "small", "large"])
def test_a_copy_has_the_bytes_of_its_source_and_replaces_what_is_there(s3: S3Access, content: bytes) -> None:
    store = s3.store(s3.new_bucket(), limits=IN_PARTS)
    source = written(store, content)
    store.write("b/to", b"old and longer")

    store.copy(source, "b/to")
    store.write("a", b"second")

    assert store.read("b/to") == content


def test_a_copy_of_nothing_is_an_error(s3: S3Access) -> None:
    store = s3.store(s3.new_bucket())
    source = written(store, b"1")
    store.delete("a")

    with pytest.raises(ObjectMissingError, match="'a'"):
        store.copy(source, "b")


def test_a_large_copy_is_made_in_parts_and_by_the_server(s3: S3Access) -> None:
    bucket = s3.new_bucket()
    source = written(s3.store(bucket), LARGE)
    parts = Fault(lambda exchange: exchange.forward(), "PUT", "partNumber=", "x-amz-copy-source", times=FOR_EVER)

    with s3_proxy(s3.endpoint, parts) as proxied:
        s3.store(bucket, proxied, IN_PARTS).copy(source, "b")

    assert parts.hits == 3
    assert s3.client().head_object(Bucket=bucket, Key="prefix/cluster/b")["ETag"].strip('"').endswith("-3")


def test_nothing_of_a_copy_in_parts_that_fails_stays(s3: S3Access) -> None:
    bucket = s3.new_bucket()
    source = written(s3.store(bucket), LARGE)
    broken = Fault(refuse(400, "InvalidRequest"), "PUT", "partNumber=2", times=FOR_EVER)

    with s3_proxy(s3.endpoint, broken) as proxied, pytest.raises(StorageUnavailableError, match="InvalidRequest"):
        s3.store(bucket, proxied, IN_PARTS).copy(source, "b")

    assert s3.store(bucket).info("b") is None
    assert "Uploads" not in s3.client().list_multipart_uploads(Bucket=bucket)


@pytest.mark.parametrize("method", ["HEAD", "PUT"])
def test_a_source_that_was_replaced_since_its_listing_is_not_copied(real: S3Access, method: str) -> None:
    """Before the copy looks at its source, or after it."""
    bucket = real.new_bucket()
    store = real.store(bucket)
    source = written(store, b"old")

    def replace(exchange: Exchange) -> None:
        store.write("a", b"new")
        exchange.forward()

    with (
        s3_proxy(real.endpoint, Fault(replace, method)) as proxied,
        pytest.raises((ObjectMissingError, StorageUnavailableError)),
    ):
        real.store(bucket, proxied).copy(source, "b")

    assert store.info("b") is None


def test_a_source_that_changes_during_the_copy_is_not_mixed(real: S3Access) -> None:
    """Every part says which object it is of; a half of each would have the right size. moto does not look at that."""
    bucket = real.new_bucket()
    store = real.store(bucket)
    source = written(store, LARGE)

    def change(exchange: Exchange) -> None:
        store.write("a", bytes(len(LARGE)))
        exchange.forward()

    late = Fault(change, "PUT", "partNumber=3")
    with s3_proxy(real.endpoint, late) as proxied, pytest.raises(StorageUnavailableError, match="expected ETag"):
        real.store(bucket, proxied, IN_PARTS).copy(source, "b")

    assert late.hits == 1
    assert store.info("b") is None
