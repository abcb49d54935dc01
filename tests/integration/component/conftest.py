"""Fixtures of the tests of the component in Spark's JVM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import py4j.java_gateway
import py4j.protocol
import pytest

from tests.support.spark.component_jvm import ComponentJvm, base, component_jvm


@pytest.fixture(autouse=True)
def errors_as_py4j_raises_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo PySpark's patch of py4j: a session of an earlier test asks *its* JVM about the errors of this one."""
    monkeypatch.setattr(py4j.java_gateway, "get_return_value", py4j.protocol.get_return_value)


@pytest.fixture(scope="session")
def running_jvm() -> Iterator[ComponentJvm]:
    """One JVM for all tests of a process."""
    with component_jvm() as jvm:
        yield jvm


@pytest.fixture
def jvm(running_jvm: ComponentJvm) -> Iterator[ComponentJvm]:
    """That JVM, with a gate that is closed."""
    running_jvm.close_gate()
    yield running_jvm
    running_jvm.close_gate()


@dataclass(frozen=True)
class Local:
    """A storage root on the local disk, with a query's directory ``q`` of epoch 8 that begins with files of epoch 7.

    :param own: The directory of epoch 8.
    :param old: The directory of epoch 7.
    """

    jvm: ComponentJvm
    conf: Any
    root: Path

    @property
    def own(self) -> Path:
        return self.root / "jobs" / "j" / "e8-x" / "q"

    @property
    def old(self) -> Path:
        return self.root / "jobs" / "j" / "e7-x" / "q"

    @property
    def uri(self) -> str:
        """The directory of epoch 8, as Spark sees it."""
        return f"hafile://{self.own}"

    @property
    def files(self) -> Any:
        """A file system that has read no base yet."""
        return self.jvm.files(self.conf, self.uri)

    def manager(self, directory: str) -> Any:
        """Return what Spark writes one of its directories with."""
        return self.jvm.manager(self.conf, f"{self.uri}/{directory}")

    def inherit(self, *names: str) -> None:
        """Have epoch 7 write files, and epoch 8 begin with them."""
        entries = {}
        for name in names:
            path = self.old / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(f"7 {name}".encode())
            status = path.stat()
            place = f"jobs/j/e7-x/q/{name}"
            entries[name] = (place, status.st_size, status.st_mtime_ns // 1_000_000, "")
        self.own.mkdir(parents=True, exist_ok=True)
        (self.own / "_ha_base").write_bytes(base(entries))

    def write(self, name: str) -> None:
        """Write an own file beside the component."""
        path = self.own / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"8 {name}".encode())

    def read(self, name: str) -> str:
        return self.jvm.read(self.files, f"{self.uri}/{name}").decode()


@pytest.fixture
def local(jvm: ComponentJvm, tmp_path: Path) -> Local:
    """A storage root on the local disk."""
    return Local(jvm, jvm.conf(f"file://{tmp_path}"), tmp_path)
