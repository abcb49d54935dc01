"""A store without room is reported as full, whichever store it is and however it says so."""

from __future__ import annotations

import errno
import json

import pytest

from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.storage import _s3_responses, _webhdfs, outage


def refused(code: str, message: str, status: int) -> Exception:
    from botocore.exceptions import ClientError

    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "PutObject")  # type: ignore[arg-type]  # what a server may leave out


def of_s3(error: Exception) -> StorageUnavailableError:
    return _s3_responses.unavailable("object 'a' could not be uploaded", "https://s3", error, S3Options())


@pytest.mark.parametrize(
    ("code", "message", "status"),
    [
        ("InsufficientStorage", "No space left on device", 507),
        ("XMinioStorageFull", "Storage backend has reached its minimum free drive threshold.", 507),
        ("XMinioAdminBucketQuotaExceeded", "Bucket quota exceeded", 400),
        ("QuotaExceeded", "", 403),
        ("507", "Insufficient Storage", 507),
        ("InsufficientCapacity", "", 409),
        ("BucketStorageFull", "", 500),
        ("UnknownError", "", 507),
        ("InternalError", "write /data/1: no space left on device", 500),
        ("InternalError", "Disk quota exceeded", 500),
        ("AccessDenied", "The quota of the bucket is exceeded", 403),
    ],
)
def test_a_full_store_is_told_to_be_full(code: str, message: str, status: int) -> None:
    error = of_s3(refused(code, message, status))

    assert "Free space in the store" in str(error.next_step)
    assert "credentials" not in str(error.next_step)


@pytest.mark.parametrize(
    ("code", "message", "status", "said"),
    [
        ("AccessDenied", "Access Denied", 403, "Check the credentials"),
        ("SlowDown", "Reduce your request rate", 503, "Wait"),
        ("InternalError", "We encountered an internal error", 500, "Check the endpoint"),
    ],
)
def test_another_refusal_of_the_store_is_not_called_full(code: str, message: str, status: int, said: str) -> None:
    assert str(of_s3(refused(code, message, status)).next_step).startswith(said)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_is_full_during_a_download_is_told_to_be_full(number: int) -> None:
    """It is this host's, not the store's."""
    error = of_s3(OSError(number, "No space left on device", "/scratch/part"))

    assert str(error.next_step) == str(outage.unavailable("/scratch/part", OSError(number, "")).next_step)
    assert "Free space or inodes" in str(error.next_step)


@pytest.mark.parametrize(
    ("kind", "message", "step"),
    [
        ("DSQuotaExceededException", "The DiskSpace quota of /ha is exceeded", "Raise the quota"),
        ("NSQuotaExceededException", "The NameSpace quota of /ha is exceeded", "Raise the quota"),
        ("IOException", "DSQuotaExceededException: The DiskSpace quota of /ha is exceeded", "Raise the quota"),
        ("QuotaByStorageTypeExceededException", "Quota by storage type : SSD is exceeded", "Raise the quota"),
        ("IOException", "File /ha/a could only be written to 0 of the 1 minReplication nodes", "data nodes are up and"),
        ("IOException", "No space left on device", "have space"),
    ],
)
def test_a_full_hdfs_is_told_to_be_full(kind: str, message: str, step: str) -> None:
    body = json.dumps({"RemoteException": {"exception": kind, "message": message}}).encode()

    error = _webhdfs.unavailable("a", _webhdfs.refusal_of(403, body, "name-node:9870"))

    assert step in str(error.next_step)
