"""The main job, end to end: ``python -m tests.system.demo`` (``make demo``).

Exit code 0 only when the run came to its end and every comparison holds. Everything lies in ``build/demo``, or with
``--cluster standalone`` in ``build/demo-standalone``; every process that was started is ended, also on Ctrl-C and on
failure.
"""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType

from rich.console import Console

from tests.system.harness import processes
from tests.system.harness.cluster_phases import ON_A_CLUSTER
from tests.system.harness.cluster_servers import ClusterServers
from tests.system.harness.display import people_console
from tests.system.harness.report import Report
from tests.system.harness.scenario import MAIN, Scenario
from tests.system.harness.servers import REPOSITORY, USER, Servers


HOME = REPOSITORY / "build" / "demo"
HOME_ON_A_CLUSTER = REPOSITORY / "build" / "demo-standalone"

_INTERRUPTED = 130  # what a shell says of a program that Ctrl-C ended


def main() -> int:
    """Run the demo, or stop what one left running."""
    parser = argparse.ArgumentParser(prog="make demo", description="Run the main job end to end")
    parser.add_argument("--keep", action="store_true", help="leave Airflow up at the end and print its address")
    parser.add_argument("--cluster", choices=["standalone"], help="run the drivers on a cluster, checkpoints on S3")
    parser.add_argument("--stop", action="store_true", help="only stop what an earlier demo left running")
    arguments = parser.parse_args()
    if arguments.stop:
        for home in (HOME, HOME_ON_A_CLUSTER):
            processes.end_all(home)
        return 0
    home = HOME_ON_A_CLUSTER if arguments.cluster else HOME
    signal.signal(signal.SIGTERM, _interrupt)
    console = people_console()
    try:
        return run(home, console, keep=arguments.keep, on_a_cluster=arguments.cluster is not None)
    except KeyboardInterrupt:
        console.print("interrupted; everything that was started has been stopped")
        return _INTERRUPTED
    except Exception as error:  # noqa: BLE001  # the last stop: a sentence for people, the trace is in the report
        console.print(f"The demo failed: {error}", markup=False)
        console.print(f"Everything was stopped; logs and report.json are in {home}")
        return 1


def run(home: Path, console: Console, *, keep: bool = False, on_a_cluster: bool = False) -> int:
    """Run the demo in *home*, and stop everything that it started. Returns the exit code.

    :param keep: Leave the servers up when the run came to its end.
    :param on_a_cluster: Run the drivers on a standalone cluster, with checkpoints on S3.
    """
    servers = ClusterServers(home) if on_a_cluster else Servers(home)
    report = Report()
    servers.prepare()
    stop = True
    try:
        Scenario(servers, report, console, ON_A_CLUSTER if on_a_cluster else MAIN).run()
        stop = not keep
    except BaseException:
        report.error = traceback.format_exc()
        raise
    finally:
        report.write(home / "report.json")
        if stop:
            _stop(servers)
    report.show(console)
    console.print(f"report: {home / 'report.json'}")
    if keep:
        console.print(f"Airflow is up: {servers.url} (user {USER}, password {servers.password()})")
        for line in servers.to_go_on():
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    return 0 if report.verdict else 1


def _stop(servers: Servers) -> None:
    """Stop the servers; a second Ctrl-C must not leave half of them."""
    former = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        servers.stop()
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
