"""What a Python worker searches for modules."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.driver.worker_imports import archive_item, import_wheels, search_archive


def context(conf: dict[str, str]) -> Any:
    """A stand-in for a ``SparkContext`` before it is started."""
    return SimpleNamespace(getConf=lambda: conf, _python_includes=None)


def started(conf: dict[str, str]) -> list[str]:
    """Return what the workers of a context with *conf* search, in the order in which Spark adds it to their path."""
    made = context(conf)

    def start(self: Any, *_: Any, **__: Any) -> None:
        self._python_includes = ["lib.zip"]

    search_archive(start)(made, "local", appName="app")
    return list(made._python_includes)


def test_the_archive_is_added_last_because_the_last_is_searched_first() -> None:
    shipped = archive_item(Path("/data/a b,c/modules.zip"))

    assert shipped == "file:///data/a%20b%2Cc/modules.zip#spark-ha-modules"
    assert started({"spark.archives": f"/own.zip#own,{shipped}"}) == ["lib.zip", "spark-ha-modules"]


@pytest.mark.parametrize("conf", [{}, {"spark.archives": "/own.zip#own"}])
def test_without_an_archive_nothing_is_added(conf: dict[str, str]) -> None:
    assert started(conf) == ["lib.zip"]


def test_wheels_are_searched_like_zips() -> None:
    class Context:
        PACKAGE_EXTENSIONS: tuple[str, ...] = (".zip", ".egg")

    import_wheels(Context)

    assert Context.PACKAGE_EXTENSIONS == (".zip", ".egg", ".whl")
