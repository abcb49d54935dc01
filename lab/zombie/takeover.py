"""A takeover as a driver makes it, and the collector: ``python -m lab.zombie.takeover``.

As a program it takes its request from the standard input, and kills itself after so many changes to the storage:
between any two steps of a takeover.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow_provider_ha.checkpoints.areas.layered.garbage import GarbageSearch, remove, time_of
from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.areas.work_area import Successor
from airflow_provider_ha.checkpoints.restore.plan_execution import decide_start, prepare_recovery
from airflow_provider_ha.checkpoints.sinks.file_sink import FileSink
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.places import StorageAccess, output_place
from airflow_provider_ha.config import HdfsOptions, S3Options
from airflow_provider_ha.storage.hdfs_store import HdfsStore
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.storage.s3_store import S3Store
from lab.zombie.driver_program import QUERY


KEPT = 2  # batches, as the drivers' minBatchesToRetain


@dataclass(frozen=True)
class Storage:
    """Where a job works and writes.

    :param job: Its id.
    :param root: Work root.
    :param output: Directory of the file sink, as Spark is given it.
    """

    job: str
    root: str
    output: str
    s3: S3Options | None = None
    hdfs: HdfsOptions | None = None

    def files(self) -> ObjectStore:
        """Return the files below the work root."""
        if self.hdfs is not None:
            return HdfsStore(self.root, self.hdfs)
        assert self.s3 is not None
        return S3Store(self.root, self.s3)

    def area(self) -> LayeredWorkArea:
        """Return the work area."""
        return LayeredWorkArea(self.files())

    def sink(self) -> FileSink:
        """Return the output."""
        return FileSink(output_place(self.output), StorageAccess(self.s3, self.hdfs))

    def directory(self, epoch: int) -> str:
        """Return the key of an epoch's working directory."""
        return JobKeys(self.job).working_directory(epoch, "x")

    def take_over(self, old: int, new: int, area: LayeredWorkArea | None = None) -> None:
        """Fence an epoch, and make the directory of its successor."""
        used = area or self.area()
        fenced = used.fence(self.directory(old), by=Successor(new, f"submission-{new}"))
        used.create(self.directory(new))
        prepare_recovery(used, fenced, self.directory(new))

    def look(self, epoch: int) -> tuple[int, int]:
        """Return the last batch in the sink, and how many of its batches the checkpoint of a new epoch has not."""
        tree, reached = self.area().tree(self.directory(epoch)) / QUERY, self.sink().reached()
        steps = decide_start(progress(tree), (), reached)
        return reached, sum(step.into == "noop" for step in steps)

    def collect(self, current: int, grace: timedelta) -> list[str]:
        """Remove what nothing needs any more, as the leader of an epoch; return the keys."""
        files, live = self.files(), JobKeys(self.job).live
        search = GarbageSearch(files, live, {}, self.directory(current), time_of(files), kept=KEPT, grace=grace)
        for _ in search.steps():
            pass
        return [item.key for item in remove(files, search.garbage, lambda: None)]

    def to_json(self) -> dict[str, Any]:
        """Return it for another process of the test."""
        s3 = self.s3 and {"endpoint_url": self.s3.endpoint_url, **_keys(self.s3)}
        return {
            "job": self.job,
            "root": self.root,
            "output": self.output,
            "s3": s3,
            "hdfs": self.hdfs and self.hdfs.model_dump(),
        }

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Storage:
        """Read what :meth:`to_json` has returned."""
        s3, hdfs = said["s3"], said["hdfs"]
        options = (S3Options(**s3) if s3 else None, HdfsOptions(**hdfs) if hdfs else None)
        return cls(said["job"], said["root"], said["output"], *options)


def _keys(options: S3Options) -> dict[str, str]:
    assert options.access_key is not None
    assert options.secret_key is not None
    return {
        "access_key": options.access_key.get_secret_value(),
        "secret_key": options.secret_key.get_secret_value(),
    }


class Dying:
    """An :class:`ObjectStore` whose process dies after so many changes."""

    def __init__(self, files: ObjectStore, changes: int) -> None:
        self._files, self._left = files, changes

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._files, name)

        def change(*args: Any, **more: Any) -> None:
            found(*args, **more)
            self._changed()

        return change if name in {"create", "write", "upload", "delete"} else found

    def _changed(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def main(request: dict[str, Any]) -> None:
    """Take over, and die on the way."""
    storage = Storage.from_json(request["storage"])
    dying: Any = Dying(storage.files(), request["changes"])
    area = LayeredWorkArea(dying)
    storage.take_over(request["old"], request["new"], area)


if __name__ == "__main__":
    main(json.loads(sys.stdin.read()))
