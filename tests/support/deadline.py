"""A call that has to end: without its guard it would never end, and a test that hangs has found nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable


def error_of(call: Callable[[], object], *, seconds: float = 30.0) -> BaseException | None:
    """Return the exception of a call; ``None`` when it returned.

    :raises AssertionError: It has not ended in time.
    """
    raised: list[BaseException | None] = []

    def run() -> None:
        try:
            call()
            raised.append(None)
        except BaseException as error:  # noqa: BLE001  # it is handed to the caller
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert raised, f"it has not ended after {seconds:g} s"
    return raised[0]
