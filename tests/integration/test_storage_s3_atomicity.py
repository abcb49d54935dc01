"""A store whose conditional write is not one step is found out before anything relies on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from http import HTTPStatus

import pytest

from airflow_provider_ha.errors import ObjectExistsError, StorageUnavailableError
from airflow_provider_ha.storage.limits import S3Limits
from airflow_provider_ha.storage.roots import RACERS
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access, any_server, moto_server


pytestmark = pytest.mark.timeout(120, func_only=True)  # the first test may have to build the server


@pytest.fixture(scope="module")
def believing() -> Iterator[S3Access]:
    """A server that believes every signature, so that a proxy may change a request."""
    with moto_server() as access:
        yield access


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Access]:
    with any_server() as access:
        yield access


def test_a_store_that_looks_before_it_writes_is_refused(believing: S3Access) -> None:
    """It passes two creations in a row, and lets both win that come together."""
    bucket = believing.new_bucket()
    careless = Fault(look_first, "PUT", header="If-None-Match", times=FOR_EVER)

    with s3_proxy(believing.endpoint, careless) as proxied:
        store = believing.store(bucket, proxied)
        store.create("in/a/row", b"1")
        with pytest.raises(ObjectExistsError):
            store.create("in/a/row", b"2")
        store.delete("in/a/row")
        with pytest.raises(StorageUnavailableError, match=f"of {RACERS} simultaneous creations") as raised:
            store.check_writable()

    assert "If-None-Match" in raised.value.next_step
    assert list(believing.store(bucket).list("")) == []


def test_a_store_that_ignores_the_condition_is_refused(believing: S3Access) -> None:
    bucket = believing.new_bucket()
    ignorant = Fault(ignore_condition, "PUT", header="If-None-Match", times=FOR_EVER)

    with s3_proxy(believing.endpoint, ignorant) as proxied, pytest.raises(StorageUnavailableError, match="ignores"):
        believing.store(bucket, proxied).check_writable()

    assert list(believing.store(bucket).list("")) == []


def test_a_store_that_ignores_the_condition_of_an_upload_in_parts_is_refused(believing: S3Access) -> None:
    bucket = believing.new_bucket()
    ignorant = Fault(ignore_condition, "POST", header="If-None-Match", times=FOR_EVER)

    with s3_proxy(believing.endpoint, ignorant) as proxied, pytest.raises(StorageUnavailableError, match="ignores"):
        believing.store(bucket, proxied).check_writable()

    assert ignorant.hits == 1


def test_a_good_store_passes_and_is_as_before(s3: S3Access, tell: Callable[[str], None]) -> None:
    store = s3.store(s3.new_bucket())
    store.create("kept", b"1")

    started = time.monotonic()
    store.check_writable()
    tell(f"the probe of {s3.endpoint} took {time.monotonic() - started:.2f} s")

    assert [item.key for item in store.list("")] == ["kept"]


def test_a_probe_that_cannot_be_removed_does_not_hide_why_the_store_is_refused(believing: S3Access) -> None:
    quick = S3Limits(attempts=1, deadline=10, connect_timeout=1, read_timeout=1)
    faults = (
        Fault(ignore_condition, "PUT", header="If-None-Match", times=FOR_EVER),
        Fault(refuse(403, "AccessDenied"), "DELETE", times=FOR_EVER),
    )

    with s3_proxy(believing.endpoint, *faults) as proxied, pytest.raises(StorageUnavailableError, match="ignores"):
        believing.store(believing.new_bucket(), proxied, quick).check_writable()


def look_first(exchange: Exchange) -> None:
    """Create conditionally as a careless store does: look whether it is there, then write.

    For a server that believes every signature: the header that is taken away here is signed.
    """
    status, _, _ = exchange.ask("HEAD")
    if status == HTTPStatus.OK:
        exchange.refuse(412, "PreconditionFailed")
    else:
        exchange.forward(without="If-None-Match")


def ignore_condition(exchange: Exchange) -> None:
    """Write as if no condition had been given; for a server as above."""
    exchange.forward(without="If-None-Match")
