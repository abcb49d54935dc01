"""A bucket that cannot hold working directories is refused with the reason, before anything is left in it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import ConfigurationError, StorageUnavailableError
from airflow_provider_ha.storage.limits import S3Limits
from airflow_provider_ha.storage.s3_store import S3Store
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access, moto_server
from tests.support.s3.versitygw import ROOT_ACCESS_KEY, ROOT_SECRET_KEY, add_user, versitygw


pytestmark = pytest.mark.timeout(120, func_only=True)  # the first test may have to build the server

USER = S3Access("", "AKIAUSEROFTHETESTS00", "user-secret-of-the-tests/+0123456789abcd")
QUICK = S3Limits(connect_timeout=1, read_timeout=5, attempts=2, deadline=20)


@pytest.fixture(scope="module")
def root() -> Iterator[S3Access]:
    """A server that checks signatures, with a user who may nothing by himself."""
    with versitygw(iam=True) as endpoint:
        add_user(endpoint, USER.access_key, USER.secret_key)
        yield S3Access(endpoint, ROOT_ACCESS_KEY, ROOT_SECRET_KEY)


@pytest.fixture(scope="module")
def moto() -> Iterator[S3Access]:
    """A server that has rules."""
    with moto_server() as access:
        yield access


def area(bucket: str, options: S3Options) -> LayeredWorkArea:
    return LayeredWorkArea(S3Store(f"s3://{bucket}/ha/work", options, QUICK))


def keys(root: S3Access, bucket: str) -> list[str]:
    return [item["Key"] for item in root.client().list_objects_v2(Bucket=bucket).get("Contents", [])]


def test_a_bucket_that_does_all_of_it_is_taken_and_left_empty(root: S3Access) -> None:
    bucket = root.new_bucket()

    found = area(bucket, root.options()).capabilities()

    assert (found.names_suffice, keys(root, bucket)) == (True, [])


def test_wrong_credentials_are_named_and_not_told(root: S3Access) -> None:
    bucket = root.new_bucket()
    options = root.options().model_copy(update={"secret_key": USER.options().secret_key})

    with pytest.raises(StorageUnavailableError) as caught:
        area(bucket, options).capabilities()

    assert "Check the access key, the secret key and the region" in caught.value.next_step
    assert USER.secret_key not in str(caught.value)
    assert keys(root, bucket) == []


@pytest.mark.parametrize(("status", "code"), [(400, "AuthorizationHeaderMalformed"), (301, "PermanentRedirect")])
def test_a_wrong_region_is_named(root: S3Access, status: int, code: str) -> None:
    """The server knows one region and takes any; these are the answers of AWS."""
    bucket, refusal = root.new_bucket(), Fault(refuse(status, code), "PUT", times=FOR_EVER)

    with s3_proxy(root.endpoint, refusal) as proxied, pytest.raises(StorageUnavailableError) as caught:
        area(bucket, root.options(proxied)).capabilities()

    assert "the region" in caught.value.next_step
    assert keys(root, bucket) == []


def test_a_user_who_may_only_read_is_refused(root: S3Access) -> None:
    bucket = root.new_bucket()
    read = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"AWS": [USER.access_key]},
                "Action": ["s3:ListBucket", "s3:GetObject"],
                "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
            }
        ],
    }
    root.client().put_bucket_policy(Bucket=bucket, Policy=json.dumps(read))

    with pytest.raises(StorageUnavailableError, match="could not be created") as caught:
        area(bucket, S3Access(root.endpoint, USER.access_key, USER.secret_key).options()).capabilities()

    assert "permit this action" in caught.value.next_step
    assert keys(root, bucket) == []


def test_a_bucket_that_is_not_there_is_named(root: S3Access) -> None:
    with pytest.raises(StorageUnavailableError, match=r"NoSuchBucket|does not exist"):
        area("no-such-bucket", root.options()).capabilities()


def test_a_store_without_conditional_writes_is_refused_and_left_empty(moto: S3Access) -> None:
    """The header is signed, so it can be lost only on the way to a server that checks no signature."""

    def forget(exchange: Exchange) -> None:
        exchange.forward(without="If-None-Match")

    bucket, ignored = moto.new_bucket(), Fault(forget, "PUT", header="If-None-Match", times=FOR_EVER)
    with (
        s3_proxy(moto.endpoint, ignored) as proxied,
        pytest.raises(StorageUnavailableError, match="ignores conditional writes"),
    ):
        area(bucket, moto.options(proxied)).capabilities()

    assert keys(moto, bucket) == []


def test_a_bucket_with_a_rule_that_expires_objects_is_refused(moto: S3Access) -> None:
    bucket = moto.new_bucket()
    rule = {"ID": "scratch", "Status": "Enabled", "Filter": {"Prefix": "ha/"}, "Expiration": {"Days": 7}}
    moto.client().put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})

    with pytest.raises(
        ConfigurationError, match=r"rule 'scratch' of bucket .* expires objects after 7 days below s3://.*/ha/work"
    ):
        area(bucket, moto.options()).capabilities()

    assert keys(moto, bucket) == []


def test_such_a_bucket_is_no_storage_root_either(moto: S3Access) -> None:
    bucket = moto.new_bucket()
    rule = {"ID": "all", "Status": "Enabled", "Filter": {}, "Expiration": {"Days": 7}}
    moto.client().put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})

    with pytest.raises(ConfigurationError, match="rule 'all'"):
        S3Store(f"s3://{bucket}/ha", moto.options(), QUICK).check_writable()


def test_a_bucket_whose_rule_is_for_another_prefix_is_taken(moto: S3Access) -> None:
    bucket = moto.new_bucket()
    rule = {"ID": "logs", "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 7}}
    moto.client().put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})

    area(bucket, moto.options()).capabilities()
