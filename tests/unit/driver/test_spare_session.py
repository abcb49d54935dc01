"""When a standby driver makes no session in advance, and how many executors of a cluster it may have."""

from __future__ import annotations

import pytest

from airflow_provider_ha.driver.standby.spare_session import (
    ASK_PERIOD,
    ASK_SECONDS,
    GIVE_BACK_SECONDS,
    held_limit,
    reason_against,
)


class Properties:
    """System properties of a JVM."""

    def __init__(self, **values: str) -> None:
        self.java = self.lang = self.System = self
        self._values = values

    def getProperty(self, key: str) -> str | None:  # noqa: N802  # Java's name
        return self._values.get(key)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.extraListeners", "com.example.Listener"),
        ("spark.plugins", "com.example.Plugin"),
        ("spark.sql.queryExecutionListeners", "com.example.Listener"),
        ("spark.sql.streaming.streamingQueryListeners", "com.example.Listener"),
        ("spark.sql.catalogImplementation", "hive"),
    ],
)
def test_no_session_is_made_where_it_would_run_code_of_the_user(key: str, value: str) -> None:
    assert key in reason_against(Properties(**{key: value}))
    assert reason_against(Properties(**{"spark.sql.catalogImplementation": "in-memory"})) == ""


def test_executors_are_requested_for_a_moment_at_a_time() -> None:
    assert held_limit(2, 0, age=0.0, stopped=0.0) == 2
    assert held_limit(2, 0, age=ASK_SECONDS, stopped=0.0) == 0
    assert held_limit(2, 0, age=ASK_PERIOD, stopped=0.0) == 2


def test_what_it_has_stays_between_two_requests() -> None:
    assert held_limit(2, 1, age=ASK_SECONDS, stopped=0.0) == 1


def test_what_is_beyond_the_limit_is_given_back() -> None:
    assert held_limit(1, 5, age=0.0, stopped=0.0) == 1
    assert held_limit(0, 5, age=0.0, stopped=0.0) == 0


def test_nothing_is_requested_while_the_job_has_no_executors_itself() -> None:
    assert held_limit(1, 0, age=0.0, stopped=1.0) == 0


def test_a_takeover_finds_the_executors_that_were_held() -> None:
    assert held_limit(1, 1, age=0.0, stopped=GIVE_BACK_SECONDS) == 1


def test_a_job_that_does_not_get_to_run_gets_the_executors_back() -> None:
    assert held_limit(1, 1, age=0.0, stopped=GIVE_BACK_SECONDS + 1) == 0
