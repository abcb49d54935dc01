"""The order of the files of tests."""

from __future__ import annotations

from tests.support.order import spread


def test_heavy_files_are_spread_over_the_others_and_short_ones_come_last() -> None:
    files = ["u1", "a", "b", "c", "d", "s1", "s2", "u2"]

    assert spread(files, heavy={"s1", "s2"}, short={"u1", "u2"}) == ["s1", "a", "b", "s2", "c", "d", "u1", "u2"]


def test_a_heavy_file_among_the_short_ones_is_spread_too() -> None:
    assert spread(["a", "b", "u"], heavy={"u"}, short={"u"}) == ["u", "a", "b"]


def test_without_heavy_files_the_order_stays() -> None:
    assert spread(["a", "b"], heavy=(), short=()) == ["a", "b"]
