"""Our keys fit every store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from airflow_provider_ha.errors import ObjectMissingError, StorageUnavailableError
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.object_store import ObjectStore
from tests.support.s3.s3_server import S3Access, any_server


pytestmark = pytest.mark.timeout(120, func_only=True)  # the first test may have to build the server

# What a job, a savepoint or a query may be called, to be in the way of what we call things.
NAMES = ("a", "a-b", "e1", "checkpoints", "payloads", "manifest.json", "blobs", "jobs", "journal")


@pytest.fixture(scope="module")
def any_s3() -> Iterator[S3Access]:
    with any_server() as access:
        yield access


@pytest.fixture(params=["local", "real"])
def strict(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """A store that refuses a key that is another one's directory."""
    if request.param == "local":
        return LocalStore(tmp_path / "root")
    access: S3Access = request.getfixturevalue("real")
    return access.store(access.new_bucket())


def all_keys() -> list[str]:
    """One object of every kind for jobs of every name."""
    found = [keys.blob(hashlib.sha256(b"1").hexdigest()), "probe/1", "erase-1"]
    for job_id, name in product(NAMES, NAMES):
        job, query = JobKeys(job_id), name.removesuffix(".json")  # of the file that lies beside the queries
        found += [
            job.payload(1, 2),
            f"{job.pin(1, 2)}/{name}/metadata",
            f"{job.savepoint(name)}/manifest.json",
            f"{job.savepoint(name)}/{query}/metadata",
            f"{job.working_directory(2, 'x')}/{name}/metadata",
            f"{job.application(1, 2)}/{name}",
            job.journal("result", "1-e2"),
        ]
    return sorted(set(found))


def test_no_key_is_the_directory_of_another() -> None:
    found = all_keys()

    directories = {"/".join(key.split("/")[:depth]) for key in found for depth in range(1, key.count("/") + 1)}

    assert directories & set(found) == set()


def test_every_kind_of_key_can_be_written_where_that_is_refused(strict: ObjectStore) -> None:
    job_ids = ("a", "jobs")
    found = [key for key in all_keys() if not key.startswith("jobs/") or key.split("/")[1] in job_ids]

    for key in found:
        strict.create(key, b"1")

    assert [item.key for item in strict.list("")] == found


def test_a_key_that_is_the_directory_of_another_is_refused_and_harms_nothing(strict: ObjectStore) -> None:
    """Real S3 has both. Who relies on it loses objects on a file system, so no caller does."""
    strict.write("a/b", b"1")
    strict.write("c", b"1")

    with pytest.raises(StorageUnavailableError):
        strict.write("a", b"2")
    with pytest.raises(StorageUnavailableError):
        strict.write("c/d", b"2")

    assert [item.key for item in strict.list("")] == ["a/b", "c"]
    assert strict.read("a/b") == strict.read("c") == b"1"


def test_a_key_below_an_object_is_missing(strict: ObjectStore) -> None:
    strict.write("c", b"1")

    assert strict.info("c/d") is None
    with pytest.raises(ObjectMissingError):
        strict.read("c/d")
