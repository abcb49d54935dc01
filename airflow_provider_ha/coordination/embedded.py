"""Embedded ZooKeeper server for demos and tests, from the jars that PySpark ships, and free ports for servers.

The server listens on the loopback only, with its data in a directory of the caller's. It can be killed, frozen and
started again on the same data and port, which tests of an outage need. Not for production: one server is no ensemble,
and it does not wait for the disk (``forceSync=no``), so that it survives its own death but not that of the machine.

Invariant: the ports are outside the system's range for outgoing connections. In that range, any connection of any
process may take a port before the server listens on it.
"""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host import die_with_parent
from airflow_provider_ha.host.java import find_jars, find_java, utf8_locale


_HOST = "127.0.0.1"
_LOWEST = 10_000
_TRIES = 1000
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_DEFAULT_OUTGOING = 32_768


def free_ports(count: int) -> list[int]:
    """Return *count* different ports of the loopback without a listener.

    :raises OSError: Fewer ports are free.
    """
    with ExitStack() as held:
        return [held.enter_context(_probe()).getsockname()[1] for _ in range(count)]


def free_port() -> int:
    """Return a port of the loopback without a listener; raises as :func:`free_ports` does."""
    return free_ports(1)[0]


def is_free(port: int) -> bool:
    """Return whether *port* of the loopback has no listener."""
    with suppress(OSError), _bound(port):
        return True
    return False


def _probe() -> socket.socket:
    others = range(_LOWEST, _first_outgoing())
    for port in random.sample(others, min(len(others), _TRIES)):
        with suppress(OSError):
            return _held(port)
    # This host gives all ports to outgoing connections, or each has a listener.
    return _held(0)


def _first_outgoing() -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(_OUTGOING.read_text().split()[0])
    return _DEFAULT_OUTGOING


def _held(port: int) -> socket.socket:
    """Bind a port and listen: without a listener, two sockets may be bound to one port (``SO_REUSEADDR``)."""
    probe = _bound(port)
    try:
        probe.listen()
    except BaseException:
        probe.close()
        raise
    return probe


def _bound(port: int) -> socket.socket:
    probe = socket.socket()
    try:
        # As servers do, so that a connection that has just ended does not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((_HOST, port))
    except BaseException:
        probe.close()
        raise
    return probe


_log = logging.getLogger(__name__)


_NEEDED_DISK = 200 * 1024 * 1024
_START_TIMEOUT = 60.0
_STOP_TIMEOUT = 10.0
_MAX_SESSION_TIMEOUT_MS = 60_000  # ZooKeeper's own limit of 20 ticks is too short for usual timeouts if ticks are short


