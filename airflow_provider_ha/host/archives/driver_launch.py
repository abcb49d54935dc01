"""Start of a driver's JVM: by its own command, with a class archive where one fits, else by spark-submit.

A reason against an archive is never an error: the driver starts without it, and its record has the reason.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.host.archives.archive_store import ArchiveStore
from airflow_provider_ha.host.archives.jvm_command import (
    NO_SCRIPT,
    JvmCommand,
    archive_key,
    archived_class_path,
    contradiction,
    hidden_files,
    request_command,
)
from airflow_provider_ha.host.archives.training import GUARD, QUIET, Training
from airflow_provider_ha.jobs.drivers.driver_spec import ARCHIVE_USED, ARCHIVE_VARIABLE
from airflow_provider_ha.jobs.drivers.spark_release import release_of


log = logging.getLogger(__name__)
_LONGEST = 300  # characters of a reason: it may quote Spark's scripts
NOT_MADE = "no archive of this Spark was made on this host yet"
SWITCHED_OFF = "class_archive is off"


@dataclass(frozen=True, slots=True)
class DriverLaunch:
    """How a driver's JVM is started.

    :param archive: Key of the archive that it maps; ``None`` without one.
    :param reason: Why it maps none; empty if it does.
    :param training: What makes the archive that it lacks; ``None`` if none can be used.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]
    archive: str | None = None
    reason: str = ""
    training: Training | None = None


def driver_launch(
    spark_submit: Sequence[str], environment: Mapping[str, str], store: ArchiveStore, *, enabled: bool
) -> DriverLaunch:
    """Return how the JVM of a call of spark-submit is started. Starts nothing.

    :param spark_submit: The call; its last word is the script.
    :param enabled: Whether the job uses archives.
    """
    *options, script = spark_submit
    if not enabled:
        return _plain(spark_submit, environment, SWITCHED_OFF)
    try:
        command = request_command([*options, NO_SCRIPT], environment).with_script(script)
    except ConfigurationError as error:
        return _plain(spark_submit, environment, error.message)
    try:
        return _with_archive(command, store, Path(environment["SPARK_HOME"]))
    except (HaError, OSError) as error:  # no archive is a reason against a start
        return _plain(command.words, command.environment, getattr(error, "message", str(error)))


def _with_archive(command: JvmCommand, store: ArchiveStore, spark_home: Path) -> DriverLaunch:
    if reason := contradiction(command):
        raise ConfigurationError(reason)
    path = archived_class_path(command)
    key = archive_key(command, path.jars)
    archive = store.find(key)
    if archive is None:
        if (failed := store.failure(key)) is not None:
            raise ConfigurationError(failed.reason)
        spark = ".".join(map(str, release_of(spark_home) or ()))
        training = Training(key, spark_home, command.java, path, spark)
        return _plain(command.words, command.environment, NOT_MADE, training)
    if hidden := hidden_files(path.conf, archive.note.resources):
        raise ConfigurationError(f"a jar would hide {hidden[0]} of the conf folder")
    try:
        store.verify(archive)
    except ConfigurationError as error:
        with suppress(OSError):  # a read-only image
            store.set_aside(key, error.message)
        raise
    mapped = [f"-XX:SharedArchiveFile={archive.path}", "-XX:+VerifySharedSpaces", *QUIET]
    words = command.with_class_path(path.entries, mapped).words
    return DriverLaunch(words, {**command.environment, ARCHIVE_VARIABLE: ARCHIVE_USED}, archive=key)


def _plain(
    words: Sequence[str], environment: Mapping[str, str], reason: str, training: Training | None = None
) -> DriverLaunch:
    reason = reason[:_LONGEST]
    log.info("the driver's JVM uses no class archive: %s", reason)
    return DriverLaunch(tuple(words), {**environment, ARCHIVE_VARIABLE: reason}, reason=reason, training=training)


def start_training(training: Training, store: ArchiveStore, directory: Path) -> bool:
    """Start to make an archive, in a process that ends with this thread's process. Raises nothing.

    :param directory: Private directory for its request.
    :returns: ``False`` on a busy host, where a process of the lowest priority would not be over in time: try again.
    """
    if os.getloadavg()[0] >= (os.cpu_count() or 1):
        return False
    request = directory / "class-archive.json"
    module = "airflow_provider_ha.host.archives.training"
    command = [sys.executable, "-I", "-S", str(GUARD), str(os.getpid()), sys.executable, "-m", module, str(request)]
    try:
        request.write_text(f"{store.directory}\n{training.to_json()}", encoding="utf-8")
        subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:  # a full disk, no room for a process: the job runs without an archive
        log.warning("no class archive is made: %s", error)
    return True
