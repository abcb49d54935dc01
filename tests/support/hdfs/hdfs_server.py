"""A real HDFS: one NameNode and one DataNode from Maven's jars, on the loopback interface only."""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from xml.sax.saxutils import escape

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HdfsOptions
from airflow_provider_ha.coordination.embedded import free_ports
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.ivy import CACHE, Wanted, jars


HADOOP = "3.5.0"
START_SECONDS = 120
COMMAND_SECONDS = 120
CLIENT = {  # of HDFS: one data node, and no pause of 400 ms at the end of a file
    "spark.hadoop.dfs.replication": "1",
    "spark.hadoop.dfs.client.use.datanode.hostname": "true",
    "spark.hadoop.dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "20",
}
_JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.lang=ALL-UNNAMED")
_LOGGING = """log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %c{1}: %m%n
"""


@dataclass(frozen=True)
class Hdfs:
    """A running HDFS without files.

    :param uri: Of the file system: ``hdfs://127.0.0.1:port``.
    :param web: URL of the NameNode's web server; WebHDFS is at ``/webhdfs/v1``.
    :param conf: Directory with ``core-site.xml`` and ``hdfs-site.xml``.
    :param namenode: Its process.
    :param datanode: Its process.
    """

    uri: str
    web: str
    conf: Path
    namenode: subprocess.Popen[bytes]
    datanode: subprocess.Popen[bytes]

    def new_root(self) -> str:
        """Return the URI of a directory that nothing else uses; it is not there yet."""
        return f"{self.uri}/{new_id()}"

    def options(self, web: str = "", user: str = "") -> HdfsOptions:
        """Return what reaches it, by another address where one is given."""
        return HdfsOptions(namenodes=(web or self.web,), user=user or None)

    def admin(self, *arguments: str) -> str:
        """Run ``hdfs dfsadmin`` (``-safemode enter``, ``-setQuota 10 /x``); return its output."""
        return run(self.conf, "org.apache.hadoop.hdfs.tools.DFSAdmin", *arguments)


@contextmanager
def hdfs_server(extra: Mapping[str, str] | None = None) -> Iterator[Hdfs]:
    """Yield a running HDFS; skips the test where its jars cannot be had.

    :param extra: More of ``hdfs-site.xml``.
    """
    _class_path()
    with tempfile.TemporaryDirectory(prefix="hdfs-", dir=CACHE) as name:
        folder = Path(name)
        rpc, web, data, data_web, data_ipc = free_ports(5)
        uri, address = f"hdfs://127.0.0.1:{rpc}", f"127.0.0.1:{web}"
        core = {"fs.defaultFS": uri, "hadoop.tmp.dir": str(folder / "tmp")}
        conf = write_conf(folder, core, _hdfs_site(folder, address, data, data_web, data_ipc) | dict(extra or {}))
        run(conf, "org.apache.hadoop.hdfs.server.namenode.NameNode", "-format", "-force", "-nonInteractive")
        with daemon(conf, "org.apache.hadoop.hdfs.server.namenode.NameNode") as namenode:
            wait_for_daemon(folder, "NameNode", namenode, rpc)
            with daemon(conf, "org.apache.hadoop.hdfs.server.datanode.DataNode") as datanode:
                wait_for_data_node(folder, datanode, address)
                yield Hdfs(uri, f"http://{address}", conf, namenode, datanode)


def _hdfs_site(folder: Path, web: str, data: int, data_web: int, data_ipc: int) -> dict[str, str]:
    own = {"dfs.namenode.name.dir": f"file://{folder}/name", "dfs.namenode.http-address": web}
    return own | data_node(folder, data, data_web, data_ipc)


def data_node(folder: Path, data: int, data_web: int, data_ipc: int) -> dict[str, str]:
    """Return what of ``hdfs-site.xml`` does not depend on the number of name nodes."""
    return {
        "dfs.replication": "1",
        "dfs.datanode.data.dir": f"file://{folder}/data",
        "dfs.datanode.address": f"127.0.0.1:{data}",
        "dfs.datanode.http.address": f"127.0.0.1:{data_web}",
        "dfs.datanode.ipc.address": f"127.0.0.1:{data_ipc}",
        "dfs.datanode.hostname": "127.0.0.1",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.permissions.enabled": "false",
        "dfs.namenode.safemode.extension": "0",
        "dfs.datanode.du.reserved": "0",
        # A data node takes no file for which it has not the room of some blocks.
        "dfs.blocksize": "4m",
        # By default a client that closes a file asks again after 400 ms.
        "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "20",
    }


def write_conf(folder: Path, core: Mapping[str, str], hdfs: Mapping[str, str]) -> Path:
    """Write the configuration of daemons into *folder*; return its directory."""
    conf = folder / "conf"
    conf.mkdir()
    for name, values in (("core-site.xml", core), ("hdfs-site.xml", hdfs)):
        lines = (f"<property><name>{k}</name><value>{escape(v)}</value></property>" for k, v in values.items())
        (conf / name).write_text(f"<configuration>{''.join(lines)}</configuration>", encoding="utf-8")
    (conf / "log4j.properties").write_text(_LOGGING, encoding="utf-8")
    return conf


def hdfs_jars() -> tuple[Path, ...]:
    """Return the jars of a cluster; skips the test where they cannot be had."""
    return jars(
        f"hdfs-{HADOOP}",
        (
            Wanted("org.apache.hadoop", "hadoop-client-minicluster", HADOOP),
            Wanted("org.slf4j", "slf4j-reload4j", "1.7.36"),
        ),
    )


def _class_path() -> str:
    return ":".join(map(str, hdfs_jars()))


@contextmanager
def daemon(conf: Path, program: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a running daemon of Hadoop; its log lies beside its configuration."""
    with (conf.parent / f"{program.rpartition('.')[2]}.log").open("wb") as log:
        process = subprocess.Popen(
            [*_JAVA, "-Xmx256m", "-cp", f"{conf}:{_class_path()}", program], stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def run(conf: Path, program: str, *arguments: str) -> str:
    """Run a program of Hadoop to its end; return its output."""
    command = [*_JAVA, "-cp", f"{conf}:{_class_path()}", program, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=COMMAND_SECONDS)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def wait_for_daemon(folder: Path, name: str, process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a daemon listens."""
    _wait_for(folder, name, process, lambda: _answers(port))


def wait_for_data_node(folder: Path, process: subprocess.Popen[bytes], web: str) -> None:
    """Wait until a name node would place a block on a data node: one that has only registered gets none."""
    _wait_for(folder, "DataNode", process, lambda: _remaining_bytes(web) > 0)


def _wait_for(folder: Path, name: str, process: subprocess.Popen[bytes], ready: Callable[[], bool]) -> None:
    wait_until(lambda: ready() or process.poll() is not None, timeout=START_SECONDS, what=name)
    assert process.poll() is None, (folder / f"{name}.log").read_text(encoding="utf-8")[-4000:]


def _remaining_bytes(address: str) -> int:
    """Return the room on the DataNodes that have reported to the NameNode; 0 while it does not answer."""
    connection = HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState")
        beans = json.loads(connection.getresponse().read())["beans"]
        return int(beans[0]["CapacityRemaining"]) if beans else 0
    except (OSError, HTTPException, ValueError):
        return 0
    finally:
        connection.close()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
