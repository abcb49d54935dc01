"""The state of a query on both sides: which operators it has, what they keep, and in which files.

Whether Spark refuses is stated for one direction: the query that wrote B, started on the state of A.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.comparison.schema import Schema, accepts
from airflow_provider_ha.checkpoints.comparison.side import RecordedOperator, Side
from airflow_provider_ha.checkpoints.format.rocksdb import has_unique_name
from airflow_provider_ha.checkpoints.trees.files import FileGoneError, opened
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import StorageUnavailableError


# Written for one snapshot and never again; the id is in the name.
_TABLE = re.compile(r"[^/]*-[0-9a-f-]{36}\.(sst|log)")
# Their values are not compared by every release.
_VALUES_NOT_COMPARED = ("symmetricHashJoin", "flatMapGroupsWithState")
_PIECE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class OperatorChange:
    """A stateful operator that is not the same on both sides.

    :param a: Its name in A; ``None`` when A has none of this number, empty where the release recorded no name.
    :param changes: What differs, as text for the user.
    :param refused: Whether Spark refuses to run the query of B on the state of A for it; ``None`` where that depends on
        what no checkpoint records.
    """

    operator: int
    a: str | None
    b: str | None
    changes: tuple[str, ...]
    refused: bool | None


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The state files, path relative to the checkpoint -> bytes.

    :param only_in_a: Files that A needs and B does not: gone.
    :param only_in_b: New.
    :param changed: Of one name with other bytes; the size is that in B.
    :param shared: How many are the same file, or have the same bytes.
    :param shared_bytes: How large these are.
    """

    only_in_a: dict[str, int]
    only_in_b: dict[str, int]
    changed: dict[str, int]
    shared: int
    shared_bytes: int

    @property
    def same(self) -> bool:
        """Whether both sides have the same files."""
        return not (self.only_in_a or self.only_in_b or self.changed)  # guard: files-gone-do-not-count


def compare_operators(a: Side, b: Side) -> tuple[OperatorChange, ...]:
    """Return the operators that differ, by number."""
    numbers = sorted({*a.operators, *b.operators})
    # A query whose operators were never recorded is not compared with them.
    recorded = any(operator.name for operator in a.operators.values())
    found = (_operator(number, a.operators.get(number), b.operators.get(number), recorded) for number in numbers)
    return tuple(change for change in found if change is not None)


def compare_files(a: Side, b: Side) -> FileChanges:
    """Compare the files of the state; reads files of equal names when nothing else shows that they are equal.

    :raises StorageUnavailableError: One of them could not be read.
    """
    both = [name for name in a.state if name in b.state]
    changed = {name for name in both if not _same_file(name, a, b)}
    return FileChanges(
        only_in_a={name: size for name, size in a.state.items() if name not in b.state},
        only_in_b={name: size for name, size in b.state.items() if name not in a.state},
        changed={name: b.state[name] for name in both if name in changed},
        shared=len(both) - len(changed),
        shared_bytes=sum(b.state[name] for name in both if name not in changed),
    )


def _operator(
    number: int, a: RecordedOperator | None, b: RecordedOperator | None, recorded: bool
) -> OperatorChange | None:
    if a is None or b is None:
        change = "it is new" if a is None else "it is gone"
        refused = True if recorded else None
        return OperatorChange(number, None if a is None else a.name, None if b is None else b.name, (change,), refused)
    found = [*_renamed(a, b), *_stores(a, b), *_schemas(a, b)]  # guard: schemas-are-not-compared
    if not found:
        return None
    answers = [refused for _, refused in found]
    refused = True if True in answers else None if None in answers else False
    return OperatorChange(number, a.name, b.name, tuple(text for text, _ in found), refused)


_Found = Iterable[tuple[str, bool | None]]


def _renamed(a: RecordedOperator, b: RecordedOperator) -> _Found:
    if a.name != b.name:
        yield f"it was {a.name or 'not recorded'} and is {b.name or 'not recorded'}", bool(a.name and b.name) or None
    if a.properties != b.properties:
        yield "what is recorded of its logic differs", None


def _stores(a: RecordedOperator, b: RecordedOperator) -> _Found:
    for store in sorted({*a.stores, *b.stores}):
        ours, theirs = a.stores.get(store), b.stores.get(store)
        if ours != theirs:
            # The number of partitions is pinned by the offset log: a restart takes that of the state.
            words = f"store {store} has {theirs or 'no'} partitions instead of {ours or 'no'}"
            yield words, False if ours and theirs else None


def _schemas(a: RecordedOperator, b: RecordedOperator) -> _Found:
    for store in sorted({*a.schemas, *b.schemas}):
        ours, theirs = a.schemas.get(store), b.schemas.get(store)
        if ours is None or theirs is None:
            yield f"store {store} has a schema only in {'B' if ours is None else 'A'}", None
        elif ours.content != theirs.content:
            yield from _schema(store, ours, theirs, value_counts=a.name not in _VALUES_NOT_COMPARED)


def _schema(store: str, a: Schema, b: Schema, *, value_counts: bool) -> _Found:
    if a.key is None or b.key is None:
        yield f"the schema of store {store} differs", None
        return
    for part, stored, new in (("key", a.key, b.key), ("value", a.value, b.value)):
        if stored != new:
            taken = accepts(stored, new)
            kind = "differs in names or what may be null" if taken else "is another type"
            yield (
                f"the {part} of store {store} {kind}",
                False if taken else (True if value_counts or part == "key" else None),
            )


def _same_file(name: str, a: Side, b: Side) -> bool:
    if a.state[name] != b.state[name]:
        return False
    own = name.rpartition("/")[2]
    if has_unique_name(own) or _TABLE.fullmatch(own):
        return True
    if name in a.identities and a.identities[name] == b.identities.get(name):
        return True
    ours, theirs = a.digests.get(name), b.digests.get(name)
    # guard: nothing-digested-is-the-same
    if ours and theirs and ours.digested_by and ours.digested_by is theirs.digested_by:
        return ours == theirs
    return _same_bytes(name, a.directory, b.directory)


def _same_bytes(name: str, a: Tree, b: Tree) -> bool:
    try:
        one = a.identity(name)
        if one is not None and one == b.identity(name):
            return True
        with opened(a, name) as ours, opened(b, name) as theirs:
            if ours.size != theirs.size:
                return False
            pieces = range(0, ours.size, _PIECE)
            return all(ours.read_at(start, _PIECE) == theirs.read_at(start, _PIECE) for start in pieces)
    except (OSError, FileGoneError) as error:  # guard: unread-state-is-the-same
        raise StorageUnavailableError(
            f"cannot compare {name} of {a} with that of {b}: {error}",
            next_step="Compare again; a running query may have purged them",
        ) from error
