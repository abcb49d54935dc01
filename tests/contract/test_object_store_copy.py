"""What every store does when it copies an object, and what only S3 can get wrong with it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from airflow_provider_ha.errors import (
    ConfigurationError,
    ObjectExistsError,
    ObjectMissingError,
    StorageUnavailableError,
)
from airflow_provider_ha.storage import durable
from airflow_provider_ha.storage.limits import MIB, S3Limits
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.object_store import ObjectStore
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, lose_answer, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access


pytestmark = pytest.mark.timeout(120, func_only=True)  # the first test may have to build the server

IN_PARTS = S3Limits(copy_whole=5 * MIB, copy_part=5 * MIB)  # S3 has no smaller parts
LARGE = os.urandom(11 * MIB)  # three parts


@pytest.fixture(params=["local", "moto", "real"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "local":
        return LocalStore(tmp_path / "root" / "cluster")
    access: S3Access = request.getfixturevalue(request.param)
    return access.store(access.new_bucket(), limits=IN_PARTS)


@pytest.mark.parametrize("if_absent", [True, False])
@pytest.mark.parametrize("content", [b"", b"small", LARGE], ids=["empty", "small", "large"])
def test_a_copy_has_the_bytes_of_its_source(store: ObjectStore, content: bytes, if_absent: bool) -> None:
    store.write("a/from here", content)

    copied = store.copy("a/from here", "b/to", if_absent=if_absent)

    assert store.read("b/to") == content
    assert (copied.key, copied.size) == ("b/to", len(content))


def test_a_copy_is_apart_from_its_source(store: ObjectStore) -> None:
    store.write("a", b"first")
    store.copy("a", "b")

    store.write("a", b"second")

    assert store.read("b") == b"first"


def test_a_copy_replaces_what_is_there(store: ObjectStore) -> None:
    store.write("a", b"new")
    store.write("b", b"old and longer")

    store.copy("a", "b")

    assert store.read("b") == b"new"


@pytest.mark.parametrize("content", [b"", b"small", LARGE], ids=["empty", "small", "large"])
def test_a_copy_to_a_new_name_only_does_not_replace(store: ObjectStore, content: bytes) -> None:
    store.write("a", content)
    store.write("b", b"theirs")

    with pytest.raises(ObjectExistsError, match="exists already"):
        store.copy("a", "b", if_absent=True)

    assert store.read("b") == b"theirs"


def test_of_racing_copies_to_a_new_name_exactly_one_wins(store: ObjectStore) -> None:
    start = Barrier(6)
    for number in range(6):
        store.write(f"from/{number}", str(number).encode())

    def copy(number: int) -> bool:
        start.wait()
        try:
            store.copy(f"from/{number}", "to", if_absent=True)
        except ObjectExistsError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        won = list(pool.map(copy, range(6)))

    assert sum(won) == 1
    assert store.read("to") == str(won.index(True)).encode()


def test_a_source_that_is_not_there_is_missing_and_the_target_stays(store: ObjectStore) -> None:
    store.write("b", b"old")

    with pytest.raises(ObjectMissingError, match="'a'"):
        store.copy("a", "b")

    assert store.read("b") == b"old"


def test_a_copy_onto_itself_is_refused(store: ObjectStore) -> None:
    store.write("a", b"1")

    with pytest.raises(ConfigurationError, match="itself"):
        store.copy("a", "a")


def test_a_large_copy_is_made_in_parts_and_by_the_server(s3: S3Access) -> None:
    bucket = s3.new_bucket()
    s3.store(bucket).write("a", LARGE)
    parts = Fault(lambda exchange: exchange.forward(), "PUT", "partNumber=", "x-amz-copy-source", times=FOR_EVER)

    with s3_proxy(s3.endpoint, parts) as proxied:
        s3.store(bucket, proxied, IN_PARTS).copy("a", "b")

    assert parts.hits == 3
    assert s3.client().head_object(Bucket=bucket, Key="prefix/cluster/b")["ETag"].strip('"').endswith("-3")


@pytest.mark.parametrize("if_absent", [True, False])
def test_nothing_of_a_copy_in_parts_that_fails_stays(s3: S3Access, if_absent: bool) -> None:
    bucket = s3.new_bucket()
    s3.store(bucket).write("a", LARGE)
    broken = Fault(refuse(400, "InvalidRequest"), "PUT", "partNumber=2", times=FOR_EVER)

    with s3_proxy(s3.endpoint, broken) as proxied, pytest.raises(StorageUnavailableError, match="InvalidRequest"):
        s3.store(bucket, proxied, IN_PARTS).copy("a", "b", if_absent=if_absent)

    assert s3.store(bucket).info("b") is None
    assert "Uploads" not in s3.client().list_multipart_uploads(Bucket=bucket)


def test_a_copy_whose_last_answer_was_lost_is_recognised_as_ones_own(s3: S3Access) -> None:
    bucket = s3.new_bucket()
    s3.store(bucket).write("a", b"mine")
    lost = Fault(lose_answer, "POST", "uploadId=")

    with s3_proxy(s3.endpoint, lost) as proxied:
        s3.store(bucket, proxied).copy("a", "b", if_absent=True)

    assert lost.hits == 1
    assert s3.store(bucket).read("b") == b"mine"


def test_a_copy_whose_last_answer_was_lost_does_not_claim_the_object_of_another(s3: S3Access) -> None:
    bucket = s3.new_bucket()
    s3.store(bucket).write("a", b"the same")
    s3.store(bucket).write("b", b"the same")
    lost = Fault(lose_answer, "POST", "uploadId=")

    with s3_proxy(s3.endpoint, lost) as proxied, pytest.raises((ObjectExistsError, StorageUnavailableError)):
        s3.store(bucket, proxied).copy("a", "b", if_absent=True)

    assert lost.hits == 1


@pytest.mark.parametrize("method", ["HEAD", "PUT"])
def test_a_source_that_was_replaced_since_its_listing_is_not_copied(real: S3Access, method: str) -> None:
    """Before the copy looks at its source, or after it."""
    bucket = real.new_bucket()
    store = real.store(bucket)
    store.write("a", b"old")
    etag = real.client().head_object(Bucket=bucket, Key="prefix/cluster/a")["ETag"]

    def replace(exchange: Exchange) -> None:
        store.write("a", b"new")
        exchange.forward()

    with (
        s3_proxy(real.endpoint, Fault(replace, method)) as proxied,
        pytest.raises((ObjectMissingError, StorageUnavailableError)),
    ):
        real.store(bucket, proxied).copy("a", "b", if_match=etag)

    assert store.info("b") is None


def test_a_source_that_changes_during_the_copy_is_not_mixed(real: S3Access) -> None:
    """Every part says which object it is of; a half of each would have the right size. moto does not look at that."""
    bucket = real.new_bucket()
    store = real.store(bucket)
    store.write("a", LARGE)

    def change(exchange: Exchange) -> None:
        store.write("a", bytes(len(LARGE)))
        exchange.forward()

    late = Fault(change, "PUT", "partNumber=3")
    with s3_proxy(real.endpoint, late) as proxied, pytest.raises(StorageUnavailableError, match="PreconditionFailed"):
        real.store(bucket, proxied, IN_PARTS).copy("a", "b")

    assert late.hits == 1
    assert store.info("b") is None


def test_a_file_that_grows_while_it_is_copied_is_not_passed_off_as_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    store.write("a", b"1")
    monkeypatch.setattr(durable, "reflink", lambda *_: not (tmp_path / "a").write_bytes(b"12"))

    with pytest.raises(StorageUnavailableError, match="2 bytes were copied of 1"):
        store.copy("a", "b")

    assert [item.key for item in store.list("")] == ["a"]


def test_a_file_system_with_reflinks_shares_the_blocks(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(LARGE)

    with source.open("rb") as from_, target.open("wb") as to:
        shared = durable.reflink(from_, to)

    if not shared:
        assert target.stat().st_size == 0, "a refused reflink leaves a file that can be copied into"
        pytest.skip("the file system of the tests has no reflinks")
    assert target.read_bytes() == LARGE
