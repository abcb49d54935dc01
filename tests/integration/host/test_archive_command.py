"""``spark-ha archive``: a class archive that a host or an image has before its first driver."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_provider_ha.host.archives.archive_store import ArchiveStore
from airflow_provider_ha.host.archives.driver_launch import DriverLaunch, driver_launch
from airflow_provider_ha.host.archives.jvm_command import MAIN_CLASS
from airflow_provider_ha.host.java import find_java
from airflow_provider_ha.jobs.drivers.spark_release import find_spark_home
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.full_disk import small_disk


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
SITE = "<configuration><property><name>fs.defaultFS</name><value>hdfs://127.0.0.1:{port}</value></property></configuration>"


@dataclass
class Visitors:
    """A server that counts its visitors."""

    port: int = 0
    count: int = 0


@contextmanager
def server() -> Iterator[Visitors]:
    """Count the connections to a port of this host."""
    visitors = Visitors()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        visitors.port = listening.getsockname()[1]

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                visitors.count += 1
                connection.close()

        threading.Thread(target=accept, daemon=True).start()
        yield visitors
        listening.shutdown(socket.SHUT_RDWR)


@dataclass
class Host:
    """A host with a conf of Spark that names a server."""

    place: Path
    visitors: Visitors
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the command: ZooKeeper does not exist."""
        inherited = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
        return inherited | {
            "SPARK_HA_ZOOKEEPER": "127.0.0.1:9",
            "SPARK_HA_STORAGE_ROOT": f"file://{self.place}/storage",
            "SPARK_CONF_DIR": str(self.place / "conf"),
            "HADOOP_CONF_DIR": str(self.place / "hadoop"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            **self.variables,
        }

    def launch(self, archives: Path) -> DriverLaunch:
        """Return how a driver's JVM is started."""
        home = find_spark_home(None)
        call = [str(home / "bin" / "spark-submit"), "--properties-file", "/dev/null", "script.py"]
        environment = {**self.environment, "SPARK_HOME": str(home)}
        return driver_launch(call, environment, ArchiveStore(archives), enabled=True)

    def start(self, *words: str, home: Path | None = None, name: str | None = None) -> subprocess.Popen[str]:
        """Start ``spark-ha archive``.

        :param home: Home of the drivers in place of the storage root.
        :param name: Another name of this host.
        """
        environment = self.environment | ({"SPARK_HA_HOME_ROOT": f"file://{home}"} if home is not None else {})
        command = [str(Path(sys.executable).with_name("spark-ha")), "archive", *words, "--json"]
        if name is not None:
            command = ["unshare", "--uts", "--", "sh", "-c", 'hostname "$0" && exec "$@"', name, *command]
        return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *words: str) -> dict[str, Any]:
        """Run ``spark-ha archive`` and return its document."""
        process = self.start(*words)
        answer, error = process.communicate()
        assert process.returncode == 0, error
        document: dict[str, Any] = json.loads(answer)
        return document


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    place = tmp_path_factory.mktemp("host")
    with server() as visitors:
        for name in ("conf", "hadoop"):
            (place / name).mkdir()
        (place / "hadoop" / "core-site.xml").write_text(SITE.format(port=visitors.port))
        logs = f"hdfs://127.0.0.1:{visitors.port}/logs"
        defaults = f"spark.eventLog.enabled true\nspark.eventLog.dir {logs}\nspark.driver.memory 1g\n"
        (place / "conf" / "spark-defaults.conf").write_text(defaults)
        yield Host(place, visitors)


def trainings(host: Host) -> list[psutil.Process]:
    """Return the processes that a training has started."""
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if str(host.place) in words and "training_program" in words:
            found.append(process)
    return found


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.2, 3.0, 15.0])
def test_a_killed_training_leaves_no_process_and_no_lock(host: Host, seconds: float) -> None:
    process = host.start("make")
    jvm = wait_until(lambda: trainings(host), timeout=120, what="the JVM of the training")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(seconds)

    process.send_signal(signal.SIGKILL)
    process.communicate()

    wait_until(lambda: not any(each.is_running() for each in jvm), timeout=30, what="the end of its processes")
    assert host.run("list")["archives"] == []


@pytest.mark.hours
@pytest.mark.timeout(3600)
def test_a_training_that_is_killed_at_any_moment_leaves_nothing(host: Host) -> None:
    """Killed after 1 s, 4 s, 7 s and so on, until one ends."""
    archives = host.place / "any-moment"
    for second in count(1, 3):
        process = host.start("make", home=archives)
        try:
            process.communicate(timeout=second)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        else:
            break
        wait_until(lambda: not trainings(host), timeout=30, what="the end of its processes")
        assert not list(archives.rglob("*.jsa")), f"after {second} s"
    (made,) = archives.rglob("*.jsa")

    assert process.returncode == 0
    assert second > 5
    assert not [path for path in made.parent.iterdir() if path.suffix == ".tmp"]


