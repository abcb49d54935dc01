"""Drivers that end while everything around them is broken: real processes, forked from one that has imported all.

Each case is a pair: a "JVM" and its child, the "Python", which ends by one way in one of the driver's threads. As with
Spark, a JVM whose Python has ended ends with the same code; a Python whose JVM was killed is reaped here. Reads a list
of cases from standard input, prints one JSON line per case.

Arguments: a directory, the seconds that words may take, and ``jvms`` to stop as soon as all the JVMs have ended.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.driver.checkpointing.publish_loop import PublishLoop, RemovalLoop
from airflow_provider_ha.driver.ending import process_end
from airflow_provider_ha.driver.ending.exit_reason import RESERVE_FILE, ExitCode, read_failure
from airflow_provider_ha.driver.ending.process_end import ProcessTerminator, Watchdog
from airflow_provider_ha.driver.operations_loop import OperationsLoop
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.jobs.model import OperationKind
from tests.fake.jobs import CONFIG, PATHS, TIMINGS
from tests.support.fake import FakeEnsemble


SUBREAPER = 36
LIMIT = 20  # seconds for all cases: they run beside each other
STILL_ALIVE = -99


@dataclass(frozen=True)
class Case:
    """One end of one driver.

    :param role: Thread that ends the process.
    :param way: Method of :class:`ProcessTerminator` by which it does.
    :param trouble: What is broken around it.
    """

    role: str
    way: str
    trouble: str


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    :param python: Exit code, negative for a signal, or ``STILL_ALIVE``.
    :param jvm: The same.
    :param reason: What it left for its supervisor.
    :param output: What it printed.
    """

    case: Case
    python: int
    jvm: int
    reason: str | None
    output: str


class UnspeakableError(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def fail(*_: object, **__: object) -> Any:
    raise UnspeakableError


# What is broken


def no_trouble(_: Path) -> None:
    """Only print something, without a flush, also under PYTHONUNBUFFERED."""
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # a descriptor has no path
    sys.stdout.write("pending")


def stderr_full(_: Path) -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 2)


def stderr_without_reader(_: Path) -> None:
    reader, writer = os.pipe()
    os.dup2(writer, 2)
    os.close(reader)


def stderr_clogged(_: Path) -> None:
    """Its reader lives and does not read: a JVM that is stopped."""
    os.dup2(clogged_pipe(), 2)


def stdout_full(_: Path) -> None:
    sys.stdout = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115  # with the buffer that a file has
    sys.stdout.write("pending")


def stdout_held(_: Path) -> None:
    """A thread of the script writes without an end, and holds the lock of the buffer."""
    os.dup2(clogged_pipe(), 1)
    written = sys.stdout
    in_background(lambda: written.write("x" * 1_000_000))


def directory_hangs(directory: Path) -> None:
    """The kernel holds who opens a pipe for writing that has no reader, as it does on a mount whose server is away."""
    (directory / RESERVE_FILE).unlink(missing_ok=True)
    os.mkfifo(directory / RESERVE_FILE)


def logging_held(_: Path) -> None:
    held = threading.Event()

    def hold() -> None:
        for handler in logging.getLogger().handlers:
            handler.acquire()
        held.set()
        time.sleep(LIMIT * 2)

    in_background(hold)
    held.wait()


def interrupted(directory: Path) -> None:
    """Every word hangs, and the main thread is interrupted while it waits for them."""
    directory_hangs(directory)
    stdout_held(directory)
    threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()


TROUBLES: dict[str, Callable[[Path], None]] = {
    function.__name__: function
    for function in (
        no_trouble,
        stderr_full,
        stderr_without_reader,
        stderr_clogged,
        stdout_full,
        stdout_held,
        directory_hangs,
        logging_held,
    )
}


OF_MAIN = {interrupted.__name__: interrupted}  # signals are for the main thread alone


def clogged_pipe() -> int:
    _, writer = os.pipe()  # the reader stays open and does not read
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 65536)
    except BlockingIOError:
        os.set_blocking(writer, True)
    return writer


def in_background(body: Callable[[], object]) -> None:
    threading.Thread(target=body, daemon=True).start()


# Who ends it: the real loops of the driver, whose parts fail


def by_main(end: Callable[[BaseException], None]) -> None:
    end(UnspeakableError())


def by_heartbeat(end: Callable[[BaseException], None]) -> None:
    ensemble = FakeEnsemble(tick=0.2)
    session = ensemble.connect(CONFIG, name="leader")
    leadership = acquire(session, PATHS, timings=TIMINGS, clock=ensemble.clock, describe=lambda _: b"", timeout=0)
    leadership.start_heartbeats(lambda _: end(UnspeakableError()))
    ensemble.advance(TIMINGS.session_timeout * 2)


def watched(case: Case, way_out: ProcessTerminator) -> None:
    """End by the watchdog alone: the heartbeats are stuck, or the script never talks to its JVM again."""
    watchdog = Watchdog(way_out)
    watchdog.start()
    if case.way == "jvm_gone":
        os.kill(os.getppid(), signal.SIGKILL)
        return
    ensemble = FakeEnsemble(tick=0.2)
    session = ensemble.connect(CONFIG, name="leader")
    leadership = acquire(session, PATHS, timings=TIMINGS, clock=ensemble.clock, describe=lambda _: b"", timeout=0)
    watchdog.follow(leadership)
    ensemble.advance(TIMINGS.session_timeout * 2)


