"""Permissions to see a job and to act on it, and the forms of actions.

Rules (docs/explanation/security-model.md, "The page in Airflow"):

* A user who may read the DAG's runs sees the tab of a DAG run, with the jobs that the following rules allow.
* A job with an owner (``job_owner``) belongs to that DAG: users who may read the DAG's runs see it, and users who may
  edit them act on it.
* A user with the permission for every DAG has it for every job, including jobs without an owner, unreadable jobs, and
  the answer that a job does not exist. "Every DAG" means each DAG known to Airflow and one unknown to it: a user whose
  permissions name DAGs does not have it for the unknown DAG, even if Airflow knows no DAG at all.
* An action applies to the job of the owner that was checked: an owner change in between refuses the action.

Invariant: a route that does not declare its permission is not served (:func:`check_protection`).

A browser sends Airflow's cookie even with requests of a foreign page. So a form carries a token that only this page can
issue, for this user and this action on this job, and a request from another origin is refused.

The token names the newest shown run: a form of an ended run acts on no other run. It also carries the id of the
operation: a second click, a reload or a retry requests the same operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import get_user
from airflow.configuration import conf
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import Depends, FastAPI, HTTPException, Path, Query, Request
from fastapi.routing import APIRoute
from itsdangerous import BadData, URLSafeTimedSerializer
from sqlalchemy import select

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.errors import ConfigurationError, RecordCorruptError, UnknownJobError
from airflow_provider_ha.fleet.fleet_overview import read_owners
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID
from airflow_provider_ha.jobs.job_context import CallerIdentity
from airflow_provider_ha.jobs.status import JobStatus


FORM_FORBIDDEN, TOO_LARGE = 403, 413
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
    """Form that its user has sent.

    :param fields: Values of its fields.
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
        raise _refused("This form is for another action")
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
        raise _refused("This form belongs to another user")
    return intent


def _serializer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(conf.get_mandatory_value("api", "secret_key"), salt=_SALT)


def _refused(reason: str) -> HTTPException:
    return HTTPException(FORM_FORBIDDEN, f"{reason}. Nothing was done: go back to the job and try again")


Method = Literal["GET", "POST", "PUT"]
Cluster = Annotated[str, Query(max_length=250)]
OPEN_TO_USERS = frozenset({"/static/{name}"})  # for every user: they show no job data
FORBIDDEN = 403
NO_DAG = "no DAG has this id"  # a DAG id contains no space, so a permission cannot name it
_READS = {"GET", "HEAD"}


@dataclass(frozen=True)
class Permissions:
    """Permissions of a user from Airflow's auth manager, cached for a request."""

    user: BaseUser
    _known: dict[tuple[str, DagAccessEntity, str | None], bool] = field(default_factory=dict)

    def may_see(self, owner: str | None) -> bool:
        """Return whether the user may see a job.

        :param owner: DAG that owns the job; ``None`` without an owner, or if it could not be read.
        """
        return self._may("GET", DagAccessEntity.RUN, owner)

    def may_read_log(self, owner: str | None) -> bool:
        """Return whether the user may see a driver's output."""
        return self.may_see(owner) and self._may("GET", DagAccessEntity.TASK_LOGS, owner)

    def may_act(self, owner: str | None) -> bool:
        """Return whether the user may request operations on a job."""
        return self.may_see(owner) and self._may("PUT", DagAccessEntity.RUN, owner)

    def may_trigger(self, dag_id: str) -> bool:
        """Return whether the user may create a run of a DAG; the same check as Airflow's own."""
        return self._one_dag("POST", DagAccessEntity.RUN, dag_id)

    def may_read_runs(self, dag_id: str) -> bool:
        """Return whether the user may see the runs of a DAG."""
        return self._one_dag("GET", DagAccessEntity.RUN, dag_id)

    def _may(self, method: Method, entity: DagAccessEntity, owner: str | None) -> bool:
        key = (method, entity, owner)
        if key not in self._known:
            one = owner is not None and self._one_dag(method, entity, owner)
            self._known[key] = one or (
                self._all_dags(method, entity) if owner is None else self._may(method, entity, None)
            )
        return self._known[key]

    def _one_dag(self, method: Method, entity: DagAccessEntity, dag_id: str) -> bool:
        return bool(
            get_auth_manager().is_authorized_dag(
                method=method, access_entity=entity, details=_details(dag_id), user=self.user
            )
        )

    def _all_dags(self, method: Method, entity: DagAccessEntity) -> bool:
        manager = get_auth_manager()
        if not manager.is_authorized_dag(method=method, access_entity=entity, user=self.user):
            return False
        # A manager may read an unspecified DAG as "any DAG", so each must be allowed; without DAGs, "each" proves
        # nothing.
        if not self._one_dag(method, entity, NO_DAG):
            return False
        with create_session() as session:
            every = set(session.scalars(select(DagModel.dag_id)))
        allowed = set(manager.get_authorized_dag_ids(user=self.user, method=method))
        return every <= allowed


def visible_jobs(client: HaClient, allowed: Permissions, dag_id: str = "") -> list[str]:
    """Return the jobs of a cluster that a user may see.

    :param dag_id: Only jobs of this DAG.
    :raises NotConnectedError: ZooKeeper could not be read.
    """
    found = client.list_jobs()
    if not dag_id and allowed.may_see(None):
        return found
    owners = read_owners(client.coordinator, client.paths, found)
    if dag_id:
        found = [job_id for job_id in found if owners[job_id] == dag_id]
    return [job_id for job_id in found if allowed.may_see(owners[job_id])]