class EmbeddedZooKeeper:
    """ZooKeeper server as a child process; dies with the process (thread) that started it.

    :param data_dir: Directory of its data, configuration and log; created when missing.
    :param port: Port on the loopback; by default a free one, kept over restarts.
    :param tick_ms: ZooKeeper's unit of time, in milliseconds: a session expires on a multiple of a tick.
    :param jars: Directory with ZooKeeper's jars; by default Spark's.
    """

    _main_class = "org.apache.zookeeper.server.ZooKeeperServerMain"

    def __init__(
        self, data_dir: Path, *, port: int | None = None, tick_ms: int = 500, jars: Path | None = None
    ) -> None:
        self.data_dir = data_dir
        self._port = port
        self._tick_ms = tick_ms
        self._jars = jars
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def hosts(self) -> str:
        """Connection string: ``127.0.0.1:<port>``.

        :raises ConfigurationError: The server was never started and has no port yet.
        """
        if self._port is None:
            raise ConfigurationError("the embedded ZooKeeper has no port yet", next_step="Start it first")
        return f"{_HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """Process id of the server; ``None`` while it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> Self:
        """Start the server and wait until it answers. Does nothing if the server is running.

        :raises ConfigurationError: No Java, no jars, port in use, full disk, or the server ended immediately.
        """
        if self.pid is None:
            self.launch()
            self.await_ready()
        return self

    def launch(self) -> None:
        """Start the server's process without waiting for it; :meth:`await_ready` follows.

        :raises ConfigurationError: No Java, no jars, port in use, or no disk.
        """
        java, jars = find_java(), find_jars(self._jars)
        self._prepare_directory()
        self._port = _claim_port(self._port)
        configuration = self._write_configuration()
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    die_with_parent.__file__,
                    str(os.getpid()),
                    *_command(java, jars, self._main_class, configuration),
                ],
                env={**os.environ, **utf8_locale(os.environ)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this process, which stops the server in order
            )
        _log.info("embedded ZooKeeper %s runs as process %d in %s", self.hosts, self._process.pid, self.data_dir)

    def await_ready(self) -> None:
        """Wait until the server answers, and kill it if it does not.

        :raises ConfigurationError: The server ended, or did not answer in time; with the end of its log.
        """
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """End the server in order; its data stays. Idempotent."""
        if self._process is None:
            return
        self._signal(signal.SIGCONT)  # a frozen process does not see the request to end
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """Kill the server as a crash would (SIGKILL); :meth:`start` brings it back on the same port and data."""
        if self._process is None:
            return
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._process = None

    def freeze(self) -> None:
        """Pause the server (SIGSTOP): connections stay open without responses."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume a frozen server."""
        self._signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _log_file(self) -> Path:
        return self.data_dir / "zookeeper.log"

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _prepare_directory(self) -> None:
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.data_dir).free
        except OSError as error:
            raise ConfigurationError(
                f"the directory {self.data_dir} of the embedded ZooKeeper cannot be created ({error.strerror})",
                next_step="Give a directory that this user may write to",
            ) from error
        if free < _NEEDED_DISK:
            raise ConfigurationError(
                f"{self.data_dir} has {free // 2**20} MB left, the embedded ZooKeeper needs {_NEEDED_DISK // 2**20} MB",
                next_step="Free some disk space or give another directory",
            )

    def _write_configuration(self) -> Path:
        path = self.data_dir / "zoo.cfg"
        # Java reads such a file as Latin-1, with the same escapes as JSON.
        settings = {name: json.dumps(str(value))[1:-1] for name, value in self._settings().items()}
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="ascii")
        return path

    def _settings(self) -> dict[str, object]:
        """Return the server's configuration."""
        return {
            "dataDir": self.data_dir.resolve(),
            "tickTime": self._tick_ms,
            "maxSessionTimeout": _MAX_SESSION_TIMEOUT_MS,
            "clientPort": self._port,
            "clientPortAddress": _HOST,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "autopurge.snapRetainCount": 3,
            "autopurge.purgeInterval": 1,
        }

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + _START_TIMEOUT
        while ask(self._port or 0, b"ruok") != b"imok":
            if self.pid is None:
                raise ConfigurationError(
                    f"the embedded ZooKeeper ended while it started: {self._last_words()}",
                    next_step=f"Look into {self._log_file}",
                )
            if time.monotonic() > end:
                raise ConfigurationError(
                    f"the embedded ZooKeeper did not answer within {_START_TIMEOUT:g} s",
                    next_step=f"Look into {self._log_file}",
                )
            time.sleep(0.05)

    def _last_words(self) -> str:
        lines = self._log_file.read_text(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")[:300]


def _command(java: str, jars: list[Path], main_class: str, configuration: Path) -> list[str]:
    return [
        java,
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",  # starts in 1.5 s instead of 4 s
        "-Dlog4j2.level=WARN",
        "-Dzookeeper.forceSync=no",
        "-Dzookeeper.preAllocSize=1024",  # KB; the default of 64 MB per log file is much for a demo
        # A member that was alone for a while contacts the others again within a second; the default grows to a minute.
        "-Dzookeeper.fastleader.maxNotificationInterval=1000",
        "-cp",
        ":".join(map(str, jars)),
        main_class,
        str(configuration),
    ]


def _claim_port(port: int | None) -> int:
    """Return *port* when it is free, or any free one."""
    if port and not is_free(port):
        raise ConfigurationError(
            f"port {port} of {_HOST} is in use, the embedded ZooKeeper cannot listen there",
            next_step="Stop the process that uses it, or give another port",
        )
    return port or free_port()


def ask(port: int, word: bytes) -> bytes:
    """Return the whole answer of the server on *port* to a four-letter word; empty while it does not answer."""
    answer = b""
    try:
        with socket.create_connection((_HOST, port), timeout=1) as connection:
            connection.sendall(word)
            while part := connection.recv(65536):
                answer += part
    except OSError:
        return b""
    return answer
