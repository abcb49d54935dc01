"""The application that Airflow mounts: routers, headers, static files, error pages.

Invariant: every route authenticates the user, even one whose router omits it: the application itself depends on it.
There is no page with an API description.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, HTTPException, Request, Response

from airflow_provider_ha.plugins import _actions, _logs, _pages, _restore, _tabs
from airflow_provider_ha.plugins._clusters import Clusters
from airflow_provider_ha.plugins._errors import add_error_pages
from airflow_provider_ha.plugins._rendering import SECURITY_HEADERS, static_files
from airflow_provider_ha.plugins._security import check_protection


_KEPT = "private, max-age=31536000, immutable"  # its address has the digest of its content


def create_app(clusters: Clusters | None = None) -> FastAPI:
    """Return the application.

    :param clusters: The clusters to show; by default the connections of this Airflow.
    """
    app = FastAPI(
        title="Spark HA",
        dependencies=[Depends(get_user)],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.clusters = clusters or Clusters()
    app.include_router(_pages.router)
    app.include_router(_actions.router)
    app.include_router(_restore.router)
    app.include_router(_logs.router)
    app.include_router(_tabs.router)
    app.add_api_route("/static/{name}", _static, methods=["GET"])
    app.middleware("http")(_with_headers)
    add_error_pages(app)
    check_protection(app)
    return app


def _static(name: str) -> Response:
    found = static_files().get(name)
    if found is None:
        raise HTTPException(404)
    return Response(found.content, media_type=found.media_type, headers={"Cache-Control": _KEPT})


async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    response.headers.update(SECURITY_HEADERS)
    return response
