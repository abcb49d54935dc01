"""Responses of the page: templates, escaping, headers, static files and error pages.

Invariants: all values in a template are escaped; a page loads no foreign resource and runs no inline script
(Content-Security-Policy); URLs in a page are relative, so they work below any base path of Airflow.
"""

from __future__ import annotations

import hashlib
import logging
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.exceptions import HTTPException

from airflow_provider_ha._version import __version__
from airflow_provider_ha.airflow_side.page.clusters import OverTimeError
from airflow_provider_ha.airflow_side.page_urls import base_url
from airflow_provider_ha.errors import (
    ConfigurationError,
    CoordinationError,
    HaError,
    JobStateError,
    StorageUnavailableError,
    UnknownJobError,
)


_PACKAGE = "airflow_provider_ha.airflow_side.page"
_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "font-src": "'self'",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'self'",
}
NOTHING = "\N{EN DASH}"  # in place of a missing value
SECURITY_HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {allowed}" for name, allowed in _POLICY.items()),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """File that pages load.

    :param digest: Digest of its content; part of its URL, so that a browser may cache the file.
    """

    content: bytes
    media_type: str
    digest: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Return all static files by name, of this package and of third parties (``vendor``)."""
    root = resources.files(_PACKAGE).joinpath("static")
    found = {}
    for folder in (root, root.joinpath("vendor")):
        for entry in folder.iterdir():
            if entry.is_file():
                content = entry.read_bytes()
                media_type = mimetypes.guess_type(entry.name)[0] or "text/plain"
                digest = hashlib.sha256(content).hexdigest()[:12]
                found[entry.name] = StaticFile(content, media_type, digest)
    return found


def render(request: Request, template: str, *, status_code: int = 200, **shown: Any) -> HTMLResponse:
    """Return a page.

    :param shown: Values for the template.
    """
    base = root_of(request)
    text = _environment().get_template(template).render(base=base, version=__version__, **shown)
    return HTMLResponse(text, status_code=status_code, headers={"Cache-Control": "no-store"})


def root_of(request: Request) -> str:
    """Return the relative URL of the plugin's root from the page, for example ``../``."""
    path = request.url.path.removeprefix(request.scope.get("root_path", "")).lstrip("/")
    return "../" * path.count("/") or "./"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(_PACKAGE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(moment=_moment, ago=_ago, size=_size, number=_number, seconds=_seconds)
    environment.globals.update(static=_static, query=_query)
    return environment


def _static(name: str) -> str:
    return f"static/{name}?v={static_files()[name].digest}"


def _query(**given: Any) -> str:
    """Return a query string of the non-empty values; may be empty."""
    kept = {name: value for name, value in given.items() if value not in (None, "")}
    return f"?{urlencode(kept)}" if kept else ""


def _moment(at: datetime | None) -> Markup | str:
    """Return a moment: UTC in its text and title; a script replaces the text with the viewer's time zone."""
    if at is None:
        return NOTHING
    utc = at.astimezone(timezone.utc)
    shown = f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(f"{utc:%Y-%m-%dT%H:%M:%SZ}", shown, shown)


def _ago(at: datetime | None, now: datetime) -> Markup | str:
    """Return the age of a moment, with the moment itself in its title."""
    if at is None:
        return NOTHING
    utc = at.astimezone(timezone.utc)
    return Markup('<time datetime="{}" title="{}" data-ago>{} ago</time>').format(
        f"{utc:%Y-%m-%dT%H:%M:%SZ}", f"{utc:%Y-%m-%d %H:%M:%S} UTC", _seconds((now - at).total_seconds())
    )


def _seconds(seconds: float | None) -> str:
    """Return a duration in at most two units."""
    if seconds is None:
        return NOTHING
    whole = max(0, round(seconds))
    for size, name, smaller, small in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {name}" + (f" {rest} {small}" if rest else "")
    return f"{seconds:.1f} s" if 0 < seconds < 10 else f"{whole} s"  # noqa: PLR2004  # tenths matter below


def _size(size: float | None) -> str:
    """Return bytes in a unit of three digits at most."""
    if size is None:
        return NOTHING
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":  # noqa: PLR2004  # SI
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if amount >= 100 or unit == "B" else f"{amount:.1f} {unit}"  # noqa: PLR2004  # digits


def _number(value: float | None) -> str:
    """Return a number with separators."""
    if value is None:
        return NOTHING
    return f"{value:,.1f}" if value != round(value) else f"{value:,.0f}"


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
