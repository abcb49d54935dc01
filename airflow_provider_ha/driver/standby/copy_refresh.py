"""Copies of a job's state on the host of its standby driver, with the option ``local_recovery``.

The tasks of the leader make copies on their hosts only. A standby driver on another host copies the state files of the
newest checkpoint from the store, so that it can continue without reading them when it leads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

from airflow_provider_ha.checkpoints.areas.layered.layered_tree import LayeredTree
from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.model import Checkpoint
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import STATE
from airflow_provider_ha.checkpoints.spark.closure import closure
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.jobs.cluster_roots import RootsOfCluster
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.options.conf import PREFIX
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.storage.keys import JobKeys


log = logging.getLogger(__name__)
REFRESH_SECONDS = 300.0
RATE = 20_000_000  # bytes per second: the leader uses the same store


class CopyRefresher:
    """A thread that keeps the copies of a standby driver's host as new as the newest checkpoint.

    :param job: The records of the job, whose work root is on S3 or HDFS.
    :param options: The job's.
    :param jvm: The JVM of this driver, through py4j, with a Spark context.
    :param conf: Hadoop's configuration of that context.
    """

    def __init__(self, job: JobRecords, options: HaOptions, jvm: Any, conf: Any) -> None:
        self._job = job
        directory, megabytes = options.local_recovery_dir or "", str(options.local_recovery_mb)
        self._refresh = jvm.io.github.sparkha.CopyRefresh(conf, directory, megabytes, RATE)
        self._copied = 0  # number of the checkpoint that was copied last
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="copy-refresh", daemon=True)

    def start(self) -> None:
        """Begin, with the newest checkpoint."""
        self._thread.start()

    def stop(self) -> None:
        """End it, at the latest after the file that it reads; does not wait."""
        self._over.set()
        try:
            self._refresh.stop()
        except Exception:  # py4j: the JVM has ended
            log.debug("the refresh of copies could not be stopped", exc_info=True)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._refresh_copies()
            except Exception as error:  # noqa: BLE001  # a driver without copies leads all the same
                log.warning("the copies of this host are not refreshed: %s", error)
            self._over.wait(REFRESH_SECONDS)

    def _refresh_copies(self) -> None:
        job, area = self._job, open_work_area(self._job.config, RootsOfCluster(self._job.config, self._job.coordinator))
        checkpoints = CheckpointStore(job.coordinator, job.store, job.paths, JobKeys(job.job_id), area, clock=job.clock)
        newest = next(iter(checkpoints.list()), None)
        if newest is None or newest.number == self._copied:
            return
        checkpoint = checkpoints.load(newest)
        files = state_files(area, checkpoints.directory(checkpoint), checkpoint)
        fetched = int(self._refresh.fetch(list(files)))
        self._copied = newest.number
        log.info("%d state files of checkpoint %d were copied to this host", fetched, newest.number)


def state_files(area: WorkArea, directory: str, checkpoint: Checkpoint) -> Iterator[str]:
    """Yield the locations in the store of the state files of a checkpoint, as Hadoop names them.

    :param area: On S3 or HDFS.
    :param directory: Key of the closure.
    :raises CheckpointMissingError: The checkpoint has been removed.
    :raises CheckpointCorruptError: A file is missing or damaged.
    """
    for query, cut in checkpoint.queries.items():
        tree = area.tree(f"{directory}/{query}")
        assert isinstance(tree, LayeredTree), "local_recovery needs S3 or HDFS"  # noqa: S101  # refused at the submission
        entries = tree.entries()
        for name in closure(tree, cut.batch, with_planned=False):
            if name.startswith(f"{STATE}/"):
                yield area.uri(entries[name].place).removeprefix(PREFIX)
