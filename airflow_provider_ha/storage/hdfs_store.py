"""Objects as files of HDFS, over WebHDFS.

A file on HDFS is visible while it grows. So each file is first written in the same directory under a name unique to the
attempt, and then renamed: with ``NONE`` if the target must not exist yet, with ``OVERWRITE`` if it may. The rename is
atomic.

Invariant: the outcome of a rename whose response was lost is not guessed. Only this attempt moves its prepared file, so
that file is missing exactly when an earlier request was executed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from getpass import getuser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HdfsOptions
from airflow_provider_ha.errors import (
    ConfigurationError,
    ObjectExistsError,
    ObjectMissingError,
    StorageError,
    StorageUnavailableError,
)
from airflow_provider_ha.storage._webhdfs import (
    ABSENT,
    EXISTS,
    NOT_EMPTY,
    HdfsLimits,
    HdfsRefusalError,
    WebHdfs,
    unavailable,
)
from airflow_provider_ha.storage.durable import PREPARED, make_directories, replace_file
from airflow_provider_ha.storage.keys import check_object_key, check_prefix
from airflow_provider_ha.storage.object_store import EPOCH, ObjectInfo
from airflow_provider_ha.storage.outage import outages
from airflow_provider_ha.storage.roots import probe
from airflow_provider_ha.uris import split


WEB_PORT = 9870
"""Default port of a name node's web server."""
_LISTERS = 8


