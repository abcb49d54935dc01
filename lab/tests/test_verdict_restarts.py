"""The program that asks Spark: which copies run beside each other, and what it says of an error."""

from __future__ import annotations

import importlib
import threading
from typing import Any

import pytest

from airflow_provider_ha.testing.waiting import wait_until
from lab.verdicts.asking import PROGRAM


@pytest.fixture
def restarts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the program, found as Spark's Python finds it: beside the others."""
    monkeypatch.syspath_prepend(str(PROGRAM.parent))
    return importlib.import_module("restarts")


def test_copies_of_one_recording_never_run_at_once(restarts: Any) -> None:
    first, second, other = ({"case": name, "alone": name[0]} for name in ("a1", "a2", "b1"))
    queue = restarts.Queue([first, second, other])

    assert [queue.take(), queue.take()] == [first, other]


def test_a_copy_waits_until_the_other_one_of_its_recording_is_done(restarts: Any) -> None:
    first, second = ({"case": name, "alone": "a"} for name in ("a1", "a2"))
    queue, taken = restarts.Queue([first, second]), []
    assert queue.take() is first
    waiting = threading.Thread(target=lambda: taken.append(queue.take()), daemon=True)
    waiting.start()

    queue.done(first)

    wait_until(lambda: taken == [second], timeout=10, what="the second copy")


def test_nothing_is_left_when_everything_was_taken(restarts: Any) -> None:
    queue = restarts.Queue([{"case": "a1", "alone": "a"}])
    queue.take()

    assert queue.take() is None


@pytest.mark.parametrize(("failure", "gone"), [(ConnectionRefusedError(111), True), (ValueError("x"), False)])
def test_an_error_of_the_connection_to_the_jvm_does_not_judge_the_copy(
    restarts: Any, monkeypatch: pytest.MonkeyPatch, failure: Exception, gone: bool
) -> None:
    left: list[int] = []
    monkeypatch.setattr(restarts.os, "_exit", left.append)
    monkeypatch.setattr(restarts, "judge", lambda spark, task: (_ for _ in ()).throw(failure))

    restarts.starts(None, {"inputs": ["a"]})

    assert bool(left) is gone


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[STREAM_FAILED] Query [id = 1] terminated with exception: [SOME.CLASS_1] no SQLSTATE: X", "SOME.CLASS_1"),
        ("[STREAM_FAILED] Query [id = 1] terminated with exception: batch 3 doesn't exist", "batch 3 doesn't exist"),
        (
            (
                "Query terminated with exception: An exception was raised by the Python Proxy.\n: Py4JJavaError: it\n"
                "Caused by: java.io.EOFException: too short\n"
            ),
            "EOFException: too short",
        ),
        ("Invalid UUID string: x", "Invalid UUID string: x"),
    ],
)
def test_the_cause_of_an_error_is_reported(restarts: Any, text: str, why: str) -> None:
    assert restarts.cause(text) == why
