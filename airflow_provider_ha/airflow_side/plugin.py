"""Plugin that every process of Airflow loads through the entry point group ``airflow.plugins``.

Invariant: only a process that mounts the pages builds them. Airflow reads ``fastapi_apps`` in its API server only;
scheduler, workers and triggerer load a name and a few dictionaries.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow import __version__ as airflow_version
from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from airflow_provider_ha.airflow_side.page_urls import PREFIX as URL_PREFIX
from airflow_provider_ha.airflow_side.page_urls import dag_path, dag_run_path, has_pages, task_path
from airflow_provider_ha.errors import ConfigurationError


if TYPE_CHECKING:
    from fastapi import FastAPI


NAME = "Spark HA"
_log = logging.getLogger(__name__)


def base_path() -> str:
    """Return the base path of Airflow without a final slash, from ``[api] base_url``."""
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


class SparkHaPlugin(AirflowPlugin):
    """Pages of the jobs, and their links in Airflow. Absent before Airflow 3.1 and outside the supported range."""

    name = "spark_ha"

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]  # Airflow only reads it
        """Application, created on first access."""
        if not _offered():
            return []
        return [{"app": _app(), "url_prefix": URL_PREFIX, "name": NAME}]

    @property
    def external_views(self) -> list[dict[str, Any]]:  # type: ignore[override]  # Airflow only reads it
        """Entry in the navigation, and the tabs of a DAG, a DAG run and a task instance."""
        return _views() if _offered() else []


def _offered() -> bool:
    """Return whether this Airflow gets the pages; for an unsupported release, log the reason.

    An error here would break the whole API server.
    """
    try:
        from airflow_provider_ha.airflow_side import compat  # noqa: F401, PLC0415  # refuses a release outside the range
    except ConfigurationError as refused:
        _log.warning("the pages of Spark HA are not offered: %s", refused)
        return False
    return has_pages(airflow_version)


@cache
def _app() -> FastAPI:
    from airflow_provider_ha.airflow_side.page.app import create_app  # noqa: PLC0415  # only the API server needs it

    return create_app()


@cache
def _views() -> list[dict[str, Any]]:
    # One shared list: Airflow removes refused entries from it.
    base, icon = base_path(), f"{base_path()}{URL_PREFIX}/static"
    shared = {"name": NAME, "icon": f"{icon}/icon.svg", "icon_dark_mode": f"{icon}/icon-dark.svg"}
    dag, run, task, mapped = "{DAG_ID}", "{RUN_ID}", "{TASK_ID}", "{MAP_INDEX}"  # Airflow's UI replaces them
    places = {
        "dag": dag_path(dag),
        "dag_run": dag_run_path(dag, run),
        "task_instance": task_path(dag, run, task, mapped),
    }
    return [
        {**shared, "href": f"{base}{URL_PREFIX}/", "destination": "nav", "category": "browse", "url_route": "spark-ha"},
        *(
            {
                **shared,
                "href": f"{base}{path}",
                "destination": place,
                "url_route": f"spark-ha-{place.replace('_', '-')}",
            }
            for place, path in places.items()
        ),
    ]
