"""Real stores for the zombie matrix, each behind a proxy that holds one request, and the drivers that work on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HdfsOptions, S3Options
from airflow_provider_ha.jobs.options.conf import WRITER, component_conf, writer_id
from airflow_provider_ha.uris import hadoop_uri
from java.build_component import build
from lab.zombie.driver import Driver, start
from lab.zombie.hold import Holds
from lab.zombie.takeover import Storage
from tests.support.hdfs.hdfs_server import CLIENT, hdfs_server
from tests.support.hdfs.rpc_proxy import rpc_proxy
from tests.support.s3.s3_faults import s3_proxy
from tests.support.s3.s3_server import real_server
from tests.support.s3.s3a_jars import s3a_jars


@dataclass
class Stage:
    """A store, and drivers that are up. A driver that has played its part, and lives, plays in the next cell as well.

    :param folder: Of the drivers.
    :param root: Work root of all jobs.
    :param place: Where the jobs write, as Spark is given it.
    :param conf: Of drivers that reach the store.
    :param through: Beside it, of those whose requests may be held.
    """

    folder: Path
    root: str
    place: str
    holds: Holds
    conf: dict[str, str]
    through: dict[str, str] = field(default_factory=dict)
    s3: S3Options | None = None
    hdfs: HdfsOptions | None = None
    _idle: dict[bool, list[Driver]] = field(default_factory=lambda: {True: [], False: []})
    _started: list[Driver] = field(default_factory=list)

    def new_job(self) -> Storage:
        """Return where a job works that nothing was written of."""
        job = f"j-{new_id()}"
        return Storage(job, self.root, f"{self.place}/{job}-out", self.s3, self.hdfs)

    def hire(self, *, held: bool = False) -> Driver:
        """Return a driver without a part; it may still be starting.

        :param held: Whether its requests may be held.
        """
        alive = [driver for driver in self._idle[held] if driver.alive]
        if alive:
            self._idle[held].remove(alive[0])
            return alive[0]
        own = component_conf(hadoop_uri(self.root)) | {WRITER: writer_id(1, "submission", new_id())}
        name = f"driver-{len(self._started) + 1}"
        driver = start(self.folder / name, self.conf | (self.through if held else {}) | own)
        self._started.append(driver)
        return driver

    def give_back(self, driver: Driver, *, held: bool = False) -> None:
        """Keep a driver for the next cell."""
        self._idle[held].append(driver)

    def close(self) -> None:
        """Leave nothing of the drivers."""
        for driver in self._started:
            driver.kill()


@contextmanager
def on_s3(folder: Path) -> Iterator[Stage]:
    """Yield a bucket of a server that checks signatures and creates on condition."""
    holds, key = Holds(), "spark.hadoop.fs.s3a"
    with ExitStack() as stack:
        s3 = stack.enter_context(real_server())
        endpoint = stack.enter_context(s3_proxy(s3.endpoint, holds.fault))
        conf = {
            "spark.jars": ",".join(map(str, (build(), *s3a_jars()))),
            f"{key}.endpoint": s3.endpoint,
            f"{key}.endpoint.region": "us-east-1",
            f"{key}.path.style.access": "true",
            f"{key}.access.key": s3.access_key,
            f"{key}.secret.key": s3.secret_key,
        }
        bucket = s3.new_bucket()
        through = {f"{key}.endpoint": endpoint}
        stage = Stage(folder, f"s3://{bucket}/work", f"s3a://{bucket}", holds, conf, through, s3=s3.options())
        stack.callback(stage.close)
        yield stage


@contextmanager
def on_hdfs(folder: Path) -> Iterator[Stage]:
    """Yield a directory of a name node; all drivers name its proxy, since an output has one name."""
    holds = Holds()
    with ExitStack() as stack:
        hdfs = stack.enter_context(hdfs_server())
        node = urlsplit(hdfs.uri)
        port = stack.enter_context(rpc_proxy(str(node.hostname), int(node.port or 0), holds.on_request))
        place = f"hdfs://127.0.0.1:{port}/{new_id()}"
        conf = CLIENT | {"spark.jars": str(build())}
        stage = Stage(folder, f"{place}/work", place, holds, conf, hdfs=hdfs.options())
        stack.callback(stage.close)
        yield stage
