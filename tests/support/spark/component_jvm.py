"""A JVM with Hadoop, Spark's classes and the component, and no Spark running: it starts in a second or two."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from java.build_component import build


_PACKAGE = "io.github.sparkha"
_OPTIONS = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx384m", "--add-opens=java.base/java.lang=ALL-UNNAMED"]
_QUIET = "-Dlog4j2.level=ERROR"


@dataclass(frozen=True)
class ComponentJvm:
    """The JVM.

    :param jvm: Its classes, as py4j shows them.
    """

    jvm: Any

    @property
    def classes(self) -> Any:
        """The component's classes."""
        return self.jvm.io.github.sparkha

    def conf(self, root: str, more: Mapping[str, str] | None = None) -> Any:
        """Return a conf for a storage root; file systems of the component are not shared between confs."""
        conf = self.jvm.org.apache.hadoop.conf.Configuration()
        for scheme in ("hafile", "has3a", "hahdfs"):
            conf.set(f"fs.{scheme}.impl", f"{_PACKAGE}.HaFileSystem")
            conf.set(f"fs.{scheme}.impl.disable.cache", "true")
        conf.set("fs.ha.root", root)
        for key, value in (more or {}).items():
            conf.set(key, value)
        return conf

    def path(self, uri: str) -> Any:
        """Return a path of Hadoop."""
        return self.jvm.org.apache.hadoop.fs.Path(uri)

    def files(self, conf: Any, uri: str) -> Any:
        """Return the file system of a URI."""
        return self.path(uri).getFileSystem(conf)

    def manager(self, conf: Any, uri: str) -> Any:
        """Return what Spark writes a directory with."""
        return self.classes.HaCheckpointFileManager(self.path(uri), conf)

    def create(self, manager: Any, uri: str, content: bytes, *, overwrite: bool = False) -> None:
        """Write a file as Spark does."""
        stream = manager.createAtomic(self.path(uri), overwrite)
        stream.write(content)
        stream.close()

    def read(self, files: Any, uri: str) -> bytes:
        """Return what a file holds."""
        stream = files.open(self.path(uri))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def names(self, files: Any, uri: str) -> list[str]:
        """Return the names in a directory."""
        return [status.getPath().getName() for status in files.listStatus(self.path(uri))]

    def counts(self) -> dict[str, int]:
        """Return what the component counted."""
        return dict(self.classes.Counters.snapshot())

    def open_gate(self, directory: str, *, milliseconds: int = 600_000) -> None:
        """Lead for some time."""
        self.classes.Gate.bind("j", 8, directory)
        self.classes.Gate.extend(uptime() + milliseconds)

    def close_gate(self) -> None:
        """Lead no more."""
        self.classes.Gate.close("the test is over")


@contextmanager
def component_jvm(more_jars: Sequence[Path] = ()) -> Iterator[ComponentJvm]:
    """Yield a running JVM."""
    import pyspark
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    jars = Path(pyspark.__file__).parent / "jars"
    class_path = ":".join([str(build()), *map(str, more_jars), f"{jars}/*"])
    (py4j,) = jars.glob("py4j-*.jar")
    port = launch_gateway(
        jarpath=str(py4j), classpath=class_path, javaopts=[*_OPTIONS, _QUIET], die_on_exit=True, redirect_stderr=None
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        yield ComponentJvm(gateway.jvm)
    finally:
        gateway.shutdown()


def uptime() -> int:
    """Return milliseconds since boot, as the gate counts."""
    return int(float(Path("/proc/uptime").read_text(encoding="ascii").split()[0]) * 1000)


def java_class(error: Any) -> str:
    """Return the class of the Java exception behind an error of py4j."""
    return str(error.java_exception.getClass().getName())


def base(entries: Mapping[str, tuple[str, int, int, str]], epoch: int = 8, version: int = 1) -> bytes:
    """Return a base: name -> place, length, mtime, ETag."""
    head = json.dumps({"epoch": epoch, "submission": "s", "source": "jobs/j/e7", "batch": 41})
    lines = [
        f"{escaped(name)}\t{escaped(place)}\t{length}\t{mtime}\t{etag}"
        for name, (place, length, mtime, etag) in sorted(entries.items())
    ]
    return "\n".join([f"spark-ha-base {version} {head}", *lines, f"end {len(lines)}", ""]).encode()


def escaped(name: str) -> str:
    """Return a name as a base holds it."""
    for character in "%\t\n\r":
        name = name.replace(character, f"%{ord(character):02X}")
    return name
