"""What a driver reports of its application of Spark. The context is a stand-in; test_driver.py has the real one."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ha.driver.members.run_writer import RunningApplication, SparkApplication


pyspark = pytest.importorskip("pyspark")


class Context:
    """A context of pyspark that counts how often it is asked."""

    def __init__(self, ui: str | None = "http://driver:4040", **conf: str) -> None:
        self.conf = {name.replace("__", "."): value for name, value in conf.items()}
        self.ui, self.asked = ui, 0
        self.applicationId = "app-20261124-0001"  # pyspark's own name

    def getConf(self) -> Any:  # noqa: N802  # the same
        self.asked += 1
        return self.conf

    @property
    def uiWebUrl(self) -> str | None:  # noqa: N802  # the same
        if self.ui == "gone":
            raise ConnectionError("the JVM does not answer")
        return self.ui


@pytest.fixture
def active(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda context: monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", context)


def test_a_context_is_asked_once_and_the_next_one_again(active: Any) -> None:
    running, first, second = RunningApplication(), Context(), Context(ui=None)

    active(None)
    assert running() == SparkApplication()
    active(first)
    assert [running(), running()] == [SparkApplication("app-20261124-0001", "http://driver:4040")] * 2
    active(None)
    assert running().ui == "http://driver:4040", "a session that is stopped is still the last one"
    active(second)
    assert running() == SparkApplication("app-20261124-0001", "")
    assert (first.asked, second.asked) == (1, 1)


def test_behind_a_proxy_the_ui_is_where_the_proxy_is(active: Any) -> None:
    active(Context(spark__ui__reverseProxy="true", spark__ui__reverseProxyUrl="https://gate.example/spark/"))

    assert RunningApplication()().ui == "https://gate.example/spark/proxy/app-20261124-0001"


def test_a_jvm_that_does_not_answer_is_asked_again(active: Any) -> None:
    running, context = RunningApplication(), Context(ui="gone")
    active(context)

    assert running() == SparkApplication()
    context.ui = "http://driver:4041"

    assert running().ui == "http://driver:4041"