def permissions(user: Annotated[BaseUser, Depends(get_user)]) -> Permissions:
    """Return the permissions of the request's user, for a route that shows several jobs or none."""
    return Permissions(user)


PermissionsDep = Annotated[Permissions, Depends(permissions)]


@dataclass(frozen=True, slots=True)
class VisibleDag:
    """DAG whose runs the user of the request may see."""

    dag_id: str
    permissions: Permissions


def visible_dag(dag_id: Annotated[str, Path(max_length=250)], allowed: PermissionsDep) -> VisibleDag:
    """Return the DAG of the route, for a user who may see its runs.

    :raises HTTPException: 403: the user may not; also for a missing DAG.
    """
    if not allowed.may_see(dag_id):
        raise HTTPException(FORBIDDEN)
    return VisibleDag(dag_id, allowed)


VisibleDagDep = Annotated[VisibleDag, Depends(visible_dag)]


@dataclass(frozen=True, slots=True)
class VisibleJob:
    """Job that the user of the request may see.

    :param cluster: Connection of its cluster.
    """

    cluster: str
    job_id: str
    snapshot: JobStatus
    permissions: Permissions

    @property
    def owner(self) -> str | None:
        """DAG that owns the job."""
        return owner_of(self.snapshot)

    @property
    def run(self) -> int:
        """Number of its newest run; 0 without one."""
        return self.snapshot.run.run.number if self.snapshot.run is not None else 0

    def acting(self, run: int | None = None) -> CallerIdentity:
        """Return the user's identity for an action, bound to the owner that was checked.

        :param run: The newest run that a form has shown.
        """
        return CallerIdentity(owner=self.owner, run=run)


def owner_of(snapshot: JobStatus) -> str | None:
    """Return the DAG that a job belongs to; ``None`` for a job without an owner."""
    return snapshot.run.run.owner if snapshot.run is not None else None


def visible_job(
    request: Request,
    job_id: Annotated[str, Path(max_length=250)],
    allowed: PermissionsDep,
    cluster: Cluster = DEFAULT_CONN_ID,
) -> VisibleJob:
    """Read the job of the route, for a user who may see it.

    :raises HTTPException: 403: the user may not, or may not know whether the job exists.
    """
    clusters = request.app.state.clusters

    def read() -> JobStatus:
        with clusters.client(cluster) as client:
            found: JobStatus = client.job(job_id).snapshot()
            return found

    try:
        snapshot = clusters.zookeeper(cluster).call(read)
    except (ConfigurationError, RecordCorruptError, UnknownJobError):
        if not allowed.may_see(None):
            raise HTTPException(FORBIDDEN) from None
        raise
    if not allowed.may_see(owner_of(snapshot)):
        raise HTTPException(FORBIDDEN)
    return VisibleJob(cluster, job_id, snapshot, allowed)


VisibleJobDep = Annotated[VisibleJob, Depends(visible_job)]


def job_with_log(job: VisibleJobDep) -> VisibleJob:
    """Return the job of the route, for a user who may read its logs.

    :raises HTTPException: 403: the user may not.
    """
    if not job.permissions.may_read_log(job.owner):
        raise HTTPException(FORBIDDEN)
    return job


def acting_job(job: VisibleJobDep) -> VisibleJob:
    """Return the job of the route, for a user who may act on it.

    :raises HTTPException: 403: the user may only read.
    """
    if not job.permissions.may_act(job.owner):
        whose = f"the runs of DAG {job.owner}" if job.owner else "the runs of all DAGs: this job has no owner"
        raise HTTPException(FORBIDDEN, f"This requires the permission to edit {whose}")
    return job


def check_protection(app: FastAPI) -> None:
    """Assert that every route declares its permission.

    :raises RuntimeError: A route does not; the message names it with the missing dependencies.
    """
    for route in app.routes:
        lacking = unprotected(route) if isinstance(route, APIRoute) else ["dependency at all: it is no APIRoute"]
        if lacking:
            raise RuntimeError(f"{route} depends on no {', '.join(lacking)}")


def unprotected(route: APIRoute) -> list[str]:
    """Return the missing dependencies of a route."""
    has = set(_calls(route.dependant))  # codespell:ignore
    needs: list[Callable[..., Any]] = [get_user]
    if "{job_id}" in route.path:
        needs.append(visible_job)
    elif "{dag_id}" in route.path:
        needs.append(visible_dag)
    elif route.path not in OPEN_TO_USERS:
        needs.append(permissions)
    if route.methods - _READS:
        needs += [acting_job, checked_form]
    return [needed.__name__ for needed in needs if needed not in has]


def _calls(tree: Any) -> Iterator[Any]:
    """Return every function that FastAPI calls before the route, from its dependency tree."""
    for each in tree.dependencies:
        yield each.call
        yield from _calls(each)


def _details(dag_id: str) -> DagDetails:
    if "team_name" in {each.name for each in fields(DagDetails)} and conf.getboolean(
        "core", "multi_team", fallback=False
    ):
        return DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return DagDetails(id=dag_id)
