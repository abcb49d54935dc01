"""Error pages: the object, the reason and the next step, never a stack trace."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import cast
from urllib.parse import urlencode, urlsplit

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from airflow_provider_ha.errors import (
    ConfigurationError,
    CoordinationError,
    HaError,
    JobStateError,
    StorageUnavailableError,
    UnknownJobError,
)
from airflow_provider_ha.links.page_urls import base_url
from airflow_provider_ha.plugins._bounded import OverTimeError
from airflow_provider_ha.plugins._rendering import SECURITY_HEADERS, render


log = logging.getLogger(__name__)
_LINKED = 20  # jobs
_STATUS: tuple[tuple[type[HaError], HTTPStatus], ...] = (
    (UnknownJobError, HTTPStatus.NOT_FOUND),
    (JobStateError, HTTPStatus.CONFLICT),
    (ConfigurationError, HTTPStatus.BAD_REQUEST),
    (OverTimeError, HTTPStatus.SERVICE_UNAVAILABLE),
    (CoordinationError, HTTPStatus.SERVICE_UNAVAILABLE),
    (StorageUnavailableError, HTTPStatus.SERVICE_UNAVAILABLE),
)
_KNOWN = {
    HTTPStatus.UNAUTHORIZED: ("You are not logged in", "Log in to Airflow in this browser, then load this page again"),
    HTTPStatus.FORBIDDEN: ("You may not see or do this", "Ask an administrator of Airflow for the permission"),
    HTTPStatus.NOT_FOUND: ("This page does not exist", "Go back to the list of jobs"),
}


def add_error_pages(app: FastAPI) -> None:
    """Make an application answer every error with a page."""
    app.add_exception_handler(HaError, _ha_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _unexpected)


def status_of(error: HaError) -> HTTPStatus:
    """Return the HTTP status of an error's page."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)


def _ha_error(request: Request, error: Exception) -> Response:
    known = cast("HaError", error)
    if isinstance(known, UnknownJobError) and known.known:
        others = known.known[:_LINKED]
        return _page(request, status_of(known), sentence(known.message), "Choose another job", links=others)
    return _page(request, status_of(known), sentence(known.message), known.next_step)


def _http_error(request: Request, error: Exception) -> Response:
    known = cast("HTTPException", error)
    status = HTTPStatus(known.status_code)
    title, next_step = _KNOWN.get(status, (status.phrase, ""))
    detail = str(known.detail) if known.detail and known.detail != status.phrase else ""
    return _page(request, status, title, next_step, detail)


def _invalid(request: Request, error: Exception) -> Response:
    wrong = cast("RequestValidationError", error).errors()
    reasons = "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in wrong)
    return _page(request, HTTPStatus.BAD_REQUEST, "This address cannot be used", "Go back to the list of jobs", reasons)


def _unexpected(request: Request, error: Exception) -> Response:
    log.error("the page %s could not be created", request.url.path, exc_info=error)
    response = _page(
        request,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        f"This page could not be created ({type(error).__name__})",
        "The log of Airflow's API server has the reason. The command spark-ha job show reads the same",
    )
    response.headers.update(SECURITY_HEADERS)  # the middleware that adds them is skipped here
    return response


def _page(  # noqa: PLR0917  # the parts of the page
    request: Request,
    status: HTTPStatus,
    title: str,
    next_step: str,
    detail: str = "",
    links: Sequence[str] = (),
) -> Response:
    return render(
        request,
        "error.html",
        status_code=status.value,
        title=title,
        detail=detail,
        next_step=next_step,
        at=status.value,
        links=links,
        cluster=request.query_params.get("cluster", "") if links else "",
        login=_login(request) if status is HTTPStatus.UNAUTHORIZED and request.method == "GET" else "",
    )


def _login(request: Request) -> str:
    """Return the URL of Airflow's login, with a redirect back."""
    back = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
    return f"{urlsplit(base_url()).path}/api/v2/auth/login?{urlencode({'next': back})}"


def sentence(message: str) -> str:
    """Return a message with a capital letter."""
    return message[:1].upper() + message[1:]
