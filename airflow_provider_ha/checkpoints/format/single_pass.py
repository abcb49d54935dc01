"""One pass over a file, shared by its decoder and its checksums.

Invariant: each sum sees each byte once and in order, also when the decoder reads only parts of the file, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from airflow_provider_ha.checkpoints.trees.tree import OpenFile


# Large enough that a call to the system costs nothing beside it, small enough that a few threads hold little.
PIECE = 256 * 1024


class Sum(Protocol):
    """Something that is computed over all bytes of a file."""

    def add(self, piece: bytes) -> None:
        """Take the next bytes."""


class SinglePass:
    """Reads a file in large pieces and keeps the last one.

    :param file: The file.
    :param sums: Checksums; each receives every byte, by :meth:`finish` at the latest.
    """

    def __init__(self, file: OpenFile, sums: Sequence[Sum] = ()) -> None:
        self.size = file.size
        self._file = file
        self._sums = sums
        self._summed = 0
        self._start = 0
        self._piece = b""

    def at(self, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset*; fewer at the end of the file. The caller bounds *length*."""
        begin = offset - self._start
        if begin < 0 or begin + length > len(self._piece):
            self._read(offset, length)
            begin = offset - self._start
        return self._piece[begin : begin + length]

    def pieces(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield *length* bytes from *offset* (all that follow when not given) in pieces."""
        end = self.size if length is None else min(self.size, offset + length)
        while offset < end:
            piece = self.at(offset, min(PIECE, end - offset))
            if not piece:
                return  # it became shorter
            yield piece
            offset += len(piece)

    def finish(self) -> None:
        """Give the sums the bytes that the decoder did not read."""
        if self._sums:
            for _ in self.pieces(self._summed):
                pass

    def _read(self, offset: int, length: int) -> None:
        if self.size <= PIECE:
            offset, length = 0, self.size  # most files are small: one call reads all
        self._piece = self._file.read_at(offset, max(length, min(PIECE, self.size - offset)))
        self._start = offset
        new = self._summed - offset
        if 0 <= new < len(self._piece):
            self._summed = offset + len(self._piece)
            for each in self._sums:
                each.add(self._piece[new:])
