"""A listing of more than one page: whole, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.storage.limits import S3Limits
from tests.support.s3.s3_faults import FOR_EVER, Action, Fault, cut_answer, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access, any_server


pytestmark = [pytest.mark.long, pytest.mark.timeout(120, func_only=True)]  # the first may have to build the server

QUICK = S3Limits(connect_timeout=3, read_timeout=3, attempts=4, deadline=25)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Access]:
    with any_server() as access:
        yield access


@pytest.fixture(scope="module")
def many(s3: S3Access) -> tuple[str, list[str]]:
    """A bucket with more objects than a page of a listing holds, and their keys."""
    bucket = s3.new_bucket()
    store = s3.store(bucket)
    keys = [f"many/{number:04d}" for number in range(1005)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.write(key, b""), keys))
    return bucket, keys


def test_a_listing_goes_over_pages(s3: S3Access, many: tuple[str, list[str]]) -> None:
    bucket, keys = many

    assert [item.key for item in s3.store(bucket).list("many/")] == keys


@pytest.mark.parametrize("fault", [refuse(503, "SlowDown"), cut_answer(100)], ids=["throttled", "cut"])
def test_a_page_that_fails_once_is_asked_again(s3: S3Access, many: tuple[str, list[str]], fault: Action) -> None:
    bucket, keys = many
    second = Fault(fault, "GET", "continuation-token=")

    with s3_proxy(s3.endpoint, second) as proxied:
        assert [item.key for item in s3.store(bucket, proxied, QUICK).list("many/")] == keys

    assert second.hits == 1


@pytest.mark.parametrize("fault", [refuse(503, "SlowDown"), cut_answer(100)], ids=["throttled", "cut"])
def test_a_part_of_a_listing_is_never_passed_off_as_the_whole(
    s3: S3Access, many: tuple[str, list[str]], fault: Action
) -> None:
    bucket, keys = many
    seen: list[str] = []
    second = Fault(fault, "GET", "continuation-token=", times=FOR_EVER)

    with s3_proxy(s3.endpoint, second) as proxied, pytest.raises(StorageUnavailableError, match="listed"):
        seen.extend(item.key for item in s3.store(bucket, proxied, QUICK).list("many/"))

    assert keys[: len(seen)] == seen
    assert len(seen) < len(keys)
