"""``_ha_base``: the files that a query directory inherits, by name and place. Written once, before the first start.

Invariant: a base is complete or refused. Every name in it stays in its directory, every place below the storage root; a
file with a line missing, an extra line, or of another version is never read in part.

Both this package and the component in the JVM read it. Names and places percent-encode ``%``, TAB, LF and CR.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from airflow_provider_ha import __version__
from airflow_provider_ha.errors import CheckpointCorruptError


FILE = "_ha_base"
MAGIC = "spark-ha-base"
VERSION = 1

_ESCAPES = {"%": "%25", "\t": "%09", "\n": "%0A", "\r": "%0D"}
_MEANT = {escape: plain for plain, escape in _ESCAPES.items()}
_ESCAPE = re.compile("%.{0,2}", re.DOTALL)
_PLAIN = re.compile("[%\t\n\r]")
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")  # the most digits that always fit into a Java long
# Written by number alone: another attempt at the version writes the same name again.
_REPLACEABLE = re.compile(r"[0-9]+\.(zip|delta|snapshot|changelog)(\.crc)?")
_FIELDS = 5


@dataclass(frozen=True, slots=True, order=True)
class BaseEntry:
    """One inherited file.

    :param name: Relative to the query directory.
    :param place: Of the file itself, relative to the storage root: never in another base.
    :param mtime: Milliseconds since 1970, from the storage; 0 if unknown.
    :param etag: From the store, without quotes; empty if it has none.
    """

    name: str
    place: str
    length: int
    mtime: int = 0
    etag: str = ""

    @property
    def replaceable(self) -> bool:
        """Whether another process may rewrite a file of this name: then length, and etag or time, are compared."""
        return _REPLACEABLE.fullmatch(self.name.rpartition("/")[2]) is not None


@dataclass(frozen=True, slots=True)
class Base:
    """The inherited files of a query directory.

    :param entries: Sorted by name, each name once.
    :param about: Origin of the base, for people: ``epoch``, ``submission``, ``source``, ``batch``.
    """

    entries: tuple[BaseEntry, ...]
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[BaseEntry], **about: Any) -> Base:
        """Return the base of these files, sorted.

        :raises CheckpointCorruptError: A name or place is not allowed in a base, or a name occurs twice.
        """
        base = cls(tuple(sorted(entries)), about)
        for number, entry in enumerate(base.entries, start=2):
            _check_path(number, entry.name, "name")
            _check_path(number, entry.place, "place")
            if any(character in entry.etag for character in "\t\n\r"):
                raise _refused(number, f"{entry.etag!r} is not a valid etag")
        _check_order(base.entries)
        return base

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        lines = [f"{MAGIC} {VERSION} {json.dumps(dict(self.about))}"]
        lines += [
            f"{_encoded(entry.name)}\t{_encoded(entry.place)}\t{entry.length}\t{entry.mtime}\t{entry.etag}"
            for entry in self.entries
        ]
        return "\n".join([*lines, f"end {len(self.entries)}", ""]).encode()


def parse_base(data: bytes) -> Base:
    """Parse the content of a base.

    :raises CheckpointCorruptError: It is incomplete, of another version, or has names that no base may have.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise _refused(1, "it is not UTF-8") from None
    first, *lines = text.split("\n")
    about = _head(first)
    if len(lines) < 2 or lines[-1] != "" or lines[-2] != f"end {len(lines) - 2}":  # noqa: PLR2004  # "end", and its LF
        raise _refused(len(lines), "it has no last line with the number of its entries: it is truncated")
    entries = tuple(_entry(number, line) for number, line in enumerate(lines[:-2], start=2))
    _check_order(entries)
    return Base(entries, about)


def _head(line: str) -> dict[str, Any]:
    magic, _, rest = line.partition(" ")
    version, _, body = rest.partition(" ")
    if magic != MAGIC:
        raise _refused(1, f"it does not begin with {MAGIC}")
    if version != str(VERSION):
        raise CheckpointCorruptError(
            FILE,
            f"it is of format version {version[:20]}, and release {__version__} reads version {VERSION}",
            next_step="Use the release that wrote it, or a later one, on this host and in the job",
        )
    try:
        about = json.loads(body)
    except ValueError:
        raise _refused(1, "no JSON follows the version") from None
    if not isinstance(about, dict):
        raise _refused(1, "no JSON object follows the version")
    return about


def _entry(number: int, line: str) -> BaseEntry:
    fields = line.split("\t")
    if len(fields) != _FIELDS:
        raise _refused(number, f"it has {len(fields)} fields instead of {_FIELDS}")
    name, place = (_decoded(number, value) for value in fields[:2])
    _check_path(number, name, "name")
    _check_path(number, place, "place")
    for value in fields[2:4]:
        if not _NUMBER.fullmatch(value):
            raise _refused(number, f"{value[:40]!r} is not a number")
    if "\r" in fields[4]:
        raise _refused(number, f"{fields[4][:40]!r} is not a valid etag")
    return BaseEntry(name, place, int(fields[2]), int(fields[3]), fields[4])


def _check_order(entries: tuple[BaseEntry, ...]) -> None:
    for number, (one, other) in enumerate(pairwise(entries), start=3):
        if one.name >= other.name:
            raise _refused(number, f"{other.name!r} is a duplicate or out of order")


def _check_path(number: int, path: str, what: str) -> None:
    if not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise _refused(number, f"its {what} {path!r} leads out of the directory, or is empty")


def _encoded(text: str) -> str:
    return _PLAIN.sub(lambda match: _ESCAPES[match[0]], text)


def _decoded(number: int, text: str) -> str:
    if "\r" in text:
        raise _refused(number, "it has a character that must be encoded")

    def plain(match: re.Match[str]) -> str:
        if match[0] not in _MEANT:
            raise _refused(number, f"{match[0]!r} encodes no character")
        return _MEANT[match[0]]

    return _ESCAPE.sub(plain, text)


def _refused(line: int, reason: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        FILE, f"line {line}: {reason}", next_step="Restore the job from a checkpoint; the base is not used"
    )
