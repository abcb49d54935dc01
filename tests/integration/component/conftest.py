"""Fixtures of the tests of the component in Spark's JVM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import py4j.java_gateway
import py4j.protocol
import pytest

from tests.support.s3.s3_server import S3Access
from tests.support.s3.s3a_jars import s3a_jars
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


@pytest.fixture(scope="session")
def s3_jvm() -> Iterator[ComponentJvm]:
    """One JVM with S3A for all tests of a process."""
    with component_jvm(s3a_jars()) as jvm:
        yield jvm


AREA = "work"

OLD, OWN = f"{AREA}/j/e7-x", f"{AREA}/j/e8-x"  # directories of two epochs


@dataclass(frozen=True)
class Store:
    """Where names are raced for.

    :param uri: Of a directory that no other test uses, as Spark sees it.
    """

    jvm: ComponentJvm
    conf: Any
    uri: str


def s3a_conf(jvm: ComponentJvm, s3: S3Access, bucket: str, endpoint: str, writer: str = "8/s/process") -> Any:
    return jvm.conf(
        f"s3a://{bucket}/root",
        {
            "fs.s3a.endpoint": endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": s3.access_key,
            "fs.s3a.secret.key": s3.secret_key,
            "fs.s3a.attempts.maximum": "2",
            "fs.s3a.retry.limit": "1",
            "fs.s3a.retry.interval": "10ms",
            "fs.s3a.retry.throttle.limit": "1",
            "fs.s3a.retry.throttle.interval": "10ms",
            "fs.s3a.impl.disable.cache": "true",
            "fs.ha.writer": writer,
        },
    )


def on_s3(jvm: ComponentJvm, s3: S3Access, endpoint: str) -> Store:
    bucket = s3.new_bucket()
    uri = f"has3a://{bucket}/root/{OWN}"
    jvm.open_gate(uri)
    return Store(jvm, s3a_conf(jvm, s3, bucket, endpoint), f"{uri}/q")


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


@dataclass(frozen=True)
class Copies:
    """A storage root on the local disk, and a directory of copies.

    :param folder: The directory of copies.
    """

    local: Local
    folder: Path
    megabytes: int = 10_000

    @property
    def jvm(self) -> ComponentJvm:
        return self.local.jvm

    @property
    def conf(self) -> Any:
        values = {
            "fs.ha.copies": "true",
            "fs.ha.copies.directory": str(self.folder),
            "fs.ha.copies.mb": str(self.megabytes),
        }
        return self.jvm.conf(f"file://{self.local.root}", values)

    @property
    def files(self) -> Any:
        return self.jvm.files(self.conf, self.local.uri)

    def place(self, name: str, epoch: str = "e8-x") -> Path:
        """Where the copy of a file is."""
        return Path(f"{self.folder}/v1/file/_{self.local.own.parent.parent}/{epoch}/q/{name}")

    def write(self, name: str, content: bytes | None = None) -> None:
        """Write a version, or the changes of one, as a task does."""
        manager = self.jvm.manager(self.conf, f"{self.local.uri}/{Path(name).parent}")
        self.jvm.create(
            manager, f"{self.local.uri}/{name}", name.encode() if content is None else content, overwrite=True
        )

    def upload(self, name: str, source: Path) -> None:
        """Upload a table as a task does."""
        self.files.copyFromLocalFile(self.jvm.path(f"file://{source}"), self.jvm.path(f"{self.local.uri}/{name}"))

    def download(self, name: str, target: Path) -> None:
        """Fetch a table as a task does."""
        self.files.copyToLocalFile(self.jvm.path(f"{self.local.uri}/{name}"), self.jvm.path(f"file://{target}"))

    def read(self, name: str) -> bytes:
        return self.jvm.read(self.files, f"{self.local.uri}/{name}")

    def held(self, partition: str = "state/0/3", epoch: str = "e8-x") -> list[str]:
        """Names of the copies of a partition."""
        place = self.place(partition, epoch)
        return sorted(path.name for path in place.rglob("*") if path.is_file() and path.suffix != ".note")

    def lose(self, name: str) -> None:
        """Remove the primary: what can still be read comes from the copy."""
        (self.local.own / name).unlink()


class Counted:
    """What the component has counted since."""

    def __init__(self, jvm: ComponentJvm) -> None:
        self._jvm = jvm
        self._before = jvm.counts()

    def __getitem__(self, kind: str) -> int:
        return self._jvm.counts().get(kind, 0) - self._before.get(kind, 0)


@pytest.fixture
def copies(local: Local, tmp_path: Path) -> Copies:
    """Copies in a directory that does not exist yet."""
    return Copies(local, tmp_path / "copies")


@pytest.fixture
def counted(jvm: ComponentJvm) -> Counted:
    return Counted(jvm)
