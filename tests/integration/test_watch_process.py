"""``--watch`` as a person uses it: a process, a cut of the network, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from tests.integration.test_terminal import of_cluster
from tests.support.checkpoints.three_checkpoints import three_checkpoints
from tests.support.ctrl_c import spark_ha_with_ctrl_c


pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

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
            spark_ha_with_ctrl_c(*words, "--watch", "0.5"),
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
