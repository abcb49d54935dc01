"""When a standby driver makes no session in advance."""

from __future__ import annotations

import pytest

from airflow_provider_ha.driver.standby.spare_session import reason_against


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
