"""What a new driver does with the checkpoint of a lost one, against starting in it as it is and against copying it.

A checkpoint of the HDFS provider without snapshots, cloned by program from a real one of the test corpus: its closure
is every file of its state. Their bytes are random: a takeover opens none of them. A takeover is the fence, the new
working directory and the fork of its query. A restart in place finds out what was committed last and has no fence, so
a driver that is not dead goes on writing. A copy is what a fork would be without names and without links: the S3
server copies each object, elsewhere the files go through this process, eight at a time. Requests are those of HTTP,
with the redirects of HDFS.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from urllib3.connectionpool import HTTPConnectionPool

from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_recovery
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.closure import closure
from airflow_provider_ha.checkpoints.spark.files import read
from airflow_provider_ha.storage.hdfs_store import HdfsStore
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.s3_store import S3Store
from benchmarks.clones import cloned, lengthened
from benchmarks.shared import effort, median, show
from tests.support.hdfs.hdfs_server import Hdfs, hdfs_server
from tests.support.s3.s3_server import S3Access, real_server


QUERY = "counts"
JOB = JobKeys("flights")
LOST = JOB.working_directory(1, "lost")
MB = 1 << 20
_AT_ONCE = 8


@dataclass(frozen=True)
class Size:
    """How large a checkpoint is.

    :param partitions: Of its state.
    :param versions: Of each partition; each is a file.
    :param megabytes: All of them.
    """

    partitions: int
    versions: int
    megabytes: int

    @property
    def files(self) -> int:
        """Of its state."""
        return self.partitions * self.versions

    def __str__(self) -> str:
        return f"{self.files:,} files, {self.megabytes:,} MB"


@dataclass(frozen=True)
class Place:
    """A store with a work area, and how its files are copied within it.

    :param copy: Copies the files of these names from one directory to another one.
    """

    name: str
    area: WorkArea
    copy: Callable[[list[str], str, str], None]


@dataclass
class Requests:
    """Counts what goes through urllib3, which boto3 and WebHDFS use."""

    number: int = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count for as long as this goes on."""
        original = HTTPConnectionPool.urlopen

        def urlopen(*arguments: Any, **options: Any) -> Any:
            self.number += 1
            return original(*arguments, **options)

        with patch.object(HTTPConnectionPool, "urlopen", urlopen):
            yield


def checkpoint(folder: Path, size: Size) -> Path:
    """Make the checkpoint on this host."""
    made = cloned("hdfs", folder / f"{size.files}", size.partitions)
    lengthened(made, size.versions)
    for path in made.rglob(".*.crc"):
        path.unlink()
    each = size.megabytes * MB // size.files
    for path in (made / "state").rglob("*"):
        if path.suffix == ".snapshot":
            path.unlink()
        elif path.suffix == ".delta":
            path.write_bytes(os.urandom(each))
    return made


def put(area: WorkArea, made: Path) -> None:
    """Leave the checkpoint in the working directory of the lost driver."""
    tree = area.create(LOST) / QUERY
    paths = [path for path in made.rglob("*") if path.is_file()]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda path: tree.upload(str(path.relative_to(made)), path), paths))


def taken_over(area: WorkArea, target: str) -> None:
    """Do what a new driver does before Spark starts."""
    fenced = area.fence(LOST)
    area.create(target)
    if not prepare_recovery(area, fenced, target):
        raise RuntimeError(f"nothing was taken over from {LOST}")


def started_in_place(area: WorkArea) -> None:
    """Do what a restart in place does before Spark starts."""
    area.require()
    if progress(area.tree(area.current(LOST)) / QUERY).committed < 0:
        raise RuntimeError(f"nothing is committed in {LOST}")


def copied(place: Place, target: str) -> None:
    """Copy what the last batch needs."""
    source = f"{place.area.current(LOST)}/{QUERY}"
    tree = place.area.tree(source)
    place.copy(list(closure(tree, progress(tree).committed, with_planned=True)), source, target)


def through_this_process(area: WorkArea) -> Callable[[list[str], str, str], None]:
    """Return a copy that reads and writes each file."""

    def copy(names: list[str], source: str, target: str) -> None:
        old, new = area.tree(source), area.create(target)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda name: new.write(name, read(old, name)), names))

    return copy


def within_s3(access: S3Access, bucket: str) -> Callable[[list[str], str, str], None]:
    """Return a copy that the server makes."""
    client = access.client()

    def copy(names: list[str], source: str, target: str) -> None:
        def one(name: str) -> None:
            client.copy_object(Bucket=bucket, Key=f"{target}/{name}", CopySource=f"{bucket}/{source}/{name}")

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(one, names))

    return copy


def places(folder: Path, s3: S3Access, hdfs: Hdfs) -> Iterator[Place]:
    """Yield each store, empty."""
    local = LinkedWorkArea(folder / "local")
    yield Place("local", local, through_this_process(local))
    bucket = s3.new_bucket()
    objects = LayeredWorkArea(S3Store(f"s3://{bucket}", s3.options()))
    yield Place("S3", objects, within_s3(s3, bucket))
    distributed = LayeredWorkArea(HdfsStore(hdfs.new_root(), hdfs.options()))
    yield Place("HDFS", distributed, through_this_process(distributed))


def measured(work: Callable[[], object]) -> tuple[float, int]:
    """Return the seconds of one call and its requests."""
    requests = Requests()
    with requests.counted():
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin, requests.number


def rows_of(place: Place, rounds: int) -> Iterator[tuple[str, ...]]:
    """Measure one checkpoint in one store; yield the rows of its table."""
    targets = (JOB.working_directory(number, "new") for number in itertools.count(2))
    pairs = [
        (
            measured(lambda: started_in_place(place.area)),
            measured(lambda: taken_over(place.area, next(targets))),
        )
        for _ in range(rounds)
    ]
    copy = measured(lambda: copied(place, next(targets)))
    in_place = median([pair[0][0] for pair in pairs])
    takeover = median([pair[1][0] for pair in pairs])
    for name, seconds, requests in (
        ("in place, no fence", in_place, pairs[0][0][1]),
        ("takeover", takeover, pairs[0][1][1]),
        ("copy of the closure", *copy),
    ):
        more = f"{seconds - in_place:+.2f} s" if name == "takeover" else ""
        yield place.name, name, f"{seconds:.2f} s", more, f"{seconds / takeover:.2f}", f"{requests:,}"


def main() -> None:
    """Measure and print."""
    given = effort(__doc__, pairs=5)
    sizes = [Size(2, 10, 1)] if given.quick else [Size(5, 20, 30), Size(20, 100, 500), Size(100, 100, 2000)]
    columns = ("store", "before Spark starts", "median", "to in place", "ratio", "requests")
    for size in sizes:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            made = checkpoint(folder, size)
            servers = stack.enter_context(real_server()), stack.enter_context(hdfs_server())
            rows: list[tuple[str, ...]] = []
            for place in places(folder, *servers):
                put(place.area, made)
                rows += rows_of(place, given.pairs)
            show(f"one query with {size} is taken over, {given.pairs} rounds", columns, rows)


if __name__ == "__main__":
    main()
