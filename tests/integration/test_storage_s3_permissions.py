"""The permissions that the documentation names are enough, and none of them is too much."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.errors import StorageError, StorageUnavailableError
from airflow_provider_ha.storage.limits import MIB, S3Limits
from airflow_provider_ha.storage.s3_store import S3Store
from tests.docs.blocks import blocks_of
from tests.support.s3.s3_faults import FOR_EVER, Fault, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.support.s3.versitygw import ROOT_ACCESS_KEY, ROOT_SECRET_KEY, add_user, versitygw


pytestmark = pytest.mark.timeout(120, func_only=True)  # the first test may have to build the server

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "s3.md"
USER = S3Access("", "AKIAUSEROFTHETESTS00", "user-secret-of-the-tests/+0123456789abcd")
IN_PARTS = S3Limits(attempts=2, part_size=5 * MIB, copy_whole=5 * MIB, copy_part=5 * MIB)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """A server with a user who may nothing by himself."""
    with versitygw(iam=True) as endpoint:
        add_user(endpoint, USER.access_key, USER.secret_key)
        yield endpoint


@pytest.fixture
def root(endpoint: str) -> S3Access:
    return S3Access(endpoint, ROOT_ACCESS_KEY, ROOT_SECRET_KEY)


def policy(without: str = "") -> dict[str, Any]:
    """Return the policy of the page, without one of its actions."""
    (block,) = (block for block in blocks_of(PAGE) if block.language == "json")
    found: dict[str, Any] = json.loads(block.text)
    for statement in found["Statement"]:
        statement["Action"] = [action for action in statement["Action"] if action != without]
    found["Statement"] = [statement for statement in found["Statement"] if statement["Action"]]
    return found


def allow(root: S3Access, bucket: str, policy: dict[str, Any]) -> None:
    """Let the user do in a bucket what a policy says, as far as the prefix of the page goes."""
    for statement in policy["Statement"]:
        statement["Principal"] = {"AWS": [USER.access_key]}
        statement["Resource"] = statement["Resource"].replace("arn:aws:s3:::bucket", f"arn:aws:s3:::{bucket}")
    root.client().put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))


def store(endpoint: str, bucket: str) -> S3Store:
    return S3Store(f"s3://{bucket}/prefix/cluster", USER.options(endpoint), IN_PARTS)


def use(store: S3Store, folder: Path) -> None:
    """Do everything that a store can do, with small and with large objects."""
    (folder / "source").write_bytes(os.urandom(11 * MIB))
    store.check_writable()
    store.upload("large", folder / "source")
    (large,) = store.list("")
    store.copy(large, "copy")
    store.download("copy", folder / "target")
    store.touch("large")
    assert (folder / "target").read_bytes() == (folder / "source").read_bytes()
    assert store.info("missing") is None
    assert [item.key for item in store.list("")] == ["copy", "large"]


def test_the_permissions_of_the_page_are_enough(root: S3Access, tmp_path: Path) -> None:
    bucket = root.new_bucket()
    allow(root, bucket, policy())

    use(store(root.endpoint, bucket), tmp_path)


@pytest.mark.parametrize("action", ["s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"])
def test_each_permission_of_the_page_is_needed(root: S3Access, action: str, tmp_path: Path) -> None:
    bucket = root.new_bucket()
    allow(root, bucket, policy(without=action))

    with pytest.raises(StorageUnavailableError, match=r"AccessDenied|403|Forbidden") as raised:
        use(store(root.endpoint, bucket), tmp_path)

    assert "permit" in raised.value.next_step


@pytest.mark.parametrize(("without", "left"), [("", 0), ("s3:AbortMultipartUpload", 1)])
def test_an_upload_that_failed_is_removed_if_that_is_permitted(
    root: S3Access, without: str, left: int, tmp_path: Path
) -> None:
    bucket = root.new_bucket()
    allow(root, bucket, policy(without=without))
    (tmp_path / "source").write_bytes(bytes(6 * MIB))
    broken = Fault(refuse(400, "InvalidRequest"), "PUT", "partNumber=2", times=FOR_EVER)

    with s3_proxy(root.endpoint, broken) as proxied, pytest.raises(StorageError):
        store(proxied, bucket).upload("large", tmp_path / "source")

    assert len(root.client().list_multipart_uploads(Bucket=bucket).get("Uploads", ())) == left
