"""A work area on storage without links and renames: S3, HDFS, or a directory.

A new epoch's directory names its inherited files, and owns the files it writes. The directory it was made from stays in
place, fenced by a record in the slot that its driver needs next; so a retained cut is that directory and a batch.

Invariant: only the collector removes a file that Spark wrote, when no base names it. ``remove`` therefore removes no
file of a working directory: it only marks the directory as over.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.layered.base_file import FILE, Base, BaseEntry
from airflow_provider_ha.checkpoints.areas.layered.layered_tree import (
    MARKER,
    OURS,
    REMOVED,
    Bases,
    FencedTree,
    LayeredReader,
    LayeredTree,
)
from airflow_provider_ha.checkpoints.areas.layered.needs import read_needs
from airflow_provider_ha.checkpoints.areas.layered.takeover import belongs, cut_of, is_own, occupy, paused_gc
from airflow_provider_ha.checkpoints.areas.pins import SINKS, purged, read_entry, refuse_reserved, sink_files
from airflow_provider_ha.checkpoints.areas.work_area import Capabilities, RetainedCut, Successor
from airflow_provider_ha.checkpoints.areas.working_records import (
    STARTED_FILE,
    UNPUBLISHED_FILE,
    StartedQueries,
    missing_entry,
)
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import (
    BEGUN,
    COMMITS,
    OFFSETS,
    FenceRecord,
    numbers,
    progress,
    progress_when_listed,
    queries,
)
from airflow_provider_ha.checkpoints.spark.closure import closure
from airflow_provider_ha.checkpoints.spark.files import opened, read
from airflow_provider_ha.checkpoints.spark.object_tree import AT_ONCE
from airflow_provider_ha.checkpoints.spark.operators import checked_by, relocated
from airflow_provider_ha.checkpoints.spark.places import is_local, local_path, output_place
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.clock import Clock, SystemClock, new_id
from airflow_provider_ha.errors import CheckpointMissingError, ConfigurationError, ObjectExistsError, ObjectMissingError
from airflow_provider_ha.storage.keys import (
    check_inside,
    check_key,
    check_object_key,
    epoch_of,
    job_of,
    query_directory_of,
    working_directory_of,
)
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.storage.roots import Roots
from airflow_provider_ha.uris import spark_uri


_PIECE = 4 << 20


class LayeredWorkArea:
    """A :class:`~airflow_provider_ha.checkpoints.areas.work_area.WorkArea` of files that are never moved.

    :param files: The files below the root of one cluster.
    :raises ConfigurationError: Spark has no file system for this storage.
    """

    cheap_listing = False

    def __init__(self, files: ObjectStore, *, clock: Clock | None = None) -> None:
        self._files = files
        self.roots: Roots | None = None
        self._clock = clock or SystemClock()
        self._bases = Bases(files)
        self._spark_root = spark_uri(files.uri)
        self._listed: Mapping[str, FencedTree] = {}  # replaced as a whole: other threads read it

    def __repr__(self) -> str:
        return f"LayeredWorkArea({self._files.uri!r})"

    @property
    def place(self) -> str:
        """Configured URI of the root."""
        return self._files.uri

    def admit(self, key: str, *, inside: tuple[str, ...], source: str) -> str:
        """Return a key from a record when it names one directory in *inside*."""
        return check_inside(key, inside=inside, source=source)

    def touches(self, path: str) -> bool:
        """Whether *path* is inside the area, or the area inside it."""
        if is_local(path) != is_local(self._files.uri):
            return False
        if is_local(path):
            place, own = Path(path).resolve(), local_path(self._files.uri).resolve()
            return place.is_relative_to(own) or own.is_relative_to(place)
        there, here = (f"{output_place(uri)}/" for uri in (path, self._files.uri))
        return there.startswith(here) or here.startswith(there)

    def uri(self, key: str) -> str:
        """Return the URI of a directory for the component's file system."""
        return f"{self._spark_root}/{check_key(key)}"

    def capabilities(self) -> Capabilities:
        """Return the capabilities of the storage, found by trying them.

        :raises ConfigurationError: It removes files by a lifecycle rule.
        :raises StorageUnavailableError: It cannot be written, or lets two processes create one file, with the reason.
        """
        self._files.check_writable()
        return Capabilities(links=False, names_suffice=True)

    def require(self) -> None:
        """Assert that the root answers and belongs to a cluster."""
        self._files.names("")
        self._require_root()

    def read(self, key: str, name: str) -> bytes | None:
        """Return the bytes of a directory's own file; ``None`` when it is missing."""
        try:
            return self._files.read(f"{check_key(key)}/{check_object_key(name)}")
        except ObjectMissingError:
            return None

    def contains(self, key: str) -> bool:
        """Whether the directory has any file and is not over."""
        return _is_there(self._files.names(f"{check_key(key)}/"))

    def list(self, prefix: str, *, only: Callable[[str], bool] | None = None) -> Sequence[str]:
        """Return the names of directories directly below *prefix* that are not over, sorted."""
        found = (name for name in self._files.names(prefix) if name not in OURS and (only is None or only(name)))
        return [name for name in found if self._files.info(f"{prefix}{name}/{REMOVED}") is None]

    def queries(self, key: str) -> Sequence[str]:
        """Return the names of the queries in a working directory, sorted, without listing their files.

        :raises CheckpointCorruptError: A base is refused.
        """
        if key in self._listed:
            return queries(self._listed[key])
        return self._begun(key, self._files.names(f"{check_key(key)}/"))

    def log_entries(self, query: str) -> Mapping[str, frozenset[str]]:
        """Return log -> its names, without those that the collector knows to be unneeded.

        A base names entries of batches whose tables are gone: only entries that are own files go before their state.
        """
        known = read_needs(self._files, query)
        found = {}
        for log in (OFFSETS, COMMITS):
            entries = self.tree(f"{query}/{log}").entries()
            named = {name: replace(entry, name=f"{log}/{name}") for name, entry in entries.items()}
            found[log] = frozenset(name for name, entry in named.items() if known is None or not known.needless(entry))
        return found

    def tree(self, key: str) -> LayeredTree:
        """Return a directory; it need not exist."""
        for place, listed in self._listed.items():
            if key == place or key.startswith(f"{place}/"):
                return listed / key.removeprefix(f"{place}/") if key != place else listed
        return LayeredTree(self._reader(), f"{check_key(key)}/")

    @contextmanager
    def listed_once(self, key: str) -> Iterator[None]:
        """Read a fenced directory from one listing, and each small file once, until the block ends."""
        tree = FencedTree(self._reader(), f"{check_key(key)}/")
        self._listed = {**self._listed, key: tree}
        try:
            # The last offsets may be the fence, and the boundaries of a batch begin in the entry before its own.
            logs = [(f"{query}/{log}", last) for query in queries(tree) for log, last in ((OFFSETS, 3), (COMMITS, 2))]
            newest = [f"{log}/{number}" for log, last in logs for number in numbers(tree, log)[-last:]]
            tree.expect((STARTED_FILE, UNPUBLISHED_FILE, *newest))  # every recovery reads them
            yield
        finally:
            self._listed = {place: listed for place, listed in self._listed.items() if place != key}

    def _reader(self) -> LayeredReader:
        return LayeredReader(self._files, self._bases, query_directory_of)

    def create(self, key: str) -> LayeredTree:
        """Create an empty directory, under a key that never existed."""
        self._require_root()
        self._files.create(f"{check_key(key)}/{MARKER}", b"")
        return self.tree(key)

    @paused_gc()
    def fork(self, source: str, target: str, *, batch: int | None = None, keep_planned: bool) -> int:
        """Create a checkpoint that names the files of another one; return their number.

        After a loss (no named batch, the planned one is kept) it is a filtered listing, without files that the
        collector knows to be unneeded: no state file is opened. Otherwise it is the closure of the batch.
        """
        origin = self.tree(source)
        if working_directory_of(source) is None:
            return self.bring_in(origin, target, batch=batch)  # a savepoint is removed with its files
        if job_of(source) != job_of(target):
            return self.bring_in(origin, target, batch=batch)  # its collector does not read bases of this job
        files = origin.entries()
        at = progress_when_listed(origin)
        last = at.committed if batch is None else batch
        if batch is None and keep_planned:
            cut = cut_of(origin, at.planned, at.committed)
            known = read_needs(self._files, source) if origin.has_needs else None
            wanted: Iterable[str] = (
                name
                for name, file in files.items()
                if belongs(name, cut) and not (known is not None and known.needless(file))
            )
        else:
            wanted = closure(origin, last, with_planned=keep_planned)
        try:
            chosen = [files[name] for name in wanted]
        except KeyError as error:
            raise purged(f"{origin}/{error.args[0]}") from None
        self._refuse_existing(target)
        named = list(self._relocated(chosen, origin, target))
        self._make_base(target, Base.of(named, epoch=epoch_of(target), source=source, batch=last))
        return len(chosen)

    def bring_in(self, source: Tree, target: str, *, batch: int | None = None) -> int:
        """Create a checkpoint that owns all its files."""
        last = progress(source).committed if batch is None else batch
        names = closure(source, last, with_planned=False)
        self._refuse_existing(target)
        self._make_base(target, Base.of((), epoch=epoch_of(target), source=str(source), batch=last))
        moved = set()
        for name in names:
            if self._write_relocated(source, name, target):
                moved.add(name)
        for name in names:
            if checked_by(name) not in moved:
                self._copy(source, name, f"{target}/{name}")
        return len(names)

    def retain(self, source: str, target: str, cut: Mapping[str, int], *, sinks: Mapping[str, Tree]) -> RetainedCut:  # noqa: ARG002  # no target is created
        """Keep a cut in place: only the collector removes files, and it knows the retained cuts.

        The query of a file sink purges the sink's log, so the log's entries are copied next to the queries.
        """
        tree = self.tree(source)
        for query, batch in cut.items():
            refuse_reserved(query)
            offsets, commits = ((tree / query / log).fresh().names() for log in (OFFSETS, COMMITS))
            missing = missing_entry(batch, offsets=offsets, commits=commits)
            if missing is not None:
                raise purged(f"{tree / query}/{missing}")
        kept = {query: set(tree.names(f"{SINKS}/{query}/{LOG}")) for query in sinks}
        for log, entry, name in sink_files(cut, sinks):
            if entry not in kept[name.split("/")[1]]:
                self._files.write(f"{source}/{name}", read_entry(log, entry))
        return RetainedCut(source, {query: {} for query in cut})

    def fence(self, key: str, *, by: Successor | None = None) -> str:
        """Take the next slot of every query's log, downstream queries first; return the same key.

        In between, the old driver may finish batches of an upstream query: that query is ahead of none that it reads.

        :raises CheckpointCorruptError: A log cannot be fenced.
        """
        names = self._files.names(f"{check_key(key)}/")
        if not _is_there(names):
            self._require_root()
            raise CheckpointMissingError(
                f"working directory {key} is not there in {self.place}",
                next_step="Restore the job from its latest checkpoint, which does not need it",
            )
        tree, now, by = self.tree(key), self._clock.now(), by or Successor()
        for query in self._downstream_first(key, names):
            record = FenceRecord(by.epoch, by.submission, new_id(), now.isoformat())
            occupy(self._files, f"{key}/{query}", tree / query, record)
        return key

    def fenced(self, key: str) -> str:
        """Return the same key: a fence does not move a directory."""
        return check_key(key)

    def current(self, key: str) -> str:
        """Return the same key."""
        return check_key(key)

    def remove(self, key: str) -> None:
        """Mark working directories as over, and remove other directories.

        :raises ConfigurationError: The key is a part of a working directory: another one may name its files.
        """
        working = working_directory_of(check_key(key))
        if working is not None and working != key:
            raise ConfigurationError(f"{key} is a part of a working directory", next_step="Remove the directory")
        if working is None and working_directory_of(f"{key}/any") is None:
            for file in self._files.list(f"{key}/"):
                self._files.delete(file.key)
            return
        for each in [key] if working is not None else [f"{key}/{name}" for name in self.list(f"{key}/")]:
            if self._files.names(f"{each}/"):  # guard: removals-take-inherited-files
                self._files.write(f"{each}/{REMOVED}", b"")

    def _require_root(self) -> None:
        if self.roots is not None:
            self.roots.require()

    def _relocated(self, chosen: Sequence[BaseEntry], origin: Tree, target: str) -> Iterable[BaseEntry]:
        """Rewrite files with absolute paths for their new place; return the files that can be named unchanged."""
        written = set()
        for entry in chosen:
            if self._write_relocated(origin, entry.name, target):
                written.add(entry.name)
        return [entry for entry in chosen if checked_by(entry.name) not in written]

    def _write_relocated(self, origin: Tree, name: str, target: str) -> bool:
        """Rewrite a file for its new place if it has absolute paths; return whether it did."""
        if not is_own(name) or name != checked_by(name):
            return False
        data = relocated(read(origin, name), name, self.uri(target))
        if data is None:
            return False
        self._files.write(f"{target}/{name}", data)
        return True

    def _refuse_existing(self, target: str) -> None:
        if self._files.names(f"{check_key(target)}/"):
            raise ObjectExistsError(
                f"directory {target} already exists in {self.place}",
                next_step="Each epoch creates a new directory",
            )

    def _make_base(self, target: str, base: Base) -> None:
        self._files.create(f"{target}/{FILE}", base.to_bytes())
        self._bases.remember(target, base)

    def _names(self, query: str) -> set[str]:
        """Return the names directly in a query directory, own and inherited."""
        own = set(self._files.names(f"{query}/"))
        base = self._bases.of(query) if FILE in own else None
        return own | {entry.name.partition("/")[0] for entry in (base.entries if base is not None else ())}

    def _begun(self, key: str, names: Iterable[str]) -> Sequence[str]:
        """Return the queries that Spark began among the names in a working directory."""
        found = (name for name in names if not name.startswith(".") and name not in OURS)
        return [name for name in found if not BEGUN.isdisjoint(self._names(f"{key}/{name}"))]

    def _downstream_first(self, key: str, names: Collection[str]) -> Sequence[str]:
        """Return the queries of a working directory in reverse start order.

        Includes queries that its script was about to start: such a query may write no file once its successor reads.
        """
        working = [f"{key}/{name}" for name in names if not name.startswith(".") and name not in OURS]
        with ThreadPoolExecutor(AT_ONCE) as pool:  # the bases are read next, and an error of theirs then
            pool.map(self._bases.of, working)
            data = self.read(key, STARTED_FILE)  # after the names: a query is noted before it begins
        started = StartedQueries.from_bytes(data, source=f"{key}/{STARTED_FILE}") if data is not None else None
        noted = list(started.sinks) if started is not None else []
        begun = self._begun(key, (name for name in names if name not in noted))
        return [*reversed(noted), *reversed(begun)]

    def _copy(self, source: Tree, name: str, key: str) -> None:
        with opened(source, name) as file:
            if file.size <= _PIECE:
                self._files.write(key, file.read_at(0, file.size))
                return
            with tempfile.NamedTemporaryFile() as held:
                for offset in range(0, file.size, _PIECE):
                    held.write(file.read_at(offset, _PIECE))
                held.flush()
                self._files.upload(key, Path(held.name))


def _is_there(names: Collection[str]) -> bool:
    """Whether a directory with these names exists and is not over."""
    return bool(names) and REMOVED not in names
