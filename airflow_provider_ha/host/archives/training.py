"""Training: a program of this package whose JVM writes a class archive when it ends.

``python -m airflow_provider_ha.host.archives.training FILE``, a separate process: a supervisor collects every dead
child itself, so it would not learn how a training ended.

It runs no code of a user and reads no conf of one: a temporary conf folder and home, the loopback address, and only the
variables that Java and Python need. It ends with the process that has started it, and after five minutes at the latest.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.host.archives.archive_store import ArchiveNote, ArchiveStore
from airflow_provider_ha.host.archives.jvm_command import (
    NO_SCRIPT,
    ArchivedClassPath,
    JvmCommand,
    request_command,
    resources_of,
)
from airflow_provider_ha.host.process_tree import kill_session


log = logging.getLogger(__name__)
TRAINING_SECONDS = 300.0
LOWEST_PRIORITY = 19
QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
_CONF = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
_PROGRAM = Path(__file__).with_name("training_program.py")
GUARD = Path(__file__).parents[1] / "die_with_parent.py"
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class Training:
    """What is trained.

    :param key: Key of the archive (``jvm_command.archive_key``).
    :param java: The JVM.
    :param class_path: Its jars are those of the archive.
    :param spark: Release of Spark, for people.
    """

    key: str
    spark_home: Path
    java: Path
    class_path: ArchivedClassPath
    spark: str

    def to_json(self) -> str:
        """Return the training as the text that the program reads."""
        known = {"key": self.key, "spark_home": str(self.spark_home), "java": str(self.java), "spark": self.spark}
        return json.dumps(known | {"jars": [str(jar) for jar in self.class_path.jars]})

    @classmethod
    def from_json(cls, text: str) -> Training:
        """Read what :meth:`to_json` has written."""
        known = json.loads(text)
        path = ArchivedClassPath(tuple(map(Path, known["jars"])), (), None)
        return cls(known["key"], Path(known["spark_home"]), Path(known["java"]), path, known["spark"])

    def run(self, store: ArchiveStore, environment: Mapping[str, str]) -> ArchiveNote | None:
        """Make the archive; return ``None`` if another process of this host trains.

        :raises ConfigurationError: The training failed, and the store has the reason; or the store cannot be written.
        """
        try:
            with store.training() as made:
                return self._train(store, made, environment) if made is not None else None
        except OSError as error:
            raise ConfigurationError(f"no class archive can be written: {error}") from error

    def _train(self, store: ArchiveStore, made: Path, environment: Mapping[str, str]) -> ArchiveNote:
        if (known := store.find(self.key)) is not None:  # made in the meantime
            return known.note
        began = time.monotonic()
        try:
            self._make(made, environment)
            length, sha256 = store.measure(made)
            note = ArchiveNote(
                key=self.key,
                length=length,
                sha256=sha256,
                java=str(self.java),
                spark=self.spark,
                seconds=round(time.monotonic() - began, 1),
                made_at=SystemClock().now(),
                resources=tuple(resources_of(self.class_path.jars)),
            )
        except ConfigurationError as error:
            store.set_aside(self.key, error.message)
            raise
        published = store.publish(made, note)
        store.expire()
        log.info("class archive %s was made in %.0f s", note.key, note.seconds)
        return published

    def _make(self, made: Path, inherited: Mapping[str, str]) -> None:
        with tempfile.TemporaryDirectory(prefix="spark-ha-training-") as folder:
            place = Path(folder)
            for name in ("conf", "home", "data", "scratch"):
                (place / name).mkdir()
            properties = place / "training.properties"
            conf = _CONF | {
                "spark.local.dir": str(place / "scratch"),
                "spark.sql.warehouse.dir": str(place / "warehouse"),
            }
            properties.write_text("".join(f"{key}={value}\n" for key, value in conf.items()), encoding="utf-8")
            environment = {name: inherited[name] for name in _KEPT if name in inherited} | {
                "HOME": str(place / "home"),
                "JAVA_HOME": str(self.java.parents[1]),
                "SPARK_HOME": str(self.spark_home),
                "SPARK_CONF_DIR": str(place / "conf"),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYSPARK_PYTHON": sys.executable,
                "PYSPARK_DRIVER_PYTHON": sys.executable,
            }
            submit = str(self.spark_home / "bin" / "spark-submit")
            request = [submit, "--properties-file", str(properties), NO_SCRIPT, str(place / "data")]
            options = [f"-XX:ArchiveClassesAtExit={made}", *QUIET]
            command = request_command(request, environment).with_script(str(_PROGRAM))
            _run(command.with_class_path(map(str, self.class_path.jars), options), place)
        if not made.is_file():
            raise ConfigurationError("the JVM wrote no class archive")


def _run(command: JvmCommand, place: Path) -> None:
    guard = [sys.executable, "-I", "-S", str(GUARD), str(os.getpid())]
    output = place / "output"
    with output.open("wb") as written:
        process = subprocess.Popen(
            [*guard, *command.words],
            env=dict(command.environment),
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code = process.wait(TRAINING_SECONDS)
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"the training was not over after {TRAINING_SECONDS:.0f} s") from None
    finally:
        kill_session(process)
    if code != 0:
        lines = output.read_text(errors="replace").strip().splitlines() or ["no output"]
        raise ConfigurationError(f"the training ended with exit status {code}: {lines[-1][:300]}")


def main(arguments: list[str]) -> int:
    """Make the archive that a file describes, beside a job. Its first line is the store's directory."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    os.nice(LOWEST_PRIORITY)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")  # before any driver of the host
    store, _, text = Path(arguments[0]).read_text(encoding="utf-8").partition("\n")
    try:
        Training.from_json(text).run(ArchiveStore(Path(store)), os.environ)
    except HaError as error:
        log.warning("no class archive: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
