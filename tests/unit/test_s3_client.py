"""The clients of stores: each with its own session, all with one copy of botocore's descriptions of S3."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ha.config import S3Options
from airflow_provider_ha.storage._s3_client import Deadlines, make_client
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
