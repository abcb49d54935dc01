"""Cursor over bytes that arrive in pieces; decoders use it, so that they never hold a whole file.

Invariant: the cursor holds at most the current piece and the bytes of a request. The caller limits a length from a
header before it requests that many bytes.
"""

from __future__ import annotations

from collections.abc import Iterable


class StreamCorruptError(ValueError):
    """The bytes are not a whole stream; the text says where and why."""


class StreamCutError(StreamCorruptError):
    """The bytes end before the stream does: Java's readers take that for its end."""


class NotLookedIntoError(ValueError):
    """The bytes are of a kind, or in pieces of a size, that is not read here: they are not judged."""


class ByteStream:
    """A cursor.

    :param pieces: The bytes in their order; none is kept longer than it is needed.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._passed = 0
        # A caller that skips thousands of small records uses these two directly, without a call for each.
        self.buffer = b""
        self.at = 0

    @property
    def position(self) -> int:
        """Number of bytes before the cursor."""
        return self._passed + self.at

    def peek(self, length: int) -> bytes:
        """Return the next *length* bytes and stay before them; fewer at the end."""
        while len(self.buffer) - self.at < length and self._more():
            pass
        return self.buffer[self.at : self.at + length]

    def take(self, length: int) -> bytes:
        """Return the next *length* bytes.

        :raises StreamCorruptError: Fewer are left.
        """
        taken = self.peek(length)
        if len(taken) < length:
            raise self._cut(length, len(taken))
        self.at += length
        return taken

    def some(self, limit: int) -> bytes:
        """Return the next bytes, as many as are at hand but *limit* at most; none at the end."""
        while self.at == len(self.buffer) and self._more():
            pass
        taken = self.buffer[self.at : self.at + limit]
        self.at += len(taken)
        return taken

    def skip(self, length: int) -> None:
        """Pass over *length* bytes without holding them; raises as :meth:`take` does."""
        left = length
        while left > len(self.buffer) - self.at:
            left -= len(self.buffer) - self.at
            self.at = len(self.buffer)
            if not self._more():
                raise self._cut(length, length - left)
        self.at += left

    def back(self, length: int) -> None:
        """Give back the last *length* bytes, which :meth:`some` has just returned."""
        self.at -= length

    def _more(self) -> bool:
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self._passed += self.at
        self.buffer = self.buffer[self.at :] + piece if self.at < len(self.buffer) else piece
        self.at = 0
        return True

    def _cut(self, length: int, there: int) -> StreamCutError:
        begin = self.position - there if self.at == len(self.buffer) else self.position
        return StreamCutError(
            f"stream ended prematurely: {length} bytes are claimed at byte {begin}, {there} are there"
        )
