"""Real S3 servers for tests: their own processes, on the loopback, gone with the test.

moto is there wherever the tests are, and believes every signature. versitygw checks them; see
``tests/support/s3/versitygw.py``. Another server is used instead of it when the environment names one.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import S3Options
from airflow_provider_ha.coordination.embedded import free_port
from airflow_provider_ha.storage.limits import S3Limits
from airflow_provider_ha.storage.s3_store import S3Store
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.s3.versitygw import ROOT_ACCESS_KEY, ROOT_SECRET_KEY, answers, versitygw


# One request at a time: moto looks for the object of a conditional write, and writes it later.
_SERVE = """
import sys, threading
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
one, backend = threading.Lock(), DomainDispatcherApplication(create_backend_app)
def application(environment, start_response):
    with one:
        return backend(environment, start_response)
run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True)
"""


@dataclass(frozen=True)
class S3Access:
    """A server and who may do everything there."""

    endpoint: str
    access_key: str
    secret_key: str = field(repr=False)

    def options(self, endpoint: str | None = None) -> S3Options:
        """Return the options of a store; *endpoint* is that of a proxy in between."""
        return S3Options(endpoint_url=endpoint or self.endpoint, access_key=self.access_key, secret_key=self.secret_key)

    def client(self) -> Any:
        """Return boto3's own client, for what a store does not do."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
        )

    def new_bucket(self) -> str:
        """Make a bucket that no other test uses."""
        bucket = f"bucket-{new_id()}"
        client = self.client()
        client.create_bucket(Bucket=bucket)
        client.close()
        return bucket

    def changed_at(self, bucket: str, key: str) -> int:
        """Return when an object was written, in milliseconds since 1970, as Spark notes it."""
        return int(self.client().head_object(Bucket=bucket, Key=key)["LastModified"].timestamp() * 1000)

    def store(self, bucket: str, endpoint: str | None = None, limits: S3Limits | None = None) -> S3Store:
        """Return a store below a prefix of a bucket."""
        return S3Store(f"s3://{bucket}/prefix/cluster", self.options(endpoint), limits)


@contextmanager
def moto_server() -> Iterator[S3Access]:
    """Yield a running moto."""
    if importlib.util.find_spec("moto") is None:
        pytest.skip("moto is not installed: install the test extra")
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: answers(port) or process.poll(), timeout=30, what="the S3 server")
        assert process.poll() is None, "the S3 server did not start"
        yield S3Access(f"http://127.0.0.1:{port}", "key", "secret")
    finally:
        process.kill()
        process.wait()


@contextmanager
def real_server() -> Iterator[S3Access]:
    """Yield the server that the environment names, else a running versitygw: both check signatures."""
    named = os.environ.get("SPARK_HA_TEST_S3_ENDPOINT")
    if named:
        yield S3Access(named, os.environ["SPARK_HA_TEST_S3_ACCESS_KEY"], os.environ["SPARK_HA_TEST_S3_SECRET_KEY"])
        return
    with versitygw() as endpoint:
        yield S3Access(endpoint, ROOT_ACCESS_KEY, ROOT_SECRET_KEY)


@contextmanager
def any_server() -> Iterator[S3Access]:
    """Yield a server that checks signatures where there can be one, else moto: for tests that do not need that."""
    with ExitStack() as stack:
        try:
            access = stack.enter_context(real_server())
        except pytest.skip.Exception:
            access = stack.enter_context(moto_server())
        yield access


def s3_store(access: S3Access) -> S3Store:
    """Return a store in a bucket that no other test uses."""
    return access.store(access.new_bucket())
