"""Log and web pages of a driver: reader of the log, and their locations for users.

A log consists of ``driver.log`` and rotated files, beginning with ``driver.log.1`` as the newest
(``host.process_tree``). Concatenated from the oldest to the newest, they are the kept output.

Invariant: a reader prints each kept line exactly once, also while the log is rotated. Kept files only change their
number, so a reader identifies them by attributes that do not change.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from urllib.parse import quote, urlsplit

from airflow_provider_ha.jobs.drivers.driver_home import PlainFiles
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.redaction import PublicText


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The log of a submission's driver.

    :param host: Host of the driver. Other hosts have the file if the work root is shared.
    :param path: ``driver.log``.
    """

    job_id: str
    run: int
    attempt: int
    host: str
    path: Path

    @property
    def command(self) -> str:
        """Command that prints the log, on a host that has it."""
        return f"spark-ha job logs {self.job_id} --run {self.run} --attempt {self.attempt}"

    def __str__(self) -> str:
        return f"{self.host}:{self.path} (read it with `{self.command}`)"


def log_place(job_id: str, run: int, view: SubmissionView) -> LogPlace | None:
    """Return the place of a submission's log; ``None`` if its supervisor has not reported it."""
    if view.started is None or not view.started.handle.log_uri:
        return None
    handle = view.started.handle
    return LogPlace(job_id, run, view.submission.attempt, handle.log_host, Path(handle.log_path))


def printed_place(view: SubmissionView) -> str:
    """Return where a supervisor that started nothing printed the reason, for users; empty if it has reported itself."""
    return "" if view.started is None or view.started.handle.log_uri else view.started.handle.printed


def newest_log(job_id: str, view: RunView | None) -> LogPlace | None:
    """Return the log of a run's newest started driver; ``None`` without one."""
    for submission in reversed(view.submissions if view else ()):
        place = log_place(job_id, view.run.number, submission) if view else None
        if place is not None:
            return place
    return None


def web_page(url: str) -> str:
    """Return *url* if it is safe as a link for a browser; empty otherwise, because records may hold any text."""
    try:
        parts = urlsplit(url)
        admitted = parts.scheme in ("http", "https")
        plain = url.isprintable() and " " not in url and not parts.password
    except ValueError:  # half an IPv6 address
        return ""
    return url if admitted and plain and parts.hostname else ""


def live_page(snapshot: JobStatus) -> str:
    """Return Spark's web UI of the driver that leads; empty without one."""
    status, leader, view = snapshot.status, snapshot.leader, snapshot.run
    if status is None or leader is None or view is None or view.result is not None:
        return ""
    return web_page(status.spark_ui) if (status.epoch, status.run) == (leader.epoch, view.run.number) else ""


def history_page(snapshot: JobStatus, history_server: str | None) -> str:
    """Return the history server's page about the job's last application; empty if either is unknown."""
    status = snapshot.status
    if status is None or not status.application_id or not history_server:
        return ""
    return web_page(f"{history_server.rstrip('/')}/history/{quote(status.application_id, safe='')}/")


def spark_page(snapshot: JobStatus, history_server: str | None) -> str:
    """Return the current URL of the job's newest application in Spark; empty without one."""
    return live_page(snapshot) or history_page(snapshot, history_server)


CHUNK = 32 * 1024  # bytes; the redaction of secrets does not search longer texts (``redaction``)
TAIL_LINES = 20
TAIL_CHARACTERS = 4000
_LOOKS = 10  # for the file that a truncated log went into; after that, it counts as removed

Identity = tuple[int, int, int]
"""Inode, modification time in nanoseconds, and size of a kept file in bytes."""


@dataclass(frozen=True, slots=True)
class _RotatedFile:
    """A file rotated out of the log."""

    name: str
    identity: Identity


def last_lines(log: Path, count: int = TAIL_LINES, *, root: Path | None = None) -> str:
    """Return the last lines of a log, without secrets, at most ``TAIL_CHARACTERS``; empty for an empty log.

    Parameters and errors as for :class:`LogReader`.
    """
    reader = LogReader(log, lines=count, most=TAIL_CHARACTERS * 4, root=root)
    text = b"".join(reader.now()).decode(errors="replace")
    return PublicText()(text).strip("\n")[-TAIL_CHARACTERS:]


