"""The command at a terminal, as its process: colors, completion, and ``--watch``."""

from __future__ import annotations

import logging
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.cli import completion
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.checkpoints.three_checkpoints import three_checkpoints
from tests.support.ctrl_c import spark_ha_with_ctrl_c


pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
SPARK_HA = Path(sys.executable).with_name("spark-ha")
COLOR = b"\x1b[1;31m"  # bold and red, as an error is


def at_a_terminal(*words: str, **variables: str) -> bytes:
    """Return what a terminal gets of the command, which has no cluster and says so."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_HA_", "NO_COLOR"))}
    main, terminal = pty.openpty()
    with os.fdopen(main, "rb", buffering=0) as shown:
        done = subprocess.Popen(
            [SPARK_HA, *words],
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            env=kept | {"TERM": "xterm-256color"} | variables,
        )
        os.close(terminal)
        said = b""
        while piece := _read(shown.fileno()):
            said += piece
        done.wait()
    return said


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # how Linux says that the other end is closed
        return b""


def test_no_color_is_honoured() -> None:
    colored, plain = at_a_terminal("job", "list"), at_a_terminal("job", "list", NO_COLOR="1")

    assert COLOR in colored
    assert b"error" in plain
    assert b"\x1b[31m" not in plain
    assert b";31m" not in plain


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "offered"),
    [("spark-ha clu", "cluster"), ("spark-ha job his", "history"), ("spark-ha delete cluster --d", "--dry-run")],
)
def test_the_shell_completes_nouns_verbs_and_options(line: str, offered: str) -> None:
    assert completed(line) == ([offered], "")


def completed(line: str, **variables: str) -> tuple[list[str], str]:
    """Return what bash is offered for the last word of a line, and what the person gets to see beside it."""
    words = line.split(" ")
    asked = {"_SPARK_HA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_HA_")}
    done = subprocess.run(
        [SPARK_HA], env={**kept, **asked, **variables}, capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout.split(), done.stderr


@pytest.mark.parametrize(
    ("shell", "offered"),
    [
        ("zsh", '_arguments \'*: :(("cluster":"Show the leader of a cluster, recover its..."))\'\n'),
        ("fish", "cluster\tShow the leader of a cluster, recover its...\n"),
    ],
)
def test_zsh_and_fish_complete_as_well(shell: str, offered: str) -> None:
    """As the scripts of ``--show-completion`` ask."""
    asked = {"_SPARK_HA_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "spark-ha clu"}
    done = subprocess.run(
        [SPARK_HA],
        env=os.environ | asked | {"_TYPER_COMPLETE_FISH_ACTION": "get-args"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.stdout, done.stderr) == (offered, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("spark-ha job show ", ["flights"]),
        pytest.param("spark-ha job show x", []),
        pytest.param("spark-ha checkpoint show flights ", ["1", "2", "3"]),
        ("spark-ha delete checkpoint flights checkpoint-", ["checkpoint-1", "checkpoint-2", "checkpoint-3"]),
        pytest.param("spark-ha delete checkpoint nothing ", []),
        pytest.param("spark-ha savepoint show flights ", ["friday"]),
        pytest.param("spark-ha job logs flights --run ", ["1"]),
    ],
)
def test_the_shell_completes_ids(config: HaConfig, coordinator: Coordinator, line: str, offered: list[str]) -> None:
    job = three_checkpoints(config, coordinator)
    coordinator.commit(Create(job.paths.savepoint("friday"), b"garbage"))  # names are read, and no data

    assert completed(line, **of_cluster(config)) == (offered, "")


def test_a_line_that_names_the_cluster_is_completed_from_that(config: HaConfig, coordinator: Coordinator) -> None:
    three_checkpoints(config, coordinator)
    place = f"--zookeeper {config.zookeeper} --storage-root {config.storage_root} --cluster-id {config.cluster_id}"

    assert completed(f"spark-ha {place} job show fl") == (["flights"], "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "hosts",
    [
        pytest.param("", id="none named"),
        pytest.param("127.0.0.1:1", id="refused"),
        pytest.param("silent", id="no answer"),
    ],
)
def test_without_zookeeper_a_completion_is_silent(config: HaConfig, hosts: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # takes connections and never answers
        silent = f"127.0.0.1:{listener.getsockname()[1]}"
        place = of_cluster(config) | {"SPARK_HA_ZOOKEEPER": silent if hosts == "silent" else hosts}

        found = completed("spark-ha job show ", **place)

    assert found == ([], "")


def test_a_completion_does_not_wait_for_a_server_that_hangs(config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = threading.Event()
    monkeypatch.setattr(completion, "SECONDS", 0.1)
    monkeypatch.setattr(KazooCoordinator, "connect", lambda *_, **__: hangs.wait())
    monkeypatch.setattr(logging, "disable", lambda _: None)  # for this process, which goes on
    target: Any = SimpleNamespace(options={}, config=lambda: config)
    context: Any = SimpleNamespace(find_root=lambda: SimpleNamespace(obj=target, params={}))
    found: list[list[str]] = []
    shell = threading.Thread(target=lambda: found.append(completion.job_ids(context, "")), daemon=True)

    shell.start()
    shell.join(30)
    hangs.set()

    assert found == [[]]


def of_cluster(config: HaConfig) -> dict[str, str]:
    """Return the variables that name a cluster."""
    return {
        "SPARK_HA_ZOOKEEPER": config.zookeeper,
        "SPARK_HA_STORAGE_ROOT": config.storage_root,
        "SPARK_HA_CLUSTER_ID": config.cluster_id,
    }


PATIENCE = 120.0  # for a process that starts beside others


class Watched:
    """A process that shows something again and again, and what it has said so far."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._folder = folder

    @property
    def shown(self) -> str:
        return (self._folder / "out").read_text()

    @property
    def told(self) -> str:
        return (self._folder / "err").read_text()

    def await_looks(self, word: str, more: int, what: str) -> None:
        """Wait until *word* was shown so many more times than now."""
        wanted = self.shown.count(word) + more
        wait_until(lambda: self._alive() and self.shown.count(word) >= wanted, timeout=PATIENCE, what=what)

    def await_told(self, word: str) -> None:
        wait_until(lambda: self._alive() and word in self.told, timeout=PATIENCE, what=f"{word!r} on stderr")

    def interrupt(self) -> int:
        """Press Ctrl-C; return the exit code."""
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(PATIENCE)

    def _alive(self) -> bool:
        assert self._process.poll() is None, self.told
        return True


@contextmanager
def watched(folder: Path, config: HaConfig, hosts: str, *words: str) -> Iterator[Watched]:
    """Watch something through *hosts*."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_HA_")}
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(
            spark_ha_with_ctrl_c(*words, "--watch", "--interval", "0.5"),
            env=kept | of_cluster(config) | {"SPARK_HA_ZOOKEEPER": hosts},
            stdout=out,
            stderr=err,
        )
    try:
        yield Watched(process, folder)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("job", "list"), "flights"),
        (("job", "show", "flights"), "flights"),
        (("metrics", "targets"), "no driver of this cluster"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_watch_goes_on_after_a_cut_until_ctrl_c(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, words: tuple[str, ...], shown: str
) -> None:
    three_checkpoints(config, coordinator)
    with FaultProxy(config.zookeeper) as proxy, watched(tmp_path, config, proxy.hosts, *words) as process:
        process.await_looks(shown, 2, "two looks")

        proxy.cut()
        process.await_told("error")
        proxy.heal()
        process.await_looks(shown, 2, "two looks after the cut")

        assert (process.interrupt(), "Traceback" in process.told) == (0, False)
