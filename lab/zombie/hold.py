"""One request of a driver or an executor that a proxy before the store holds until the test lets it go on."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault


HELD_SECONDS = 900  # longer than any test


class Hold:
    """Holds the first request for a name, or the answer to it.

    :param name: Of the file, as a pattern.
    :param after: Hold nothing before a request for this name has come by.
    :param answered: Whether the store gets the request, and only its answer is held.
    :param call: The remote call of HDFS that is held; another one for the same file is let through.
    """

    def __init__(self, name: str, *, after: str = "", answered: bool = False, call: str = "rename2") -> None:
        self._name = re.compile(name.encode())
        self._after = re.compile(after.encode()) if after else None
        self._answered = answered
        self._call = b"%c%b" % (len(call), call.encode())
        self._lock = threading.Lock()
        self._taken = False
        self._released = threading.Event()
        self.met = threading.Event()

    def release(self) -> None:
        """Let it go on."""
        self._released.set()

    def on_request(self, frame: bytes) -> Callable[[], None] | None:
        """Do what a proxy before a name node does with each request."""
        if self._takes(frame, of_call=self._call in frame):
            if self._answered:
                return self._wait
            self._wait()
        return None

    def on_put(self, exchange: Exchange) -> None:
        """Do what a proxy before S3 does with each PUT."""
        if not self._takes(exchange.path.encode()):
            exchange.forward()
            return
        exchange.body()
        answer = exchange.ask() if self._answered else None
        self._wait()
        exchange.reply(*(answer or exchange.ask()))

    def _takes(self, request: bytes, *, of_call: bool = True) -> bool:
        with self._lock:
            if self._after is not None and self._after.search(request):
                self._after = None
            if self._taken or self._after is not None or not of_call or not self._name.search(request):
                return False
            self._taken = True
            return True

    def _wait(self) -> None:
        self.met.set()
        self._released.wait(HELD_SECONDS)


class Holds:
    """What the proxies ask: the hold of the cell that is played, if there is one."""

    def __init__(self) -> None:
        self.now: Hold | None = None

    @property
    def fault(self) -> Fault:
        """What a proxy before S3 does with every PUT."""
        return Fault(self._on_put, "PUT", times=FOR_EVER)

    def on_request(self, frame: bytes) -> Callable[[], None] | None:
        """Do what a proxy before a name node does with each request."""
        hold = self.now
        return None if hold is None else hold.on_request(frame)

    def _on_put(self, exchange: Exchange) -> None:
        hold = self.now
        if hold is None:
            exchange.forward()
        else:
            hold.on_put(exchange)