@pytest.mark.long
def test_a_disk_that_is_too_small_gets_no_file_and_its_reason_is_known(host: Host) -> None:
    with small_disk(host.place / "disk", size="32m") as disk:
        process = host.start("make", home=disk.path)
        answer, _ = process.communicate()
        left = [path.name for path in disk.path.rglob("*") if path.suffix in (".jsa", ".tmp", ".json")]

    assert process.returncode == 64
    assert "the training" in json.loads(answer)["error"]["message"]
    assert left == []


@pytest.mark.long
def test_an_archive_is_made_without_a_connection_listed_and_removed(host: Host) -> None:
    made = host.run("make")

    again = host.run("make")
    listed = host.run("list")
    removed = host.run("remove")

    assert again["made_at"] == made["made_at"]
    assert [each["key"] for each in listed["archives"]] == [made["key"]]
    assert removed["removed"] == [made["key"]]
    assert host.run("list")["archives"] == []
    assert host.visitors.count == 0


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a process another host name")
def test_two_hosts_with_one_home_make_one_archive(host: Host) -> None:
    host.run("remove")
    both = [host.start("make", name=name) for name in ("worker", "worker.rack")]
    wait_until(lambda: len(trainings(host)) == len(both), timeout=120, what="both trainings at the same moment")

    answers = [process.communicate() for process in both]

    assert [process.returncode for process in both] == [0, 0], answers
    first, second = (json.loads(answer)["key"] for answer, _ in answers)
    [archive] = host.run("list")["archives"]
    assert first == second == archive["key"]
    assert host.run("make")["made_at"] == archive["made_at"]  # it agrees with its note
    assert not list(Path(archive["path"]).parent.glob("*.tmp"))


def default_java() -> Path:
    """Return the directory of the Java that the tests use."""
    return Path(os.path.realpath(find_java())).parents[1]


def shared_classes(launch: DriverLaunch) -> int:
    """Start the JVM of a driver for its release only; return how many classes come from the archive of Spark."""
    before_main = launch.words[: launch.words.index(MAIN_CLASS)]
    words = [before_main[0], "-Xshare:on", "-Xlog:class+load", *before_main[1:], MAIN_CLASS, "--version"]
    done = subprocess.run(words, env=dict(launch.environment), capture_output=True, text=True, check=True)
    return done.stdout.count("shared objects file (top)")


def other_java(release: int) -> Path:
    """Return the directory of another Java; the variable ``SPARK_HA_TEST_JAVA_<release>`` can name it."""
    named = os.environ.get(f"SPARK_HA_TEST_JAVA_{release}")
    found = Path(named) if named else next(Path("/usr/lib/jvm").glob(f"*-{release}-*"), None)
    if found is None:
        pytest.skip(f"this machine has no Java {release}")
    return Path(os.path.realpath(found))


@pytest.mark.long
@pytest.mark.parametrize("release", [21, 25])
def test_an_archive_of_a_newer_java_is_made_and_mapped(host: Host, release: int) -> None:
    home = other_java(release)
    there = replace(host, variables={"JAVA_HOME": str(home)})

    made = there.run("make")

    assert Path(made["java"]).resolve() == home / "bin" / "java"
    assert shared_classes(there.launch(Path(made["path"]).parent)) > 1000


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.long
def test_a_jvm_never_maps_an_archive_with_a_lost_end_or_a_changed_bit(host: Host) -> None:
    archives = host.place / "damaged"
    process = host.start("make", home=archives)
    process.communicate()
    (path,) = archives.rglob("*.jsa")
    note = path.with_suffix(".json").read_bytes()
    whole = path.read_bytes()
    size = len(whole)
    damages = [whole[:1], whole[: size // 3], whole[:-4096], flipped(whole, 0), flipped(whole, size // 2)]

    assert shared_classes(host.launch(path.parent)) > 1000
    for content in damages:
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        path.chmod(0o400)
        path.with_suffix(".json").write_bytes(note)
        launch = host.launch(path.parent)

        assert "is damaged" in launch.reason
        assert shared_classes(launch) == 0
        ArchiveStore(path.parent).remove(path.stem)  # also the reason, which holds for a day


def test_a_java_without_an_archive_has_no_training(host: Host, tmp_path: Path) -> None:
    home = tmp_path / "java"
    shutil.copytree(default_java(), home, symlinks=True)
    for archive in (home / "lib" / "server").glob("*.jsa"):
        archive.unlink()
    process = replace(host, variables={"JAVA_HOME": str(home)}).start("make")

    answer, _ = process.communicate()

    assert process.returncode == 64
    assert "has no archive of its classes" in json.loads(answer)["error"]["message"]


def test_a_key_without_an_archive_is_a_wrong_call(host: Host) -> None:
    process = host.start("remove", "abc")

    answer, _ = process.communicate()

    assert process.returncode == 64
    assert "there is no class archive 'abc'" in json.loads(answer)["error"]["message"]


def test_a_jvm_with_options_of_the_user_gets_no_archive_and_its_reason(host: Host) -> None:
    process = host.start("make", "--conf", "spark.driver.extraJavaOptions=-Xshare:off")

    answer, _ = process.communicate()

    assert process.returncode != 0
    assert "drivers use no class archive: the JVM has the option -Xshare" in json.loads(answer)["error"]["message"]
