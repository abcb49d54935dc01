"""Rendering of templates to responses: escaping, headers, static files.

Invariants: all values in a template are escaped; a page loads no foreign resource and runs no inline script
(Content-Security-Policy); URLs in a page are relative, so they work below any base path of Airflow.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from airflow_provider_ha._version import __version__


_PACKAGE = "airflow_provider_ha.plugins"
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
    """A file that pages load.

    :param digest: Of its content; in its URL, so that a browser may cache it.
    """

    content: bytes
    media_type: str
    digest: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Return all static files by name, ours and third-party ones (``vendor``)."""
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
    """Return a figure with separators."""
    if value is None:
        return NOTHING
    return f"{value:,.1f}" if value != round(value) else f"{value:,.0f}"
