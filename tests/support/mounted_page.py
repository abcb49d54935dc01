"""The plugin's application below its prefix, as Airflow mounts it, and requests to it, with a server and without."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from airflow_provider_ha.airflow_side.page.clusters import Clusters
from airflow_provider_ha.airflow_side.page_urls import PREFIX as URL_PREFIX
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.testing.waiting import wait_until


def mounted(app: FastAPI) -> FastAPI:
    """Return an application that has *app* below the prefix of the plugin."""
    outer = FastAPI()
    outer.mount(URL_PREFIX, app)
    return outer


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """Serve an application on a port of the loopback for the time of the block; yield its URL."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, timeout=30, what="the server to listen")
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=20)


_unused: list[FastAPI] = []  # applications of earlier tests: their routes take a tenth of a second


class Page:
    """Sends requests to the plugin's application, each in a separate event loop."""

    def __init__(self, app: FastAPI) -> None:
        self._app = mounted(app)

    def get(self, path: str, **given: Any) -> httpx.Response:
        """Load a page; *path* is below the prefix."""
        return self.request("GET", path, **given)

    def request(self, method: str, path: str, **given: Any) -> httpx.Response:
        """Send a request; *given* is what httpx takes (``params``, ``headers``, ``data``, …)."""
        return asyncio.run(self._request(method, path, given))

    async def _request(self, method: str, path: str, given: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://airflow.test", timeout=120) as client:
            return await client.request(method, f"{URL_PREFIX}{path}", **given)


@contextmanager
def page_of(config: HaConfig) -> Iterator[Page]:
    """Serve the pages of one cluster, under the default connection, for the time of the block."""
    with _application(config) as app:
        yield Page(app)


@contextmanager
def served_page_of(config: HaConfig) -> Iterator[str]:
    """Serve the same on a port; yield the URL of the list."""
    with _application(config) as app, serving(mounted(app)) as url:
        yield f"{url}{URL_PREFIX}"


@contextmanager
def _application(config: HaConfig) -> Iterator[FastAPI]:
    from airflow_provider_ha.airflow_side.page.app import create_app  # Airflow 3.0 has not all that it imports

    clusters = Clusters(names=lambda: ["spark_ha_default"], config_of=lambda _: config, idle_seconds=0.2)
    app = _unused.pop() if _unused else create_app(clusters)
    app.state.clusters = clusters
    yield app
    clusters.close()
    _unused.append(app)


def token_of(shown: str) -> dict[str, str]:
    """Return what the form of a page sends."""
    found = re.search(r'name="token" value="([^"]+)"', shown)
    assert found is not None, shown
    return {"token": found[1]}
