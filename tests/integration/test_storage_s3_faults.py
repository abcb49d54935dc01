"""A store that throttles, hangs, cuts, loses answers: a call ends as a whole, or as an error within its deadline."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.storage.limits import MIB, S3Limits
from airflow_provider_ha.storage.s3_store import S3Store
from tests.support.s3.s3_faults import (
    FOR_EVER,
    Action,
    Fault,
    cut_answer,
    cut_request,
    hang,
    lose_answer,
    refuse,
    s3_proxy,
    stall_answer,
    trickle_answer,
)
from tests.support.s3.s3_server import S3Access, any_server


pytestmark = pytest.mark.timeout(120, func_only=True)  # the first test may have to build the server

QUICK = S3Limits(connect_timeout=3, read_timeout=3, attempts=4, deadline=25, part_size=5 * MIB, copy_part=5 * MIB)
LARGE = os.urandom(11 * MIB)  # three parts

CALLS: dict[str, tuple[str, Callable[[S3Store, Path], object]]] = {
    "read": ("GET", lambda store, _: store.read("there")),
    "create": ("PUT", lambda store, _: store.create("new", b"1")),
    "write": ("PUT", lambda store, _: store.write("new", b"1")),
    "upload": ("PUT", lambda store, folder: store.upload("new", folder / "source")),
    "download": ("GET", lambda store, folder: store.download("there", folder / "into" / "target")),
    "copy": ("PUT", lambda store, _: store.copy(next(store.list("there")), "new")),
    "info": ("HEAD", lambda store, _: store.info("there")),
    "list": ("GET", lambda store, _: list(store.list(""))),
    "delete": ("DELETE", lambda store, _: store.delete("there")),
    "touch": ("PUT", lambda store, _: store.touch("there")),
}
FAULTS: dict[str, Action] = {
    "throttled": refuse(503, "SlowDown"),
    "internal error": refuse(500, "InternalError"),
    "no answer": hang(30),
    "lost answer": lose_answer,
}


def quickly(quick: set[tuple[str, str]]) -> list[Any]:
    """Return every fault of every call; all but the named ones take their time."""
    return [
        pytest.param(call, fault, marks=() if (call, fault) in quick else pytest.mark.long)
        for call in CALLS
        for fault in FAULTS
    ]


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Access]:
    with any_server() as access:
        yield access


@pytest.fixture
def bucket(s3: S3Access, tmp_path: Path) -> str:
    """A bucket with one object, and a file to upload."""
    bucket = s3.new_bucket()
    s3.store(bucket).write("there", b"content")
    (tmp_path / "source").write_bytes(b"content")
    return bucket


@pytest.mark.parametrize(
    ("call", "fault"), quickly({(call, "lost answer") for call in CALLS} | {("create", "throttled")})
)
def test_a_fault_that_passes_is_not_noticed(s3: S3Access, bucket: str, call: str, fault: str, tmp_path: Path) -> None:
    method, run = CALLS[call]
    passing = Fault(FAULTS[fault], method, times=2 if fault == "throttled" else 1)

    with s3_proxy(s3.endpoint, passing) as proxied:
        run(s3.store(bucket, proxied, QUICK), tmp_path)

    assert passing.hits == passing.times


@pytest.mark.parametrize(("call", "fault"), quickly({("read", "throttled")}))
def test_a_fault_that_stays_is_an_error_within_the_deadline(
    s3: S3Access, bucket: str, call: str, fault: str, tmp_path: Path
) -> None:
    method, run = CALLS[call]
    staying = Fault(FAULTS[fault], method, times=FOR_EVER)

    with s3_proxy(s3.endpoint, staying) as proxied:
        started = time.monotonic()
        with pytest.raises(StorageUnavailableError) as raised:
            run(s3.store(bucket, proxied, QUICK), tmp_path)
        took = time.monotonic() - started

    assert took < QUICK.deadline
    assert staying.hits >= 2
    assert proxied in str(raised.value)
    assert raised.value.retryable


def test_it_is_the_time_that_counts_and_not_the_attempts(s3: S3Access, bucket: str) -> None:
    """Twenty attempts of a second each, and their pauses, would be minutes."""
    patient = S3Limits(connect_timeout=1, read_timeout=1, attempts=20, deadline=25)

    with s3_proxy(s3.endpoint, Fault(hang(30), "GET", times=FOR_EVER)) as proxied:
        started = time.monotonic()
        with pytest.raises(StorageUnavailableError, match="within 25 s"):
            s3.store(bucket, proxied, patient).read("there")
        took = time.monotonic() - started

    assert took < patient.deadline


@pytest.mark.long
def test_throttling_that_stays_says_so(s3: S3Access, bucket: str) -> None:
    staying = Fault(refuse(503, "SlowDown"), "PUT", times=FOR_EVER)

    with s3_proxy(s3.endpoint, staying) as proxied, pytest.raises(StorageUnavailableError, match="SlowDown") as raised:
        s3.store(bucket, proxied, QUICK).write("new", b"1")

    assert "throttles requests" in raised.value.next_step


@pytest.mark.parametrize("fault", [cut_answer(3), stall_answer(3, 30)], ids=["cut", "stalled"])
def test_a_body_that_breaks_off_is_read_again(s3: S3Access, bucket: str, fault: Action) -> None:
    broken = Fault(fault, "GET")

    with s3_proxy(s3.endpoint, broken) as proxied:
        assert s3.store(bucket, proxied, QUICK).read("there") == b"content"

    assert broken.hits == 1


@pytest.mark.parametrize(
    "fault",
    [pytest.param(cut_answer(3), id="cut"), pytest.param(stall_answer(3, 30), id="stalled", marks=pytest.mark.long)],
)
def test_a_body_that_always_breaks_off_is_never_half_an_object(
    s3: S3Access, bucket: str, fault: Action, tmp_path: Path
) -> None:
    with s3_proxy(s3.endpoint, Fault(fault, "GET", times=FOR_EVER)) as proxied:
        store = s3.store(bucket, proxied, QUICK)
        started = time.monotonic()
        with pytest.raises(StorageUnavailableError):
            store.read("there")
        took = time.monotonic() - started
        with pytest.raises(StorageUnavailableError):
            store.download("there", tmp_path / "into" / "target")

    assert took < QUICK.deadline
    assert list((tmp_path / "into").iterdir()) == []


def test_a_body_that_trickles_in_ends_at_the_deadline(s3: S3Access, bucket: str) -> None:
    """No single wait is too long: only the sum is."""
    s3.store(bucket).write("there", bytes(4 * MIB))
    quick = S3Limits(connect_timeout=1, read_timeout=1, deadline=4)

    with s3_proxy(s3.endpoint, Fault(trickle_answer(64 * 1024, 0.3), "GET", times=FOR_EVER)) as proxied:
        started = time.monotonic()
        with pytest.raises(StorageUnavailableError, match="slowly"):
            s3.store(bucket, proxied, quick).read("there")
        took = time.monotonic() - started

    assert took < quick.deadline


def test_a_download_that_is_cut_comes_whole(s3: S3Access, bucket: str, tmp_path: Path) -> None:
    s3.store(bucket).write("there", LARGE)
    cut = Fault(cut_answer(MIB), "GET", times=2)

    with s3_proxy(s3.endpoint, cut) as proxied:
        s3.store(bucket, proxied, QUICK).download("there", tmp_path / "target")

    assert cut.hits == 2
    assert (tmp_path / "target").read_bytes() == LARGE


def test_a_request_that_is_cut_is_sent_again(s3: S3Access, bucket: str) -> None:
    cut = Fault(cut_request(MIB), "PUT")

    with s3_proxy(s3.endpoint, cut) as proxied:
        s3.store(bucket, proxied, QUICK).create("new", LARGE)

    assert cut.hits == 1
    assert s3.store(bucket).read("new") == LARGE


def test_an_upload_that_is_always_cut_leaves_the_old_object(s3: S3Access, bucket: str, tmp_path: Path) -> None:
    cut = Fault(cut_request(3), "PUT", times=FOR_EVER)

    with s3_proxy(s3.endpoint, cut) as proxied, pytest.raises(StorageUnavailableError, match="source"):
        s3.store(bucket, proxied, QUICK).upload("there", tmp_path / "source")

    assert s3.store(bucket).read("there") == b"content"


def test_a_large_file_goes_up_in_parts(s3: S3Access, bucket: str, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(LARGE)
    parts = Fault(lambda exchange: exchange.forward(), "PUT", "partNumber=", times=FOR_EVER)

    with s3_proxy(s3.endpoint, parts) as proxied:
        s3.store(bucket, proxied, S3Limits(part_size=5 * MIB)).upload("new", tmp_path / "source")

    assert parts.hits == 3
    assert s3.store(bucket).read("new") == LARGE


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(
            Fault(refuse(503, "SlowDown"), "PUT", "partNumber=2", times=FOR_EVER),
            id="a part throttled",
            marks=pytest.mark.long,
        ),
        pytest.param(Fault(cut_request(MIB), "PUT", "partNumber=3", times=FOR_EVER), id="a part cut"),
        pytest.param(Fault(refuse(500, "InternalError"), "POST", "uploadId=", times=FOR_EVER), id="the end refused"),
    ],
)
def test_nothing_of_an_upload_in_parts_that_fails_stays(
    s3: S3Access, bucket: str, fault: Fault, tmp_path: Path
) -> None:
    (tmp_path / "source").write_bytes(LARGE)

    with s3_proxy(s3.endpoint, fault) as proxied, pytest.raises(StorageUnavailableError):
        s3.store(bucket, proxied, QUICK).upload("new", tmp_path / "source")

    assert fault.hits >= 2
    assert s3.store(bucket).info("new") is None
    assert "Uploads" not in s3.client().list_multipart_uploads(Bucket=bucket)
