"""Reads of the pages: what hangs is over time, and does not pile up."""

from __future__ import annotations

import threading

import pytest

from airflow_provider_ha.airflow_side.page.clusters import BoundedCalls, OverTimeError
from airflow_provider_ha.errors import StorageUnavailableError


def bounded(*, seconds: float = 30.0, at_once: int = 2) -> BoundedCalls:
    return BoundedCalls("ZooKeeper", next_step="Check it", seconds=seconds, at_once=at_once)


def test_an_answer_and_an_error_come_through() -> None:
    def fail() -> None:
        raise StorageUnavailableError("storage is away")

    assert bounded().call(lambda: 3) == 3
    with pytest.raises(StorageUnavailableError, match="storage is away"):
        bounded().call(fail)


def test_what_takes_too_long_is_named_with_what_to_do() -> None:
    end = threading.Event()

    with pytest.raises(OverTimeError, match=r"ZooKeeper does not answer: no answer within 0.05 s. Check it"):
        bounded(seconds=0.05).call(end.wait)
    end.set()


def test_what_still_hangs_takes_no_more_threads_than_agreed() -> None:
    end, begun = threading.Event(), []

    def hang() -> None:
        begun.append(1)
        end.wait()

    reads = bounded(seconds=0.05, at_once=2)
    for _ in range(5):
        with pytest.raises(OverTimeError):
            reads.call(hang)
    end.set()

    assert len(begun) == 2


def test_a_read_that_ended_late_makes_room_again() -> None:
    end = threading.Event()
    reads = bounded(seconds=0.05, at_once=1)
    with pytest.raises(OverTimeError):
        reads.call(end.wait)
    end.set()

    def answered() -> int:
        try:
            return reads.call(lambda: 4)
        except OverTimeError:
            return answered()

    assert answered() == 4


def test_reads_of_one_page_are_under_way_at_the_same_time() -> None:
    all_begun = threading.Barrier(3)

    answers = bounded(at_once=3).together({name: lambda: all_begun.wait(20) >= 0 for name in "abc"})

    assert {name: answer.value for name, answer in answers.items()} == dict.fromkeys("abc", True)


def test_each_read_of_a_page_has_its_own_answer_or_error() -> None:
    end = threading.Event()

    def fail() -> None:
        raise StorageUnavailableError("storage is away")

    answers = bounded(seconds=0.2, at_once=3).together({"good": lambda: 3, "bad": fail, "late": end.wait, "more": fail})
    end.set()

    assert (answers["good"].value, answers["good"].problem) == (3, "")
    assert "storage is away" in answers["bad"].problem
    assert "no answer within 0.2 s" in answers["late"].problem
    assert answers["more"].value is None


def test_an_error_that_is_none_of_ours_is_not_hidden_among_several_reads() -> None:
    with pytest.raises(ZeroDivisionError):
        bounded().together({"a": lambda: 1 // 0})
