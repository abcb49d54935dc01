"""Why Delta's default log store is refused on S3: a driver that wakes writes over the commit of its successor."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.ivy import Wanted, jars
from tests.support.s3.s3_faults import Exchange, Fault, s3_proxy
from tests.support.s3.s3_server import S3Access, real_server
from tests.support.s3.s3a_jars import s3a_jars
from tests.support.spark.component_jvm import ComponentJvm, component_jvm


pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

COMMIT = "_delta_log/00000000000000000001.json"


def test_a_driver_that_wakes_in_its_request_writes_over_the_commit_of_the_next_one() -> None:
    storage = jars("delta-storage-4.4.0", (Wanted("io.delta", "delta-storage", "4.4.0", transitive=False),))
    more_jars = (*s3a_jars(), *storage)
    with real_server() as s3, component_jvm(more_jars) as jvm:
        bucket, met, go_on = s3.new_bucket(), threading.Event(), threading.Event()

        def hold(exchange: Exchange) -> None:
            exchange.body()
            met.set()
            go_on.wait(120)
            exchange.forward()

        with s3_proxy(s3.endpoint, Fault(hold, "PUT", COMMIT)) as slow, ThreadPoolExecutor() as pool:
            zombie = pool.submit(write, jvm, _s3a(s3, slow), bucket, "of the zombie")
            assert met.wait(120)
            with component_jvm(more_jars) as other:
                write(other, _s3a(s3, s3.endpoint), bucket, "of the new driver")
            assert _commit(s3, bucket) == "of the new driver\n"

            go_on.set()
            zombie.result(120)

        assert _commit(s3, bucket) == "of the zombie\n"  # and the rows of the new driver are in no commit


def write(jvm: ComponentJvm, values: dict[str, str], bucket: str, action: str) -> None:
    """Write the commit as Delta does, of one action."""
    conf = jvm.conf(f"s3a://{bucket}", values)
    actions = jvm.jvm.java.util.ArrayList()
    actions.add(action)
    store = jvm.jvm.io.delta.storage.S3SingleDriverLogStore(conf)
    store.write(jvm.path(f"s3a://{bucket}/table/{COMMIT}"), actions.iterator(), False, conf)


def _commit(s3: S3Access, bucket: str) -> str:
    body = s3.client().get_object(Bucket=bucket, Key=f"table/{COMMIT}")["Body"]
    return str(body.read().decode())


def _s3a(s3: S3Access, endpoint: str) -> dict[str, str]:
    return {
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": s3.access_key,
        "fs.s3a.secret.key": s3.secret_key,
    }
