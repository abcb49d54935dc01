"""Names of at most 40 characters, which are found again."""

from __future__ import annotations

import pytest

from airflow_provider_ha.names import check_name, safe_segment, short_name


@pytest.mark.parametrize("name", ["s1", "cli-savepoint-0123456789ab", "x" * 40])
def test_a_short_name_stays(name: str) -> None:
    assert short_name(name) == name


def test_a_long_name_is_cut_to_one_that_is_found_again() -> None:
    asked = safe_segment("scheduled_savepoint/scheduled__2026-11-22T19:00:00+00:00/savepoint")

    short = short_name(asked)

    assert len(short) <= 40
    assert short.startswith("scheduled_savepoint-schedul")
    assert (short, check_name(short, "savepoint id")) == (short_name(asked), short)


def test_names_that_differ_only_at_their_end_stay_apart() -> None:
    assert short_name("x" * 60 + "1") != short_name("x" * 60 + "2")


def test_a_name_that_is_cut_at_a_dash_stays_a_name() -> None:
    short = short_name("x" * 25 + "--..__" + "y" * 30)

    assert check_name(short, "savepoint id") == short
    assert "--" not in short
