"""Limits of calls to S3: time, and sizes above which transfers are split into parts.

One deadline covers a whole call with pauses after throttled responses, retries, and stalled bodies. An attempt starts
only while there is time to finish it, so the call ends before the deadline, not after it.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import Retrying, retry_if_exception, wait_random_exponential


T = TypeVar("T")

MIB = 1024 * 1024

HELD = 1024 * MIB
"""Largest object in bytes that is read as a whole. Records have kilobytes; files of an application are streamed."""


def check_held(size: int) -> None:
    """Refuse to hold an object of *size* bytes in memory.

    :raises OSError: The object has more than :data:`HELD` bytes.
    """
    if size > HELD:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes or more, above the limit of {HELD:,} for one read")


@dataclass(frozen=True, slots=True)
class S3Limits:
    """Bounds of a call.

    :param connect_timeout: Seconds to connect, per attempt.
    :param read_timeout: Seconds without a byte of the answer, per attempt.
    :param attempts: Requests per call at most, the first included.
    :param deadline: Seconds for a call: for one page of a listing, for one request of a transfer in parts.
    :param part_size: Bytes; an upload of more goes in parts of this size.
    :param copy_whole: Bytes; a copy of more is made in parts. S3's limit is 5 GiB, and large copies are slow.
    :param copy_part: Bytes of a part of a copy; S3 accepts 5 MiB to 5 GiB.
    """

    connect_timeout: float = 5.0
    read_timeout: float = 30.0
    attempts: int = 5
    deadline: float = 120.0
    part_size: int = 8 * MIB
    copy_whole: int = 1024 * MIB
    copy_part: int = 256 * MIB

    @property
    def longest_pause(self) -> float:
        """Longest pause of botocore before an attempt, in seconds: 1, 2, 4, … 20, and the wait of its rate limit."""
        return min(20.0, 2.0 ** (self.attempts - 2)) + 2.0 if self.attempts > 1 else 0.0


class DeadlineError(Exception):
    """Call that did not end in time; the text contains its last error.

    :param code: S3's code of the last error, if any.
    """

    def __init__(self, message: str, code: str = "") -> None:
        self.code = code
        super().__init__(message)


class Deadline:
    """Deadline of a call.

    :param limits: Limits of calls and attempts.
    :param clock: Seconds, monotonic.
    """

    def __init__(self, limits: S3Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._end = clock() + limits.deadline

    def allows_attempt(self) -> bool:
        """Return whether a pause and one more attempt would end in time."""
        limits = self._limits
        needed = limits.longest_pause + limits.connect_timeout + limits.read_timeout
        return self._clock() + needed <= self._end

    def check_body(self, received: int) -> None:
        """Check that there is time to read more after *received* bytes of a body.

        :raises DeadlineError: The time is over.
        """
        if self._clock() + self._limits.read_timeout > self._end:
            raise DeadlineError(f"its bytes arrived too slowly: {received} within {self._limits.deadline:g} s")

    def repeat(self, action: Callable[[], T], *, when: Callable[[BaseException], bool]) -> T:
        """Call *action*, and retry with pauses while its error matches *when* and there is time; return its result.

        For errors that the client library does not retry.
        """
        return Retrying(
            retry=retry_if_exception(when),
            stop=lambda state: state.attempt_number >= self._limits.attempts or not self.allows_attempt(),
            wait=wait_random_exponential(multiplier=0.1, max=self._limits.longest_pause),
            reraise=True,
        )(action)