def by_publisher(end: Callable[[BaseException], None]) -> None:
    lifecycle: Any = SimpleNamespace(stopping=threading.Event())
    publisher: Any = SimpleNamespace(tick=fail)
    nothing: Any = None  # of these no tick of this publisher asks anything
    loop = PublishLoop(
        publisher,
        nothing,
        QueryRegistry(SystemClock()),
        lifecycle,
        end,
        settled=nothing,
        running=nothing,
        clean=nothing,
    )
    loop._thread.start()


def by_removal(end: Callable[[BaseException], None]) -> None:
    loop = RemovalLoop(fail, end)
    loop.start()
    loop.begin()


def by_operations(end: Callable[[BaseException], None]) -> None:
    operations(end, SimpleNamespace(children=fail)).start()


def by_operations_worker(end: Callable[[BaseException], None]) -> None:
    loop = operations(end, SimpleNamespace(children=lambda *_, **__: []))
    loop._work.put(SimpleNamespace(operation=OperationKind.SAVEPOINT, operation_id="x"))  # type: ignore[arg-type]
    loop.start()


def operations(end: Callable[[BaseException], None], coordinator: Any) -> OperationsLoop:
    anything: Any = SimpleNamespace(operations="/operations", savepoint=fail, now=lambda: None, lease_time=lambda: 0.0)
    lifecycle: Any = SimpleNamespace(leaving=threading.Event(), stopping=threading.Event())
    return OperationsLoop(coordinator, anything, anything, lifecycle, anything, 1, anything, end)


ROLES: dict[str, Callable[[Callable[[BaseException], None]], None]] = {
    "main": by_main,
    "heartbeat": by_heartbeat,
    "publisher": by_publisher,
    "removal": by_removal,
    "operations": by_operations,
    "operations-worker": by_operations_worker,
}
WAYS: dict[str, Callable[[ProcessTerminator, BaseException], None]] = {
    "leadership_lost": lambda way_out, _: way_out.leadership_lost("the lease ran out"),
    "leave": lambda way_out, _: way_out.leave(ExitCode.FAILED, "the query failed"),
    "done": lambda way_out, _: way_out.leave(ExitCode.DONE),
    "thread_failed": lambda way_out, error: way_out.thread_failed(error),
}


def python(case: Case, directory: Path) -> None:
    """Be the driver's Python of one case. Does not return."""
    (directory / "python.pid").write_text(str(os.getpid()))
    logging.basicConfig(stream=sys.stderr, force=True)
    way_out = ProcessTerminator(directory)
    way_out.owns_jvm(os.getppid())
    (TROUBLES | OF_MAIN)[case.trouble](directory)
    if case.role == "watchdog":
        watched(case, way_out)
    else:
        ROLES[case.role](lambda error: WAYS[case.way](way_out, error))
    time.sleep(LIMIT * 2)


def jvm(case: Case, directory: Path) -> int:
    """Be the JVM of one case."""
    child = os.fork()
    if child == 0:
        with (directory / "output").open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        try:
            python(case, directory)
        finally:
            os._exit(99)
    # A process that is being killed must not reap: the code of its child would be lost. From select it never returns.
    select.select([os.pidfd_open(child)], [], [])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def collect(until: set[int]) -> dict[int, int]:
    """Reap every child, adopted ones too, until none is left, all of *until* have ended, or time is over."""
    found: dict[int, int] = {}
    end = time.monotonic() + LIMIT
    while time.monotonic() < end and not (until and until <= found.keys()):
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid:
            found[pid] = os.waitstatus_to_exitcode(status)
        else:
            time.sleep(0.002)
    return found


def outcome(case: Case, directory: Path, jvm_pid: int, ended: dict[int, int]) -> Outcome:
    """Return what became of a case, and kill what is left of it."""
    pid = int((directory / "python.pid").read_text())
    output = (directory / "output").read_text()
    own = ended.get(jvm_pid, STILL_ALIVE)
    if own >= 0:  # it waited for its Python, and took over its code
        return Outcome(case, own, own, read_failure(directory), output)
    for left in (pid, jvm_pid):
        if left not in ended:
            os.kill(left, signal.SIGKILL)
    return Outcome(case, ended.get(pid, STILL_ALIVE), own, read_failure(directory), output)


def main() -> None:
    """Run every case."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    root, words_seconds = Path(sys.argv[1]), float(sys.argv[2])
    process_end.WORDS_SECONDS = process_end.LAST_WORDS_SECONDS = words_seconds
    begun = []
    for number, case in enumerate(Case(**told) for told in json.load(sys.stdin)):
        directory = root / str(number)
        directory.mkdir()
        pid = os.fork()
        if pid == 0:
            os._exit(jvm(case, directory))
        begun.append((case, directory, pid))
    ended = collect({pid for _, _, pid in begun} if sys.argv[3:] == ["jvms"] else set())
    for case, directory, pid in begun:
        print(json.dumps(asdict(outcome(case, directory, pid, ended))), flush=True)


if __name__ == "__main__":
    main()
