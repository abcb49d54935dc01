"""Work area on a file system: forks by hard links or copies, and fences by renames.

A fence is a rename: the renamed directory, under another key, is authoritative from then on.

Invariant: the fence precedes every read, link or sink comparison. A zombie that is only paused keeps planning: batches
that it writes after the read would be missing in the fork (spark-facts section 1, condition 3). The rename is one
atomic step, and the renamed directory is authoritative from then on: a zombie may recreate a nearly empty directory
under the old name.

Invariant: the source never changes, and only the closure is taken. Format 1 would silently load state of a later
version, and source entries above the cut would merge their files into one batch with later ones (spark-facts
section 1).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.areas.work_area import Capabilities, RetainedCut, Successor
from airflow_provider_ha.checkpoints.spark.atomic import NO_LINKS, building, link
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, OFFSETS, progress, queries
from airflow_provider_ha.checkpoints.spark.checksums import copy_file, copy_out
from airflow_provider_ha.checkpoints.spark.closure import closure
from airflow_provider_ha.checkpoints.spark.files import FileGoneError
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.operators import relocate
from airflow_provider_ha.checkpoints.spark.places import is_local
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import CheckpointMissingError, ObjectExistsError, StorageUnavailableError
from airflow_provider_ha.storage.durable import (
    PRIVATE_DIRECTORY,
    REMAINS,
    flush_directory,
    private_directories,
    remove_tree,
)
from airflow_provider_ha.storage.keys import check_key, refuse_links, resolve_key
from airflow_provider_ha.storage.outage import outages, unavailable
from airflow_provider_ha.storage.roots import Roots, is_marked
from airflow_provider_ha.uris import file_uri


DEAD = ".dead"


def fenced_name(root: Path) -> Path:
    """Return the name of the working directory *root* after its fence."""
    return root if root.name.endswith(DEAD) else root.with_name(root.name + DEAD)


def resolve(root: Path) -> Path:
    """Return the current path of the working directory *root*: the fenced one if it exists."""
    fenced = fenced_name(root)
    return fenced if fenced.is_dir() else root


def fence_directory(root: Path) -> Path:
    """Rename ``e1-x`` to ``e1-x.dead`` and return the new path; an earlier rename is found again.

    :param root: Working directory of an ended epoch, under its first name.
    :raises CheckpointMissingError: It exists under neither name.
    :raises StorageUnavailableError: The file system does not answer: the outcome is unknown.
    """
    with outages("fenced", root):
        return _fenced(root)


def _fenced(root: Path) -> Path:
    fenced = fenced_name(root)
    if fenced.is_dir():
        return fenced
    try:
        root.rename(fenced)
    except FileNotFoundError:
        raise CheckpointMissingError(
            f"working directory {root} is not there",
            next_step="Restore the job from its latest checkpoint, which does not need it",
        ) from None
    flush_directory(fenced.parent)
    return fenced


def fork(source: Path, target: Path, *, batch: int | None = None, keep_planned: bool, copy: bool = False) -> int:
    """Create *target* with *batch* as its last committed batch; return the number of files.

    :param source: Checkpoint directory of one query; fenced, pinned or a savepoint: no process writes to it.
    :param target: Does not exist yet; appears complete or not at all.
    :param batch: N; by default the last committed one.
    :param keep_planned: Whether to include batch N + 1 when it is planned: Spark then executes exactly it.
    :param copy: Whether to share no file with the source, because it has another owner: links share inodes.
    :raises CheckpointCorruptError: A file of the closure is damaged or missing.
    :raises CheckpointMissingError: Batch N does not exist.
    :raises ObjectExistsError: The target exists.
    """
    last = progress(LocalTree(source)).committed if batch is None else batch
    files = closure(LocalTree(source), last, with_planned=keep_planned)
    with building(target) as hidden:
        _take_closure(source, hidden, list(files), last, partial(copy_file, algorithm=None) if copy else link)
        relocate(hidden, target)
    return len(files)


def fetch(source: Tree, target: Path, *, batch: int | None = None) -> int:
    """Create *target* from a checkpoint on remote storage; otherwise as :func:`fork`.

    :raises CheckpointMissingError: Batch N does not exist, or was purged during the copy.
    """
    last = progress(source).committed if batch is None else batch
    files = list(closure(source, last, with_planned=False))
    with building(target) as hidden:
        for name in files:
            try:
                copy_out(source, name, hidden / name)
            except FileGoneError:  # noqa: PERF203  # names the file
                raise _purged(source, last, name) from None
        relocate(hidden, target)
    return len(files)


def _take_closure(
    source: Path, target: Path, files: list[str], batch: int, take: Callable[[Path, Path], object]
) -> None:
    for name in files:
        try:
            take(source / name, target / name)
        except FileNotFoundError:  # noqa: PERF203  # names the file
            raise _purged(source, batch, name) from None


def _purged(source: object, batch: int, name: str) -> CheckpointMissingError:
    return CheckpointMissingError(
        f"batch {batch} of {source} was purged during the copy: {name} is missing",
        next_step="Choose a newer batch",
    )


class LinkedWorkArea:
    """A :class:`~airflow_provider_ha.checkpoints.areas.work_area.WorkArea` below one directory of mounted storage.

    :param root: Absolute directory of one cluster; never created by a read.
    :ivar roots: The roots of that cluster. A write does not create a root of the cluster that is not mounted, and its
        files are never reported as missing. Without roots the first write creates it.
    """

    cheap_listing = True

    def __init__(self, root: Path) -> None:
        self._root = root
        self.roots: Roots | None = None

    def __repr__(self) -> str:
        return f"LinkedWorkArea({str(self._root)!r})"

    @property
    def place(self) -> str:
        """``file:`` URI of the root."""
        return file_uri(self._root)

    def admit(self, key: str, *, inside: tuple[str, ...], source: str) -> str:
        """Return a key that leads nowhere else, also not through a symbolic link."""
        resolve_key(self._root, key, inside=inside, source=source)
        return key

    def touches(self, path: str) -> bool:
        """Whether *path* is inside the area, or the area inside it, links included."""
        if not is_local(path):
            return False
        place, own = Path(path).resolve(), self._root.resolve()
        return place.is_relative_to(own) or own.is_relative_to(place)

    def uri(self, key: str) -> str:
        """Return the ``file:`` URI of a directory."""
        return file_uri(self._path(key))

    def capabilities(self) -> Capabilities:
        """Return the capabilities of the file system, found by trying them."""
        self._require_root()
        name = f"probe-{new_id()}"
        path = self._root / name
        with outages("written", path):
            private_directories(path)
            try:
                (path / "file").write_bytes(b"probe")
                refusal = _refusal_of_link(path / "file", path / "second")
            finally:
                shutil.rmtree(path, ignore_errors=True)
        return Capabilities(links=not refusal, refusal=refusal)

    def require(self) -> None:
        """Assert that the root exists."""
        self._require_root()
        if not self._root.is_dir():
            raise StorageUnavailableError(
                f"the work root {self._root} is not there", next_step="Mount the file system that holds it"
            )

    def read(self, key: str, name: str) -> bytes | None:
        """Return the bytes of a file; ``None`` when it is missing."""
        path = self._path(key) / check_key(name)
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            self._require_root()
            return None
        except OSError as error:
            raise unavailable(f"{path} could not be read", error) from error

    def contains(self, key: str) -> bool:
        """Whether the directory exists; raises as :meth:`tree` and its ``is_directory`` do."""
        there = self.tree(key).is_directory()
        if not there:
            self._require_root()
        return there

    def queries(self, key: str) -> Sequence[str]:
        """Return the names of the queries in a working directory, sorted."""
        return queries(self.tree(key))

    def log_entries(self, query: str) -> Mapping[str, frozenset[str]]:
        """Return log -> its names: Spark removes them before the state of their batches."""
        return {log: frozenset(self.tree(f"{query}/{log}").names()) for log in (OFFSETS, COMMITS)}

    def list(self, prefix: str, *, only: Callable[[str], bool] | None = None) -> Sequence[str]:
        """Return the names of directories directly below *prefix*, sorted, including those with remains only."""
        place = self._path(prefix.removesuffix("/"))
        try:
            with os.scandir(place) as found:
                names = [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            self._require_root()
            return []
        except OSError as error:
            raise unavailable(f"{place} could not be listed", error) from error
        return sorted({name for each in names if (name := _plain(each)) and (only is None or only(name))})

    def tree(self, key: str) -> LocalTree:
        """Return a directory; it need not exist.

        :raises RecordCorruptError: Its path has a symbolic link.
        """
        return LocalTree(self._path(key))

    def create(self, key: str) -> LocalTree:
        """Create an empty directory, readable by its owner only."""
        self._require_root()
        path = self._path(key)
        with outages("made", path):
            private_directories(path.parent)
            try:
                path.mkdir(PRIVATE_DIRECTORY)
            except FileExistsError as error:
                raise ObjectExistsError(f"directory {path} already exists") from error
        return LocalTree(path)

    def fork(self, source: str, target: str, *, batch: int | None = None, keep_planned: bool) -> int:
        """Create a checkpoint from another one of this area, by links; raises as ``fork.fork`` does."""
        self._require_root()
        return fork(self._path(source), self._path(target), batch=batch, keep_planned=keep_planned)

    def bring_in(self, source: Tree, target: str, *, batch: int | None = None) -> int:
        """Create a checkpoint by copy from another owner's: a link would share files that the owner edits."""
        self._require_root()
        if source.local_path is None:
            return fetch(source, self._path(target), batch=batch)
        return fork(source.local_path, self._path(target), batch=batch, keep_planned=False, copy=True)

    def retain(self, source: str, target: str, cut: Mapping[str, int], *, sinks: Mapping[str, Tree]) -> RetainedCut:
        """Link the closure of every query, and of the log of its file sink; raises as ``pins.pin`` does."""
        self._require_root()
        return RetainedCut(target, pin(self._path(source), self._path(target), cut, sinks=sinks))

    def fence(self, key: str, *, by: Successor | None = None) -> str:  # noqa: ARG002  # a rename leaves no record
        """Rename a working directory; return its new key."""
        self._require_root()
        return self._key(fence_directory(self._path(key)))

    def listed_once(self, key: str) -> AbstractContextManager[None]:  # noqa: ARG002  # of every area
        """Do nothing: its listings are cheap."""
        return nullcontext()

    def fenced(self, key: str) -> str:
        """Return the key of a working directory after its fence: that of the renamed directory."""
        return self._key(fenced_name(self._path(key)))

    def current(self, key: str) -> str:
        """Return the current key of a working directory: its own, or the key after its fence."""
        return self._key(resolve(self._path(key)))

    def remove(self, key: str) -> None:
        """Remove a directory and its remains."""
        self._require_root()  # guard: what-is-not-mounted-counts-as-removed
        path = self._path(key)
        try:
            remove_tree(path)
            for each in list(path.parent.iterdir()) if path.parent.is_dir() else ():
                found = REMAINS.fullmatch(each.name)
                if found and found["name"] == path.name:
                    shutil.rmtree(each)
        except OSError as error:
            raise unavailable(f"{path} could not be removed", error) from error

    def _require_root(self) -> None:
        """Check that the root exists, before a write or a report of a missing file."""
        if self.roots is not None and not is_marked(self._root):
            self.roots.require()

    def _path(self, key: str) -> Path:
        path = self._root / check_key(key)
        refuse_links(self._root, key, source="the work area")
        return path

    def _key(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def _plain(name: str) -> str:
    """Return the plain name for a hidden name of unfinished work; a plain name itself; otherwise empty."""
    if not name.startswith("."):
        return name
    found = REMAINS.fullmatch(name)
    return found["name"] if found else ""


def _refusal_of_link(source: Path, target: Path) -> str:
    """Return the file system's error for a hard link; empty if it succeeds."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in NO_LINKS:
            return error.strerror or str(error)
        raise
    return ""
