"""A ZooKeeper by which the masters of a standalone cluster find their leader.

``python -m tests.support.clusters.masters_zookeeper --data-dir DIR --port PORT`` runs one until SIGTERM.
"""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper


class MastersZooKeeper(EmbeddedZooKeeper):
    """A ZooKeeper for the masters: it ends the session of one that is killed after seconds, and not after a minute."""

    def _settings(self) -> dict[str, object]:
        return super()._settings() | {"maxSessionTimeout": 4000}


def main() -> None:
    """Run one."""
    parser = argparse.ArgumentParser(description="Run a ZooKeeper for masters on the loopback.")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with MastersZooKeeper(options.data_dir, port=options.port, tick_ms=200):
        stop.wait()


if __name__ == "__main__":
    main()
