"""Requests that a verification on S3 makes, against the pages of one listing and the objects that have to be read.

A checkpoint of 200 partitions and 120 versions, cloned by program from a real one of the test corpus, lies in a real
S3 server without hidden checksums, as S3A leaves it. A proxy before the server counts. What has to be read is counted
from the names alone: with ``quick`` the logs, the metadata and one schema, with ``full`` the state as well, because no
batch was purged. No reader needs a delta beside a snapshot of its version, and all partitions have one schema. The
time is set against asking for the pages alone.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from airflow_provider_ha.checkpoints.spark.object_tree import ObjectTree
from airflow_provider_ha.checkpoints.verify.verification import Depth, verify
from airflow_provider_ha.storage.s3_store import S3Store
from benchmarks.clones import cloned, lengthened
from benchmarks.shared import effort, median, show
from tests.support.s3.s3_checkpoints import noting_proxy
from tests.support.s3.s3_server import S3Access, real_server


RELEASE = "4.2.0"
PREFIX = "checkpoint"
_PAGE = 1000
_UPLOADS = 8


def uploaded(s3: S3Access, bucket: str, checkpoint: Path) -> list[str]:
    """Upload a checkpoint as S3A would have written it; returns the names below it."""
    names = [
        str(path.relative_to(checkpoint))
        for path in checkpoint.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    ]
    client = s3.client()

    def put(name: str) -> None:
        client.put_object(Bucket=bucket, Key=f"{PREFIX}/{name}", Body=(checkpoint / name).read_bytes())

    with ThreadPoolExecutor(_UPLOADS) as pool:
        list(pool.map(put, names))
    client.close()
    return names


def needed(names: list[str], depth: str) -> int:
    """Return how many objects have to be read."""
    given, snapshots = set(names), {name for name in names if name.endswith(".snapshot")}
    logs = {name for name in given if not name.startswith("state/")} | {"state/0/_metadata/metadata"}
    logs |= {"state/0/0/_metadata/schema"} & given
    if depth == "quick":
        return len(logs)
    deltas = {name for name in given if name.endswith(".delta")}
    return len(logs | snapshots | (deltas - {name.replace(".snapshot", ".delta") for name in snapshots}))


def seconds(work: Callable[[], object]) -> float:
    """Return how long one call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def check(s3: S3Access, bucket: str, endpoint: str, depth: Depth, versions: int) -> None:
    """Verify; what is measured must have been whole."""
    found = ObjectTree(S3Store(f"s3://{bucket}/{PREFIX}", s3.options(endpoint)))
    report = verify(found, depth=depth, spark_version=RELEASE)
    if not report.startable or len(report.restorable) != versions:
        raise RuntimeError(f"s3://{bucket}/{PREFIX} is not whole: {report.findings}")


def listed(s3: S3Access, bucket: str) -> int:
    """Return the number of objects, one page after the other."""
    pages = s3.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{PREFIX}/")
    return sum(len(page.get("Contents", ())) for page in pages)


def counted(s3: S3Access, bucket: str, depth: Depth, names: list[str], versions: int) -> tuple[str, ...]:
    """Return the row of one depth: what had to be asked for, and what was."""
    with noting_proxy(s3.endpoint) as (endpoint, asked):
        check(s3, bucket, endpoint, depth, versions)
    pages, must = -(-len(names) // _PAGE), needed(names, depth)
    requests = asked.lists + len(asked.reads) + len(asked.others)
    ratio = f"{requests / (pages + must):.2f}"
    return depth, f"{len(names):,}", f"{pages:,}", f"{must:,}", f"{requests:,}", ratio


def main() -> None:
    """Measure and print."""
    given = effort(__doc__, pairs=5, few=2)
    rounds, (partitions, versions) = given.pairs, (10, 20) if given.quick else (200, 120)
    with tempfile.TemporaryDirectory() as folder, real_server() as s3:
        bucket = s3.new_bucket()
        checkpoint = cloned("hdfs", Path(folder) / "many", partitions)
        lengthened(checkpoint, versions)
        names = uploaded(s3, bucket, checkpoint)
        depths: tuple[Depth, ...] = ("quick", "full")
        requests = [counted(s3, bucket, depth, names, versions) for depth in depths]
        pairs = [
            (
                seconds(lambda: listed(s3, bucket)),
                seconds(lambda: check(s3, bucket, s3.endpoint, "quick", versions)),
            )
            for _ in range(rounds)
        ]
    columns = ("depth", "objects", "pages", "objects to read", "requests", "ratio")
    show(f"requests, {partitions} partitions x {versions} versions", columns, requests)
    listing, verified = (median(column) for column in zip(*pairs, strict=True))
    rows = [
        ("list with boto3 alone", f"{listing:.2f} s", "1.00"),
        ("quick verification", f"{verified:.2f} s", f"{median([pair[1] / pair[0] for pair in pairs]):.2f}"),
    ]
    show(f"time, median of {rounds} pairs", ("one checkpoint", "median", "ratio"), rows)


if __name__ == "__main__":
    main()
