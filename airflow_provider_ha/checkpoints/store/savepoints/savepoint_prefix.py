"""Savepoints below a prefix of a bucket: taken from checkpoints in the same bucket, imported, read and removed.

Layout of ``s3://bucket/savepoints/NAME``::

    files-<id>/<query>/…    the files of one attempt; no other attempt writes there
    manifest.json           created last, by a conditional create; without it there is no savepoint

Invariant: the server copies the files, and only while an object still has the etag of its listing. The manifest is
created after each query was judged restorable from the copies, and names the directory of its attempt. An attempt that
ends earlier, or loses the race for the name, leaves files that no manifest names.

Invariant: a removal takes the manifest first, then the files of its attempt. It removes the files of another attempt
only when the store's clock shows that no attempt can still complete with them. A failed read removes nothing.

Invariant: no file of an archive reaches the bucket before the whole archive was unpacked on this host and matched its
manifest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.atomic import scratch_directory
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, NotAFileError
from airflow_provider_ha.checkpoints.spark.object_tree import ObjectTree, each
from airflow_provider_ha.checkpoints.spark.places import s3_uri
from airflow_provider_ha.checkpoints.store.savepoints.archive import unpack
from airflow_provider_ha.checkpoints.store.savepoints.manifest import MANIFEST, check_manifest, parse_manifest
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import Bring, SavepointSource, TornError
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_lookup import SavepointInTree
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import check
from airflow_provider_ha.clock import Clock, SystemClock, new_id
from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ConfigurationError,
    ObjectExistsError,
    ObjectMissingError,
    StorageError,
    StorageUnavailableError,
)
from airflow_provider_ha.names import check_name
from airflow_provider_ha.storage.limits import S3Limits
from airflow_provider_ha.storage.object_store import ObjectInfo
from airflow_provider_ha.storage.s3_store import S3Store
from airflow_provider_ha.uris import split


DURATION = timedelta(days=2)
"""An attempt that takes longer fails."""
ABANDONED = timedelta(days=3)
"""An attempt whose newest file is older cannot complete any more."""

_ATTEMPT = re.compile(r"files-[0-9a-f]{32}")
_WHOLE = 8 << 20  # bytes: a larger file is uploaded in parts


class SavepointPrefix:
    """The place of one savepoint, and access to its bucket.

    :param uri: ``s3://bucket/prefix/NAME``.
    :param options: S3 connection options; from the environment by default.
    :param limits: Bounds of every request.
    :raises ConfigurationError: The URI cannot name a savepoint.
    """

    def __init__(self, uri: str, options: S3Options | None = None, limits: S3Limits | None = None) -> None:
        place = split(s3_uri(uri))
        self.bucket, self.key = place.authority, place.path.strip("/")
        if not self.key:
            raise ConfigurationError(
                f"{uri!r} names no savepoint", next_step="Write s3://bucket/NAME, or s3://bucket/prefix/NAME"
            )
        check_name(self.key.rpartition("/")[2], "name of the savepoint")
        # At the root of the bucket, because the checkpoints are outside the prefix.
        self.files = S3Store(f"s3://{self.bucket}", options or S3Options.from_env(), limits)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    @property
    def manifest(self) -> str:
        """Key of the manifest."""
        return f"{self.key}/{MANIFEST}"

    def tree(self, key: str) -> ObjectTree:
        """Return a prefix of the bucket as a directory, with its own listing."""
        return ObjectTree(self.files, f"{key}/" if key else "")

    def check_free(self) -> None:
        """Check that the name is free.

        :raises ObjectExistsError: A savepoint has it.
        :raises StorageUnavailableError: The store could not be read.
        """
        if self.files.info(self.manifest) is not None:
            raise ObjectExistsError(f"savepoint {self} already exists", next_step="Choose another name")


@dataclass(frozen=True, slots=True)
class SavepointOnS3(SavepointInTree):
    """A savepoint below a prefix of a bucket.

    :param place: The directory of its attempt.
    :param at: Its place in the bucket.
    """

    place: ObjectTree
    at: SavepointPrefix

    def wrong_files(self, *, only: Container[str] | None = None) -> list[CheckpointCorruptError]:  # noqa: ARG002
        """Compare size and etag of every file with the manifest; return the mismatches in manifest order.

        A replaced object has another etag, so no byte is read.
        """
        found = ((name, _difference(self.place, name, file)) for name, file in self.savepoint.files.items())
        return [CheckpointCorruptError(name, problem) for name, problem in found if problem]

    @contextmanager
    def reader(self) -> Iterator[Bring]:
        """Yield a function that downloads one file, after all of them matched the manifest.

        :raises CheckpointCorruptError: A file differs.
        """
        for problem in self.wrong_files():
            raise problem
        with SavepointInTree.reader(self) as bring:
            yield bring

    def copies_to(self, uri: str) -> Callable[[str], object] | None:
        """Return a function with which the server copies a file to a prefix of the same bucket."""
        target = split(uri)
        if target.authority != self.at.bucket:
            return None
        prefix = target.path.strip("/")

        def copy(name: str) -> None:
            _copied(self.at.files, self.place.listed(name), f"{prefix}/{name}" if prefix else name)

        return copy


def open_savepoint(at: SavepointPrefix) -> SavepointOnS3:
    """Return a savepoint, after checking the names in its manifest: they become keys and local paths.

    :raises CheckpointMissingError: It does not exist.
    :raises CheckpointCorruptError: Its manifest is damaged, or contains names that a savepoint cannot have.
    :raises StorageUnavailableError: It could not be read.
    """
    manifest = _manifest(at)
    place = at.tree(f"{at.key}/{manifest.directory}")
    return SavepointOnS3(place, manifest.model_copy(update={"directory": ""}), str(at), at)


class PrefixDraft:
    """One attempt at a savepoint.

    :param clock: Measures its duration.
    """

    def __init__(self, at: SavepointPrefix, clock: Clock) -> None:
        self._at = at
        self._id = new_id()
        self._directory = f"files-{self._id}"
        self._clock = clock
        self._begun = clock.lease_time()

    def bring(self, files: Iterable[tuple[str, ObjectTree, str]]) -> dict[str, ManifestFile]:
        """Let the server copy the files."""
        # Hidden checksums belong to Hadoop on a disk: on S3 no reader compares them, and S3A writes none.
        found = {name: directory.listed(inner) for name, directory, inner in files if "/." not in f"/{inner}"}
        each(lambda name: _copied(self._at.files, found[name], self._key(name)), found)
        return {name: ManifestFile(size=item.size) for name, item in found.items()}

    def copied(self, files: Mapping[str, ManifestFile], query: str) -> ObjectTree:  # noqa: ARG002  # interface
        """Return the copied part of a query."""
        return self._at.tree(self._key(query))

    def upload(self, directory: Path, savepoint: Savepoint) -> Savepoint:
        """Upload the files of a local savepoint, then seal it."""

        def put(name: str) -> None:
            if savepoint.files[name].size <= _WHOLE:
                self._at.files.write(self._key(name), (directory / name).read_bytes())
            else:
                self._at.files.upload(self._key(name), directory / name)

        each(put, savepoint.files)
        return self.seal(savepoint)

    def seal(self, savepoint: Savepoint) -> Savepoint:
        """Judge the copies, then create the manifest.

        :raises ObjectExistsError: A savepoint with that name exists.
        :raises StorageUnavailableError: The attempt took too long.
        """
        tree = self._at.tree(f"{self._at.key}/{self._directory}")
        try:
            etags = {name: tree.listed(name).etag for name in savepoint.files}
            files = {name: file.model_copy(update={"etag": etags[name]}) for name, file in savepoint.files.items()}
            made = savepoint.model_copy(update={"files": files})
            check(SavepointOnS3(tree, made, str(self._at), self._at))
        except CheckpointCorruptError as error:
            raise TornError(error.path, error.reason, next_step="Run `spark-ha checkpoint verify`") from error
        # guard: an-attempt-outlives-its-files
        if self._clock.lease_time() - self._begun > DURATION.total_seconds():
            raise StorageUnavailableError(
                f"the copies of savepoint {self._at} took more than {DURATION.days} days",
                next_step="Save fewer queries at a time",
            )
        manifest = made.model_copy(update={"directory": self._directory})
        self._at.files.create(self._at.manifest, manifest.to_bytes(), writer=self._id)
        return made

    def discard(self) -> None:
        """Remove the files as far as the store can be reached."""
        with suppress(StorageError):
            each(self._at.files.delete, [file.key for file in self._at.files.list(self._key(""))])

    def _key(self, name: str) -> str:
        return f"{self._at.key}/{self._directory}/{name}"


@dataclass(frozen=True, slots=True)
class PrefixLayout:
    """Layout of a savepoint below a prefix of a bucket. Its sources are URIs of the same bucket.

    :param at: The place of the savepoint.
    :param clock: Measures the duration of an attempt.
    """

    at: SavepointPrefix
    clock: Clock = field(default_factory=SystemClock)

    def check(self, sources: Sequence[SavepointSource[str]]) -> None:
        """Check that the savepoint can be made of *sources*.

        :raises ConfigurationError: It cannot.
        :raises ObjectExistsError: A savepoint with that name exists.
        """
        for source in sources:
            for place in (source.directory, source.sink):
                if place is not None and split(place).authority != self.at.bucket:
                    raise ConfigurationError(
                        f"{place} of query {source.query!r} is in another bucket than {self.at}",
                        next_step="Name a savepoint in the same bucket: its server copies the files",
                    )
            directory = split(source.directory).path.strip("/")
            if directory and f"{self.at.key}/".startswith(f"{directory}/"):
                raise ConfigurationError(
                    f"{self.at} is inside the checkpoint to save",
                    next_step="Save it to another prefix",
                )
        self.at.check_free()

    def tree(self, place: str) -> ObjectTree:
        """Return a prefix with a fresh listing."""
        return self.at.tree(split(place).path.strip("/"))

    def sink_log(self, output: str) -> ObjectTree:
        """Return the log of a file sink with a fresh listing."""
        return self.tree(f"{output}/{LOG}")

    def uri(self, place: str) -> str:
        """Return the URI of a place."""
        return place

    @contextmanager
    def draft(self) -> Iterator[PrefixDraft]:
        """Yield a new attempt; remove its files when it is certain that they become no savepoint."""
        draft = PrefixDraft(self.at, self.clock)
        try:
            yield draft
        except (CheckpointMissingError, CheckpointCorruptError, ObjectExistsError):
            draft.discard()
            raise


def import_archive(at: SavepointPrefix, archive: Path, *, scratch: Path | None = None) -> Savepoint:
    """Make a savepoint of an archive; it keeps the id and time of the archive.

    :param archive: As ``savepoint export`` writes it, from a directory, a job or a savepoint on S3.
    :param scratch: Directory for the temporary unpacked files; by default the directory of the archive.
    :raises CheckpointCorruptError: The archive is refused, with the reason; no file was uploaded.
    :raises ObjectExistsError: A savepoint with that name exists.
    :raises StorageUnavailableError: A read or write failed, or the disk has too little space.
    """
    at.check_free()
    with scratch_directory((scratch or archive.parent) / archive.name) as folder:
        directory = folder / "savepoint"
        savepoint = unpack(archive, directory)
        # From now on the savepoint is the user's, even if a schedule made it.
        update = {"shares_inodes": False, "schedule": None, "directory": ""}
        with PrefixLayout(at).draft() as draft:
            return draft.upload(directory, savepoint.model_copy(update=update))


def dispose(at: SavepointPrefix, *, abandoned: timedelta = ABANDONED) -> None:
    """Remove a savepoint permanently, and the files of attempts that ended without one.

    :param abandoned: Age of the newest file of such an attempt, by the store's clock.
    :raises CheckpointMissingError: The savepoint does not exist, and no such attempt.
    :raises CheckpointCorruptError: Its manifest is damaged; nothing was removed.
    :raises StorageUnavailableError: A read or a removal failed.
    """
    try:
        own = _manifest(at).directory
    except CheckpointMissingError:
        own = ""
    attempts: dict[str, list[ObjectInfo]] = {}
    for file in at.files.list(f"{at.key}/"):
        directory, _, name = file.key.removeprefix(f"{at.key}/").partition("/")
        if name and _ATTEMPT.fullmatch(directory):
            attempts.setdefault(directory, []).append(file)
    gone = attempts.pop(own, [])
    if attempts:
        oldest = _now(at) - int(abandoned.total_seconds() * 1000)
        for files in attempts.values():
            if max(file.mtime for file in files) <= oldest:  # guard: files-of-another-attempt-go
                gone += files
    if own:
        at.files.delete(at.manifest)
    elif not gone:
        raise _missing(at)
    each(at.files.delete, [file.key for file in gone])


def _manifest(at: SavepointPrefix) -> Savepoint:
    """Return the manifest; raises as :func:`open_savepoint` does."""
    try:
        data = at.files.read(at.manifest)
    except ObjectMissingError:
        raise _missing(at) from None
    savepoint = check_manifest(parse_manifest(at.tree(at.key), data))
    if not _ATTEMPT.fullmatch(savepoint.directory):
        raise CheckpointCorruptError(MANIFEST, f"{savepoint.directory!r} is not the directory of an attempt")
    return savepoint


def _missing(at: SavepointPrefix) -> CheckpointMissingError:
    return CheckpointMissingError(
        f"savepoint {at} does not exist", next_step="A savepoint that never completed has no manifest"
    )


def _now(at: SavepointPrefix) -> int:
    """Return the store's time in milliseconds: the time of a file that is written for it."""
    mark = f"{at.key}/files-{new_id()}/now"
    at.files.create(mark, b"")
    try:
        found = at.files.info(mark)
    finally:
        at.files.delete(mark)
    if found is None:
        raise StorageUnavailableError(
            f"{mark} disappeared right after it was written",
            next_step="Find the process or lifecycle rule that removes objects there",
        )
    return found.mtime


def _copied(files: S3Store, item: ObjectInfo, target: str) -> None:
    """Let the server copy an object as it was listed."""
    try:
        files.copy(item, target)
    except ObjectMissingError as error:
        raise CheckpointMissingError(
            f"{item.key} was purged or replaced while it was copied", next_step="Try again"
        ) from error


def _difference(place: ObjectTree, name: str, expected: ManifestFile) -> str:
    try:
        item = place.listed(name)
    except NotAFileError:
        return "it is not a regular file"
    except FileGoneError:
        return "it is in the manifest but missing"
    if item.size != expected.size:
        return f"it has {item.size} bytes, the manifest records {expected.size}"
    return "" if item.etag == expected.etag else "it was replaced: its etag differs"
