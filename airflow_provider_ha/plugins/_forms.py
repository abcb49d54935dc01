"""Forms for actions: only a form that this page showed to the user, and that the user sent, is accepted.

A browser sends Airflow's cookie even with requests of a foreign page. So a form carries a token that only this page can
issue, for this user and this action on this job, and a request from another origin is refused.

The token names the newest shown run: a form of an ended run acts on no other run. It also carries the id of the
operation: a second click, a reload or a retry requests the same operation.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated
from urllib.parse import urlsplit

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.core_api.security import get_user
from airflow.configuration import conf
from fastapi import Depends, HTTPException, Request
from itsdangerous import BadData, URLSafeTimedSerializer

from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID


FORBIDDEN, TOO_LARGE = 403, 413
LIFETIME = 3600  # seconds from the page to its confirmation
LONGEST = 16_384  # bytes of a form
_SALT = "spark-ha-action"


@dataclass(frozen=True, slots=True)
class Intent:
    """Request of a form.

    :param action: Name of the action.
    :param run: Number of the newest shown run; 0 for none.
    :param operation_id: Id of its operation: unique per shown form.
    :param shown: Shown and confirmed facts for the action; may be empty.
    """

    cluster: str
    job_id: str
    run: int
    action: str
    operation_id: str
    shown: str = ""


@dataclass(frozen=True, slots=True)
class CheckedForm:
    """A form that its user has sent.

    :param fields: The values of its fields.
    """

    intent: Intent
    fields: dict[str, str]


def token_of(user: BaseUser, intent: Intent) -> str:
    """Return the token for the form of *intent*, which only *user* can send."""
    return _serializer().dumps({"user": str(user.get_id()), **asdict(intent)})


async def checked_form(request: Request, user: Annotated[BaseUser, Depends(get_user)]) -> CheckedForm:
    """Return the form of the request.

    :raises HTTPException: 403: it comes from another origin, or its token is missing, forged, too old, or for another
        purpose or user.
    """
    check_origin(request)
    if not request.headers.get("content-length", "").isdigit() or int(request.headers["content-length"]) > LONGEST:
        raise HTTPException(TOO_LARGE)
    given = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
    intent = _intent(given.pop("token", ""), user)
    asked = (
        request.query_params.get("cluster", DEFAULT_CONN_ID),
        request.path_params.get("job_id"),
        request.url.path.rpartition("/")[2],
    )
    if (intent.cluster, intent.job_id, intent.action) != asked:
        raise _refused("This form is for something else")
    return CheckedForm(intent, given)


def check_origin(request: Request) -> None:
    """Refuse a browser request from another origin. Other clients send neither header.

    :raises HTTPException: 403: another origin.
    """
    headers = request.headers
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise _refused("This request comes from another site")
    origin = headers.get("origin")
    ours = {headers.get("host", ""), urlsplit(conf.get("api", "base_url", fallback="") or "").netloc}
    if origin is not None and urlsplit(origin).netloc not in ours - {""}:
        raise _refused(f"This request comes from {origin}. Airflow's own address is [api] base_url")


def _intent(token: str, user: BaseUser) -> Intent:
    try:
        known = _serializer().loads(token, max_age=LIFETIME)
        owner = known.pop("user")
        intent = Intent(**known)
    except (BadData, TypeError, KeyError, AttributeError):
        raise _refused("This form is no longer valid") from None
    if owner != str(user.get_id()):
        raise _refused("This form was made for another user")
    return intent


def _serializer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(conf.get_mandatory_value("api", "secret_key"), salt=_SALT)


def _refused(reason: str) -> HTTPException:
    return HTTPException(FORBIDDEN, f"{reason}. Nothing was done: go back to the job and try again")