class LogReader:
    """Reads a log, beginning with its last lines. For one thread.

    :param log: ``driver.log``.
    :param lines: Number of existing lines to read.
    :param most: Limit for their size in bytes. A line that exceeds it is left out, except the last line, which is cut.
    :param root: Ancestor directory below which links are not followed; by default the directory of the log.
    :raises OSError: The log cannot be read.
    :raises LogMissingError: The log is no file, or is reached through a link
        (:mod:`~airflow_provider_ha.jobs.drivers.driver_home`); raised by each read.
    """

    def __init__(self, log: Path, *, lines: int, most: float = math.inf, root: Path | None = None) -> None:
        self._log = log.name
        self._files = PlainFiles(log.parent, log.parent if root is None else root)
        self._looks = 0
        kept = self._kept()  # newest first
        names = [self._log, *(file.name for file in kept)]
        index, self._at = self._start(names, lines, most)
        self._there = sum(map(self._files.size, names[: index + 1])) - self._at
        older = kept[index:]  # older than the first file, which is the log or a kept file
        self._seen = older[0].identity if older else None

    def now(self) -> Iterator[bytes]:
        """Yield only the content at the creation of the reader: a driver may write faster than this reads.

        :raises OSError: The log cannot be read.
        """
        left = self._there
        while left > 0 and (data := self.read()):
            yield data[:left]
            left -= len(data)

    def read(self) -> bytes:
        """Return the next bytes, at most ``CHUNK``; empty without new ones.

        :raises OSError: The log cannot be read; the next call tries again.
        """
        while (unread := self._unread()) is not None:
            data = self._read(unread.name, self._at, unread.identity)
            if data is None:
                return b""  # renamed at this moment
            if data:
                self._at += len(data)
                return data
            self._seen, self._at = unread.identity, 0
        return self._read_log()

    def _unread(self) -> _RotatedFile | None:
        """Return the oldest kept file with unread content."""
        kept = self._kept()
        new = list(takewhile(lambda file: file.identity != self._seen, kept))
        if self._seen is not None and new and len(new) == len(kept):
            self._seen, self._at = None, 0  # the file being read was removed by many rotations
        return new[-1] if new else None

    def _read_log(self) -> bytes:
        if self._files.size(self._log) < self._at:  # truncated; its content may appear as a kept file shortly
            self._looks += 1
            if self._looks > _LOOKS:
                self._looks = self._at = 0
            return b""
        self._looks = 0
        data = self._read(self._log, self._at) or b""
        if self._unread() is not None:
            return b""  # rotated at this moment: the kept file has the same bytes
        self._at += len(data)
        return data

    def _kept(self) -> list[_RotatedFile]:
        """Return the files rotated out of the log, newest first."""
        pattern = re.compile(re.escape(self._log) + r"\.(\d+)")
        numbered = sorted(self._files.found(pattern).items(), key=lambda each: int(each[0].rpartition(".")[2]))
        found: dict[Identity, _RotatedFile] = {}
        for name, status in numbered:
            identity = _identity(status)
            found.setdefault(identity, _RotatedFile(name, identity))
        return list(found.values())

    def _start(self, names: Sequence[str], lines: int, most: float) -> tuple[int, int]:
        """Return the start of the last *lines*: index of the file and offset in it.

        :param names: Names of the files, newest first.
        """
        if lines == 0:
            return 0, self._files.size(names[0])
        whole: tuple[int, int] | None = None  # start of the oldest complete line so far
        for index, name in enumerate(names):
            with self._files.opened(name) as file:
                at = file.seek(0, os.SEEK_END)
                last = at - 1 if index == 0 else -1  # the end of the last line is not the start of another
                while at > 0:
                    if most <= 0:
                        return whole or (index, at)
                    start = at - int(min(CHUNK, at, most))
                    file.seek(start)
                    ends = [start + found.start() for found in re.finditer(b"\n", file.read(at - start))]
                    ends = [end for end in ends if end != last]
                    if len(ends) >= lines:
                        return index, ends[-lines] + 1
                    whole = (index, ends[0] + 1) if ends else whole
                    lines, most, at = lines - len(ends), most - (at - start), start
        return len(names) - 1, 0

    def _read(self, name: str, at: int, identity: Identity | None = None) -> bytes | None:
        """Return the bytes from *at* on; ``None`` if the name now refers to another file."""
        try:
            with self._files.opened(name) as file:
                if identity is not None and _identity(os.fstat(file.fileno())) != identity:
                    return None
                file.seek(at)
                return file.read(CHUNK)
        except FileNotFoundError:
            if identity is None:
                raise
            return None


def _identity(status: os.stat_result) -> Identity:
    return status.st_ino, status.st_mtime_ns, status.st_size


def whole_lines(pieces: Iterable[bytes]) -> Iterable[str]:
    """Yield the text of *pieces* in parts of at most ``CHUNK`` bytes, which end with a line if possible."""
    rest = b""
    for piece in pieces:
        rest += piece
        while end := rest.rfind(b"\n", 0, CHUNK) + 1 or (CHUNK if len(rest) >= CHUNK else 0):
            yield rest[:end].decode(errors="replace")
            rest = rest[end:]
    if rest:
        yield rest.decode(errors="replace")
