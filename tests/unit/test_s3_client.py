"""The clients of stores: each with its own session, all with one copy of botocore's descriptions of S3."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ha.config import S3Options
from airflow_provider_ha.storage._s3_bucket import Deadlines, make_client, parse_time
from airflow_provider_ha.storage.limits import S3Limits


def client(access_key: str) -> Any:
    """Return the client of a new store; nothing is sent."""
    options = S3Options(endpoint_url="http://127.0.0.1:1", access_key=access_key, secret_key="secret")
    return make_client(options, S3Limits(), Deadlines(S3Limits()))


def test_the_descriptions_of_s3_are_read_once_for_all_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.loaders import JSONFileLoader

    client("one")
    read: list[str] = []
    load = JSONFileLoader.load_file

    def counted(self: JSONFileLoader, path: str) -> Any:
        read.append(path)
        return load(self, path)

    monkeypatch.setattr(JSONFileLoader, "load_file", counted)

    client("two")

    assert read == []


def test_stores_keep_their_own_credentials() -> None:
    first, second = client("one"), client("two")

    assert first._request_signer._credentials.access_key == "one"
    assert second._request_signer._credentials.access_key == "two"


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-23T17:21:38.123Z",
        "2026-11-23T17:21:38Z",
        "2026-11-23T17:21:38.12Z",
        "2026-11-23T17:21:38.123456789Z",
        "2026-11-23T17:21:38.123+02:00",
        "Mon, 23 Nov 2026 17:21:38 GMT",
        "1795454498",
    ],
)
def test_a_time_is_the_one_that_botocore_reads(text: str) -> None:
    from botocore.utils import parse_timestamp

    assert parse_time(text) == parse_timestamp(text)


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="noonZ"):
        parse_time("noonZ")
