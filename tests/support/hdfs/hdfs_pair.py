"""Two real name nodes of one HDFS, of which a test makes one the active one; their edits lie in a shared directory."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.config import HdfsOptions
from airflow_provider_ha.coordination.embedded import free_ports
from tests.support.hdfs import hdfs_server as single
from tests.support.ivy import CACHE


_NAMESERVICE = "pair"
_NODES = ("nn1", "nn2")
_NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_ADMIN = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"


@dataclass(frozen=True)
class Pair:
    """A running HDFS with two name nodes; the first one is active.

    :param uri: Of the file system: ``hdfs://pair``.
    :param web: URLs of their web servers.
    :param conf: Directory of the configuration.
    :param namenodes: Their processes.
    """

    uri: str
    web: tuple[str, ...]
    conf: Path
    namenodes: tuple[subprocess.Popen[bytes], ...]

    def options(self) -> HdfsOptions:
        """Return what reaches both."""
        return HdfsOptions(namenodes=self.web)

    def activate(self, number: int) -> None:
        """Make a name node the active one; the other one is dead or on standby."""
        run(self.conf, _ADMIN, "-transitionToActive", "--forceactive", _NODES[number])

    def stand_by(self, number: int) -> None:
        """Make a name node one that waits."""
        run(self.conf, _ADMIN, "-transitionToStandby", _NODES[number])


run = single.run


@contextmanager
def hdfs_pair() -> Iterator[Pair]:
    """Yield a running HDFS; skips the test where its jars cannot be had."""
    with tempfile.TemporaryDirectory(prefix="hdfs-pair-", dir=CACHE) as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "shared").mkdir()
        *ports, data, data_web, data_ipc = free_ports(7)
        rpc, web = ports[:2], [f"127.0.0.1:{port}" for port in ports[2:]]
        common = single.data_node(folder, data, data_web, data_ipc) | _pair(folder, rpc, web)
        core = {"fs.defaultFS": f"hdfs://{_NAMESERVICE}", "hadoop.tmp.dir": str(folder / "tmp")}
        confs = [_conf(folder / node, node, core, common) for node in _NODES]
        run(confs[0], _NAMENODE, "-format", "-force", "-nonInteractive")
        shutil.copytree(folder / "nn1" / "name", folder / "nn2" / "name")
        namenodes = tuple(stack.enter_context(single.daemon(conf, _NAMENODE)) for conf in confs)
        for conf, process, port in zip(confs, namenodes, rpc, strict=True):
            single.wait_for_daemon(conf.parent, "NameNode", process, port)
        pair = Pair(f"hdfs://{_NAMESERVICE}", tuple(f"http://{each}" for each in web), confs[0], namenodes)
        pair.activate(0)
        node = stack.enter_context(single.daemon(confs[0], "org.apache.hadoop.hdfs.server.datanode.DataNode"))
        for each in web:
            single.wait_for_data_node(confs[0].parent, node, each)
        yield pair


def _pair(folder: Path, rpc: list[int], web: list[str]) -> dict[str, str]:
    names = {
        "dfs.nameservices": _NAMESERVICE,
        f"dfs.ha.namenodes.{_NAMESERVICE}": ",".join(_NODES),
        "dfs.namenode.shared.edits.dir": f"file://{folder}/shared",
        "dfs.ha.fencing.methods": "shell(true)",
        "dfs.ha.tail-edits.period": "1",
        f"dfs.client.failover.proxy.provider.{_NAMESERVICE}": (
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        ),
    }
    for node, port, address in zip(_NODES, rpc, web, strict=True):
        names[f"dfs.namenode.rpc-address.{_NAMESERVICE}.{node}"] = f"127.0.0.1:{port}"
        names[f"dfs.namenode.http-address.{_NAMESERVICE}.{node}"] = address
    return names


def _conf(folder: Path, node: str, core: dict[str, str], common: dict[str, str]) -> Path:
    folder.mkdir()
    own = {"dfs.ha.namenode.id": node, "dfs.namenode.name.dir": f"file://{folder}/name"}
    return single.write_conf(folder, core, common | own)
