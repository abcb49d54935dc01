"""ZooKeeper server in the foreground, for the tutorial, ``make demo KEEP=1`` and experiments.

Run ``python -m airflow_provider_ha.testing.zookeeper --data-dir DIR --port 2181``; Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.errors import ConfigurationError


__all__ = ["EmbeddedZooKeeper", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a server until SIGINT or SIGTERM; return the exit code: 0, or 2 if it cannot start."""
    parser = argparse.ArgumentParser(description="Run an embedded ZooKeeper on the loopback.")
    parser.add_argument("--data-dir", type=Path, required=True, help="directory of its data; created if missing")
    parser.add_argument("--port", type=int, default=None, help="port on 127.0.0.1 (default: a free one)")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        with EmbeddedZooKeeper(options.data_dir, port=options.port) as server:
            print(f"ZooKeeper listens on {server.hosts}; Ctrl-C ends it.", flush=True)  # noqa: T201  # a command
            while server.pid is not None and not stop.wait(0.5):
                pass
            return 0 if stop.is_set() else _ended(server)
    except ConfigurationError as error:
        print(error, file=sys.stderr)  # noqa: T201  # a command
        return 2


def _ended(server: EmbeddedZooKeeper) -> int:
    print(f"ZooKeeper ended unexpectedly; see {server.data_dir}", file=sys.stderr)  # noqa: T201  # a command
    return 2


if __name__ == "__main__":
    sys.exit(main())