class HdfsStore:
    """``ObjectStore`` on HDFS. Thread-safe; not across a fork.

    :param uri: ``hdfs://namenode:8020/path``.
    :param options: Web servers of its name nodes, and the user of the requests.
    :param limits: Limits of a call.
    :raises ConfigurationError: The URI has no name node.
    """

    def __init__(self, uri: str, options: HdfsOptions, limits: HdfsLimits | None = None) -> None:
        place = split(uri)
        host = urlsplit(f"//{place.authority}").hostname
        if not host:
            raise ConfigurationError(f"{uri!r} names no name node", next_step="Write hdfs://namenode:8020/path")
        self._uri = uri.rstrip("/")
        self._root = place.path.rstrip("/")
        web = options.namenodes or (f"http://{host}:{WEB_PORT}",)
        user = options.user or os.environ.get("HADOOP_USER_NAME") or getuser()
        self._web = WebHdfs(web, user, limits or HdfsLimits(), ca_file=options.ca_file)

    @property
    def uri(self) -> str:
        """URI of the root."""
        return self._uri

    def list(self, prefix: str, *, markers: bool = False) -> Iterator[ObjectInfo]:  # noqa: ARG002  # has real directories
        """Yield every file whose key begins with *prefix*, in the order of their keys; a request per directory.

        :raises StorageUnavailableError: A directory could not be listed.
        """
        yield from (file for file in self._below(prefix) if not _is_prepared(file))

    def prepared(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield files in preparation, also of dead writers.

        :raises StorageUnavailableError: A directory could not be listed.
        """
        yield from filter(_is_prepared, self._below(prefix))

    def names(self, prefix: str) -> Sequence[str]:
        """Return the names directly below *prefix*, sorted.

        :raises StorageUnavailableError: They could not be listed.
        """
        found = (str(status["pathSuffix"]) for status in self._statuses(check_prefix(prefix, directory=True)))
        return sorted(name for name in found if not name.startswith(PREPARED))

    def info(self, key: str) -> ObjectInfo | None:
        """Return the metadata of a file; ``None`` when it is missing or a directory.

        :raises StorageUnavailableError: It could not be read.
        """
        try:
            with self._translated(key, "looked up"):
                status = self._web.ask("GET", self._path(key), "GETFILESTATUS")["FileStatus"]
        except ObjectMissingError:
            return None
        return _stored(key, status) if status["type"] == "FILE" else None

    def read(self, key: str) -> bytes:
        """Return the bytes of a file.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read.
        """
        with self._translated(key, "read"):
            return self._web.get(self._path(key))

    def read_range(self, item: ObjectInfo, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset*; fewer at the end of the file.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read, or was replaced since it was listed.
        """
        wanted = min(length, item.size - offset)
        if wanted <= 0:
            return b""
        data, reason = b"", None
        try:
            with self._translated(item.key, "read"):
                data = self._web.get(self._path(item.key), offset, wanted)
        except StorageUnavailableError as error:
            reason = error  # a file that became shorter gives the same answer
        found = self.info(item.key)
        if found is None:
            raise self._missing(item.key)
        if found != item:
            raise StorageUnavailableError(
                f"file {item.key!r} in {self.uri} was replaced while it was read", next_step="Try again"
            )
        if reason is not None:
            raise reason
        return data

    def create(self, key: str, data: bytes, *, writer: str = "") -> None:  # noqa: ARG002  # a rename shows its own outcome
        """Write a file that must not exist yet.

        :raises ObjectExistsError: It exists.
        :raises StorageUnavailableError: The outcome is unknown.
        """
        try:
            self._written(key, data, "NONE", "created")
        except _ExistsError:
            raise ObjectExistsError(f"file {key!r} exists already in {self.uri}") from None

    def write(self, key: str, data: bytes) -> None:
        """Write a file, replacing an existing one.

        :raises StorageUnavailableError: The outcome is unknown.
        """
        self._written(key, data, "OVERWRITE", "written")

    def upload(self, key: str, source: Path) -> None:
        """Write a file from a local one, replacing an existing one.

        :raises StorageUnavailableError: The outcome is unknown.
        """
        self._written(key, source, "OVERWRITE", f"written from {source}")

    def download(self, key: str, target: Path) -> None:
        """Copy a file to a local one.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read, or *target* could not be written.
        """
        data = self.read(key)
        with outages(f"written from file {key!r} in {self.uri}", target):
            make_directories(target.parent)
            replace_file(target, data)

    def touch(self, key: str) -> None:
        """Renew the time of a file by writing it again: ``SETTIMES`` would take this host's clock.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: The outcome is unknown.
        """
        self.write(key, self.read(key))

    def delete(self, key: str) -> None:
        """Remove a file, and the directories that it leaves empty; a missing one is not an error.

        :raises StorageUnavailableError: The outcome is unknown.
        """
        path = self._path(key)
        with self._translated(key, "removed"):
            gone = self._web.ask("DELETE", path, "DELETE", recursive="false")
            while gone.get("boolean") and (path := path.rpartition("/")[0]) != self._root:
                gone = self._remove_empty(path)

    def check_writable(self) -> None:
        """Write, read and remove a probe.

        :raises StorageUnavailableError: With the reason and the next step.
        """
        probe(self)

    def _remove_empty(self, path: str) -> Any:
        try:
            return self._web.ask("DELETE", path, "DELETE", recursive="false")
        except HdfsRefusalError as error:
            if error.refusal.kind in NOT_EMPTY:
                return {}
            raise

    def _written(self, key: str, data: bytes | Path, option: str, verb: str) -> None:
        """Write a file under a temporary name in the same directory and rename it.

        :raises _ExistsError: The file exists, and *option* does not replace it.
        """
        path = self._path(key)
        prepared = f"{path.rpartition('/')[0]}/{PREPARED}{new_id()}"
        with self._translated(key, verb):
            try:
                self._web.put(prepared, data)
                self._rename(prepared, path, option)
            except BaseException:
                with suppress(HdfsRefusalError, StorageError):
                    self._web.ask("DELETE", prepared, "DELETE", recursive="false")
                raise

    def _rename(self, prepared: str, path: str, option: str) -> None:
        def moved(error: HdfsRefusalError) -> bool:
            return error.refusal.kind in ABSENT

        answer = self._web.ask_once_done("PUT", prepared, "RENAME", done=moved, destination=path, renameoptions=option)
        if answer:
            raise ConfigurationError(
                f"the web server of {self.uri} renames without options: it is not a name node",
                next_step="Name the name nodes' own web servers as hdfs_namenodes, not an HttpFS gateway",
            )

    def _below(self, prefix: str) -> Sequence[ObjectInfo]:
        """Return the files whose keys begin with *prefix*, level by level, in the order of their keys."""
        found: list[ObjectInfo] = []
        level = [check_prefix(prefix)[: prefix.rfind("/") + 1]]
        with ThreadPoolExecutor(_LISTERS) as pool:
            while level:
                below = []
                for place, statuses in zip(level, pool.map(self._statuses, level), strict=True):
                    for status in statuses:
                        key = f"{place}{status['pathSuffix']}"
                        if status["type"] != "DIRECTORY" and key.startswith(prefix):
                            found.append(_stored(key, status))
                        elif status["type"] == "DIRECTORY" and f"{key}/".startswith(prefix):
                            below.append(f"{key}/")
                level = below
        return sorted(found, key=lambda file: file.key)

    def _statuses(self, prefix: str) -> Sequence[Any]:
        """Return the entries of a directory; empty when it is missing or a file."""
        path = f"{self._root}/{prefix}".rstrip("/") or "/"
        try:
            with self._translated(prefix or ".", "listed"):
                found = self._web.ask("GET", path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        except ObjectMissingError:
            return []
        return [status for status in found if status["pathSuffix"]]

    def _path(self, key: str) -> str:
        return f"{self._root}/{check_object_key(key)}"

    def _missing(self, key: str) -> ObjectMissingError:
        return ObjectMissingError(f"file {key!r} is not in {self.uri}")

    @contextmanager
    def _translated(self, key: str, verb: str) -> Iterator[None]:
        try:
            yield
        except HdfsRefusalError as error:
            if error.refusal.kind in ABSENT:
                raise self._missing(key) from error
            if error.refusal.kind in EXISTS:
                raise _ExistsError from error
            raise unavailable(f"file {key!r} in {self.uri} could not be {verb}", error.refusal) from error
        except (KeyError, TypeError) as error:
            raise StorageUnavailableError(
                f"file {key!r} in {self.uri} could not be {verb}: the answer is not that of WebHDFS",
                next_step="Check hdfs_namenodes",
            ) from error


class _ExistsError(Exception):
    """Rename that found a file or a directory."""


def _stored(key: str, status: Any) -> ObjectInfo:
    return ObjectInfo(key, int(status["length"]), EPOCH + timedelta(milliseconds=int(status["modificationTime"])))


def _is_prepared(file: ObjectInfo) -> bool:
    return file.key.rpartition("/")[2].startswith(PREPARED)
