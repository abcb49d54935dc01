"""Start of a driver's JVM with the archive of its host, or the reason against one."""

from __future__ import annotations

import hashlib
import os
from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.host.archives.archive_store import ArchiveNote, ArchiveStore
from airflow_provider_ha.host.archives.driver_launch import NOT_MADE, DriverLaunch, driver_launch
from airflow_provider_ha.jobs.drivers.driver_spec import ARCHIVE_VARIABLE, NOT_MAPPED, class_archive


CONTENT = b"classes" * 1000
SUBMIT = '#!/usr/bin/env bash\nexec "$SPARK_HOME"/bin/spark-class org.apache.spark.deploy.SparkSubmit "$@"\n'
CLASS = '#!/usr/bin/env bash\nexec "$JAVA_HOME"/bin/java -cp "$SPARK_HOME/conf:$SPARK_HOME/jars/*" "$@"\n'


class Host:
    """A host with the scripts of a Spark and the files of a Java."""

    def __init__(self, place: Path) -> None:
        self.store = ArchiveStore(place / "archives")
        self.spark, self.java = place / "spark", place / "java"
        files = ("spark/jars/a.jar", "java/bin/java", "java/lib/server/libjvm.so", "java/lib/server/classes.jsa")
        scripts = {"spark/bin/spark-submit": SUBMIT, "spark/bin/spark-class": CLASS}
        for name, text in (dict.fromkeys(files, "") | scripts).items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
            (place / name).chmod(0o700)
        self.environment = {**os.environ, "SPARK_HOME": str(self.spark), "JAVA_HOME": str(self.java)}

    def launch(self, *, enabled: bool = True) -> DriverLaunch:
        """Return how a driver is started."""
        call = [str(self.spark / "bin" / "spark-submit"), "job.py"]
        return driver_launch(call, self.environment, self.store, enabled=enabled)

    def rewrite(self, old: str, new: str) -> None:
        """Let Spark's script give the JVM something else."""
        script = self.spark / "bin" / "spark-class"
        script.write_text(script.read_text().replace(old, new))

    def make(self, resources: tuple[str, ...] = ()) -> Path:
        """Make the archive that a driver lacks.

        :param resources: Files in its jars.
        """
        training = self.launch().training
        assert training is not None
        with self.store.training() as made:
            assert made is not None
            made.write_bytes(CONTENT)
            note = ArchiveNote(
                key=training.key,
                length=len(CONTENT),
                sha256=hashlib.sha256(CONTENT).hexdigest(),
                java="java",
                spark="4.2.0",
                seconds=1.0,
                made_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
                resources=resources,
            )
            self.store.publish(made, note)
        return self.store.path(training.key)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_the_first_driver_has_no_archive_and_makes_one(host: Host) -> None:
    launch = host.launch()

    assert (launch.archive, launch.reason, launch.environment[ARCHIVE_VARIABLE]) == (None, NOT_MADE, NOT_MADE)
    assert launch.training is not None


def test_a_driver_maps_the_archive_of_its_host(host: Host) -> None:
    path = host.make()

    launch = host.launch()

    assert f"-XX:SharedArchiveFile={path}" in launch.words
    assert (launch.archive, launch.environment[ARCHIVE_VARIABLE]) == (path.stem, "used")


def test_a_jar_that_the_class_path_has_twice_is_in_it_once(host: Host) -> None:
    jar = f"{host.spark}/jars/a.jar"
    host.rewrite("-cp ", f"-cp {jar}:")
    path = host.make()

    launch = host.launch()

    assert launch.archive == path.stem
    assert launch.words[launch.words.index("-cp") + 1].split(":").count(jar) == 1


def test_an_archive_that_the_jvm_has_not_mapped_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent of this process is no such JVM."""
    monkeypatch.setenv(ARCHIVE_VARIABLE, "used")

    assert class_archive() == NOT_MAPPED


def test_a_java_without_an_archive_gets_none(host: Host) -> None:
    (host.java / "lib" / "server" / "classes.jsa").unlink()

    launch = host.launch()

    assert launch.reason == f"the Java in {host.java} has no archive of its classes (java -Xshare:dump)"
    assert launch.training is None


@pytest.mark.parametrize(
    "option", ["-javaagent:/agent.jar", "-XX:SharedArchiveFile=/own.jsa", "-XX:AOTCache=/own.aot", "-Xshare:off"]
)
@pytest.mark.parametrize("place", ["the command", "a variable"])
def test_an_option_of_the_user_has_precedence(host: Host, option: str, place: str) -> None:
    host.make()
    if place == "the command":
        host.rewrite("bin/java", f"bin/java {option}")
    else:
        host.environment["JAVA_TOOL_OPTIONS"] = f"-Dother=1 {option}"

    launch = host.launch()

    assert launch.reason.startswith("the JVM has the option ")
    assert launch.reason.removeprefix("the JVM has the option ") in option
    assert (launch.archive, launch.training) == (None, None)


@pytest.mark.parametrize(("heap", "reason"), [("32g", "the heap has 32 GiB or more"), ("31g", NOT_MADE)])
def test_a_heap_with_larger_references_gets_none(host: Host, heap: str, reason: str) -> None:
    host.rewrite("bin/java", f"bin/java -Xmx{heap}")

    assert host.launch().reason == reason


def test_a_folder_before_the_jars_keeps_its_precedence(host: Host) -> None:
    first = host.spark / "first"
    first.mkdir()
    (first / "application.conf").write_text("")
    host.rewrite('-cp "', f'-cp "{first}:')

    assert host.launch().reason == f"the folder {first} of the class path precedes its jars"


def test_a_file_of_the_conf_folder_is_hidden_by_no_jar(host: Host) -> None:
    conf = host.spark / "conf"
    conf.mkdir()
    (conf / "log4j2.properties").write_text("")
    host.environment["SPARK_CONF_DIR"] = str(conf)
    host.make(resources=("log4j2.properties",))

    launch = host.launch()

    assert launch.reason == "a jar would hide log4j2.properties of the conf folder"
    assert launch.archive is None


def test_a_job_switches_its_archive_off(host: Host) -> None:
    host.make()

    launch = host.launch(enabled=False)

    assert (launch.reason, launch.archive, launch.training) == ("class_archive is off", None, None)


def test_another_archive_of_java_itself_needs_another_one_of_spark(host: Host) -> None:
    host.make()
    (host.java / "lib" / "server" / "classes.jsa").write_text("made again")

    assert host.launch().reason == NOT_MADE


def test_a_damaged_archive_is_removed_and_not_made_again_at_once(host: Host) -> None:
    path = host.make()
    path.chmod(0o600)
    path.write_bytes(CONTENT[:-1])

    first, second = host.launch(), host.launch()

    assert first.archive is None
    assert first.reason == second.reason == f"the class archive {path} is damaged"
    assert second.training is None
    assert not path.exists()
