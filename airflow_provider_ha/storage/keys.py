"""Keys of all objects in storage: construction, validation, and conversion to paths.

Keys are relative to the cluster's part of the storage root. Names that writers may race for contain the epoch.

Invariant: the content of ZooKeeper and payloads is untrusted. A key must be a directory of the record's job, below the
work root and without a symbolic link in its path; otherwise it is refused before a read, rename or removal.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.errors import ConfigurationError, RecordCorruptError, StorageUnavailableError
from airflow_provider_ha.names import check_job_id, check_name, check_query, check_savepoint_id


def check_key(key: str) -> str:
    """Return *key* if it is a key of this package: its names do not begin with a dot, as unfinished files do.

    :raises ConfigurationError: *key* is empty, absolute, or has an empty, dotted or control-character segment.
    """
    segments = key.split("/")
    if any(not segment or segment.startswith(".") or not segment.isprintable() for segment in segments):
        raise ConfigurationError(
            f"storage key {key!r} is not a relative path of plain names",
            next_step="Use names that do not begin with a dot, with single slashes between them",
        )
    return key


def check_object_key(key: str) -> str:
    """Return *key* if it names an object below the root of a store; its names may begin with a dot.

    :raises ConfigurationError: *key* is empty, absolute, or has an empty, relative or control-character segment.
    """
    segments = key.split("/")
    if not {"", ".", ".."}.isdisjoint(segments) or not key.isprintable():
        raise ConfigurationError(
            f"key {key!r} names no object below the root of a store", next_step="Use names with single slashes between"
        )
    return key


def check_prefix(prefix: str, *, directory: bool = False) -> str:
    """Return *prefix* if a listing by it stays below the root: empty, or the beginning of a valid key.

    :param directory: Whether only a prefix with a final slash is valid.
    :raises ConfigurationError: *prefix* is not valid.
    """
    if prefix:
        check_object_key(prefix.removesuffix("/"))
        if directory and not prefix.endswith("/"):
            raise ConfigurationError(f"prefix {prefix!r} has no final slash", next_step="Add it")
    return prefix


def resolve_key(root: Path, key: str, *, inside: tuple[str, ...], source: str) -> Path:
    """Return the path of *key*.

    :param root: Root of all keys of directories.
    :param key: Key from a record.
    :param inside: Prefixes with a final slash; the key is a prefix and exactly one name.
    :param source: Location of the record, for the error: ``"znode /spark-ha/default/flights/generation"``.
    :raises RecordCorruptError: The key leads anywhere else.
    :raises StorageUnavailableError: The path to it could not be checked.
    """
    check_inside(key, inside=inside, source=source)
    refuse_links(root, key, source=source)
    return root / key


def check_inside(key: str, *, inside: tuple[str, ...], source: str) -> str:
    """Return *key* if it names a single directory in *inside*.

    :raises RecordCorruptError: *key* leads anywhere else.
    """
    try:
        check_key(key)
    except ConfigurationError as error:
        raise _refused(source, error.message) from None
    if not any(key.startswith(prefix) and "/" not in key.removeprefix(prefix) for prefix in inside):
        raise _refused(source, f"{key!r} is not a directory in {' or '.join(inside)}")
    return key


def refuse_links(root: Path, key: str, *, source: str) -> None:
    """Refuse a key that leads through a symbolic link, which could end anywhere.

    :param source: Location of the key, for the error.
    :raises RecordCorruptError: *key* leads through a link.
    :raises StorageUnavailableError: The path to it could not be inspected.
    """
    path = root
    for segment in key.split("/"):
        path /= segment
        if _is_link(path):  # guard: links-on-the-way-are-followed
            raise _refused(source, f"{path} on the way to {key!r} is a symbolic link")


def _is_link(path: Path) -> bool:
    try:
        return stat.S_ISLNK(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StorageUnavailableError(
            f"{path} could not be inspected: {error.strerror or error}",
            next_step="Check the file system, and the permission to read there",
        ) from error


def _refused(source: str, reason: str) -> RecordCorruptError:
    return RecordCorruptError(
        f"{source} is refused: {reason}",
        next_step="Find its writer (see the page about the security model), correct the record, and try again; its "
        "place was neither read nor changed",
    )


JOBS = "jobs/"
"""Prefix of the jobs."""

STANDBY = "standby"  # in the place of the attempt in the name of a directory
BLOBS = "blobs/sha256/"
"""Prefix of the content-addressed blobs."""

BLOB_COLLECTION = "blobs/last-collection"
"""Key of an object whose time is that of the last collection of blobs."""


_DIRECTORY = re.compile("e([0-9]+)-")
_LIVE, _EPOCH, _QUERY = 3, 4, 5  # segments of jobs/<job>/live, of a directory in it, and of a query in that


def working_directory_of(key: str) -> str | None:
    """Return the working directory that a key names or is inside; ``None`` for any other key."""
    return _of_live(key, _EPOCH)


def query_directory_of(key: str) -> str | None:
    """Return the query directory that a key names or is inside; ``None`` for any other key."""
    return _of_live(key, _QUERY)


def job_of(key: str) -> str | None:
    """Return the id of the job that a key belongs to; ``None`` for any other key."""
    parts = key.split("/")
    return parts[1] if len(parts) > 1 and f"{parts[0]}/" == JOBS else None


def epoch_of(key: str) -> int:
    """Return the epoch of the working directory of a key; 0 for any other key."""
    found = _DIRECTORY.match((working_directory_of(key) or "").rpartition("/")[2])
    return int(found[1]) if found else 0


def _of_live(key: str, segments: int) -> str | None:
    parts = key.split("/")
    is_live = len(parts) >= segments and f"{parts[0]}/" == JOBS and parts[_LIVE - 1] == "live"
    return "/".join(parts[:segments]) if is_live else None


def blob(sha256: str) -> str:
    """Key of a content-addressed blob."""
    return f"{BLOBS}{sha256[:2]}/{sha256}"


@dataclass(frozen=True, slots=True)
class JobKeys:
    """Keys of a job. Directories are keys without a final slash."""

    job_id: str

    def __post_init__(self) -> None:
        check_job_id(self.job_id)

    @property
    def base(self) -> str:
        """Key of the directory with all objects of the job."""
        return f"{JOBS}{self.job_id}"

    @property
    def payloads(self) -> str:
        """Prefix of the checkpoint payloads: self-describing, listed when ZooKeeper's content is gone."""
        return f"{self.base}/checkpoints/payloads/"

    def payload(self, number: int, epoch: int) -> str:
        """Payload of a checkpoint."""
        return f"{self.payloads}{number:019d}-e{epoch}.json"

    @property
    def archives(self) -> str:
        """Prefix of the archives: each has the records of many payloads without pointers."""
        return f"{self.base}/checkpoints/archives/"

    @property
    def archive_heads(self) -> str:
        """Prefix of the archives' heads (indexes)."""
        return f"{self.archives}heads/"

    def archive_head(self, name: str) -> str:
        """Head of an archive: its index; written after the data, removed before it."""
        return f"{self.archive_heads}{name}.json"

    @property
    def archive_data(self) -> str:
        """Prefix of the data of the archives."""
        return f"{self.archives}data/"

    def archive(self, name: str) -> str:
        """Data of an archive."""
        return f"{self.archive_data}{name}.json"

    @property
    def removed_pointers(self) -> str:
        """Prefix of the bytes of unreadable pointers that a person has removed."""
        return f"{self.base}/checkpoints/removed-pointers/"

    def removed_pointer(self, number: int, digest: str) -> str:
        """Bytes of a removed pointer; *digest* is their digest."""
        return f"{self.removed_pointers}{number:019d}-{digest[:16]}.json"

    def pin(self, number: int, epoch: int) -> str:
        """Directory of a pinned checkpoint: one directory per query below it."""
        return f"{self.pins}{number:019d}-e{epoch}"

    @property
    def live(self) -> str:
        """Prefix of the working directories."""
        return f"{self.base}/live/"

    @property
    def pins(self) -> str:
        """Prefix of the pinned checkpoints."""
        return f"{self.base}/checkpoints/pins/"

    @property
    def savepoints(self) -> str:
        """Prefix of the savepoints."""
        return f"{self.base}/savepoints/"

    @property
    def removable(self) -> tuple[str, ...]:
        """Prefixes whose direct children are removed as a whole: payload, pin, savepoint."""
        return (self.payloads, self.pins, self.savepoints)

    @property
    def restorable(self) -> tuple[str, ...]:
        """Prefixes whose direct children are directories that a restore may read."""
        return (self.live, self.pins, self.savepoints)

    def savepoint(self, savepoint_id: str) -> str:
        """Directory of a savepoint: one directory per query, and ``manifest.json``."""
        return f"{self.savepoints}{check_savepoint_id(savepoint_id)}"

    def working_directory(self, epoch: int, unique: str) -> str:
        """Working directory of an epoch: one directory per query below it."""
        return f"{self.live}e{epoch}-{unique}"

    @property
    def notes(self) -> str:
        """Prefix of the notes about the inputs of fenced functions."""
        return f"{self.base}/given/"

    def given(self, query: str) -> str:
        """Directory of the notes about the input of a query's fenced function, one file per epoch."""
        return f"{self.notes}{check_query(query)}"

    @property
    def submissions(self) -> str:
        """Prefix of the submissions' own files."""
        return f"{self.base}/submissions/"

    def application(self, run: int, attempt: int) -> str:
        """Directory of a submission's files: logs, downloaded artifacts."""
        return f"{self.submissions}{run}-{attempt}"

    def standby(self, run: int, standby_id: str) -> str:
        """Directory of the files of a standby driver, also after its promotion."""
        return f"{self.submissions}{run}-{STANDBY}-{check_name(standby_id, 'standby id')}"

    @property
    def drills(self) -> str:
        """Prefix of the records of restore drills."""
        return f"{self.base}/drills/"

    def drill(self, drill_id: str) -> str:
        """Record of a restore drill."""
        return f"{self.drills}{check_name(drill_id, 'drill id')}.json"

    @property
    def last_verification(self) -> str:
        """Result of the last verification of the job."""
        return f"{self.base}/verification.json"

    @property
    def progress_history(self) -> str:
        """Prefix of the history of batch times and inputs."""
        return f"{self.base}/progress/"

    def progress(self, period: str, epoch: int) -> str:
        """History of a period, as recorded by the leader of an epoch."""
        return f"{self.progress_history}{check_name(period, 'period')}-e{epoch}.json"

    @property
    def journals(self) -> str:
        """Prefix of copies of the znodes of the job's runs, read when ZooKeeper's content is gone."""
        return f"{self.base}/journal/"

    def journal(self, kind: str, name: str) -> str:
        """Entry of the journal; *name* identifies its writer."""
        return f"{self.journals}{kind}/{name}.json"
