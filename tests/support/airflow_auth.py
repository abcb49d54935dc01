"""Airflow's own users and tokens in this process: the database of the tests' home, and its auth manager."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi import FastAPI

from tests.support.clusters.airflow_helpers import AIRFLOW_HOME


SECRET = "a secret of the tests, of more than 64 bytes: " + "s" * 64
BUNDLE = "spark-ha-tests"


def make_database() -> None:
    """Make Airflow's tables where they are missing; two runs of the tests share a home."""
    from airflow import settings
    from airflow.models import import_all_models
    from airflow.models.base import Base

    import_all_models()  # type: ignore[no-untyped-call]  # Airflow does not annotate it
    with (AIRFLOW_HOME / "database.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        Base.metadata.create_all(settings.engine)


@contextmanager
def dags(*dag_ids: str) -> Iterator[None]:
    """Let Airflow know these DAGs for the time of the block."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    with create_session() as session:
        session.merge(DagBundleModel(name=BUNDLE))
        session.flush()
        for dag_id in dag_ids:
            session.merge(DagModel(dag_id=dag_id, bundle_name=BUNDLE))  # type: ignore[no-untyped-call]  # the same
    try:
        yield
    finally:
        with create_session() as session:
            session.execute(delete(DagModel).where(DagModel.dag_id.in_(dag_ids)))


@contextmanager
def no_dags() -> Iterator[None]:
    """Let Airflow know no DAG for the time of the block."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete, select

    with create_session() as session:
        known = list(session.scalars(select(DagModel.dag_id)))
        session.execute(delete(DagModel))
    try:
        yield
    finally:
        with create_session() as session:
            for dag_id in known:
                session.merge(DagModel(dag_id=dag_id, bundle_name=BUNDLE))  # type: ignore[no-untyped-call]  # the same


@contextmanager
def dag_run(
    dag_id: str, run_id: str, xcoms: Mapping[str, Mapping[str, Any]], *, state: str = "running", raw: bool = False
) -> Iterator[None]:
    """Let a DAG run have happened for the time of the block.

    :param xcoms: Task, with ``[n]`` for an instance of a mapped one -> key -> value of each XCom.
    :param raw: Whether each value is stored as it is, as a task's own push is.
    """
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete, insert

    run = {"dag_id": dag_id, "run_id": run_id}

    def forget(session: Any) -> None:
        for model in (XComModel, TaskInstance, DagRun):
            session.execute(delete(model).where(model.dag_id == dag_id, model.run_id == run_id))

    with create_session() as session:
        forget(session)  # of a test process that was killed
        session.execute(
            insert(DagRun).values(**run, run_type="manual", state=state, logical_date=None, data_interval_end=None)
        )
        for name, told in xcoms.items():
            task_id, _, index = name.partition("[")
            task: dict[str, Any] = {**run, "task_id": task_id, "map_index": int(index.rstrip("]") or -1)}
            session.execute(insert(TaskInstance).values(**task, pool="default_pool"))
            for key, value in told.items():
                XComModel.set(key, value, **task, serialize=not raw, session=session)
    try:
        yield
    finally:
        with create_session() as session:
            forget(session)


def auth_manager(monkeypatch: pytest.MonkeyPatch, kind: type[Any] | None = None) -> Any:
    """Return Airflow's auth manager, which every request asks from now on.

    :param kind: By default the one that the configuration names.
    """
    from airflow.api_fastapi import app

    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", SECRET)
    monkeypatch.setenv("AIRFLOW__API__SECRET_KEY", SECRET)
    made = (kind or app.get_auth_manager_cls())()
    if hasattr(app, "_AuthManagerState"):  # from Airflow 3.2 on
        monkeypatch.setattr(app._AuthManagerState, "instance", made)
    else:
        monkeypatch.setattr(app, "auth_manager", made)
    return made


def per_dag_manager(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return an auth manager with permissions for single DAGs."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    class PerDag(SimpleAuthManager):
        """Airflow's auth manager with permissions for single DAGs.

        A user called ``alpha`` has those of DAG ``alpha``, and one called ``all but beta`` those of every other DAG.
        """

        def is_authorized_dag(self, *, method: Any, user: Any, access_entity: Any = None, details: Any = None) -> bool:
            named = details.id if details is not None else None
            if user.username in {"alpha", "beta"} and named not in {None, user.username}:
                return False
            if user.username == "all but beta" and named == "beta":
                return False
            return super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)

    return auth_manager(monkeypatch, PerDag)


def signed_in(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    """Return a page's application in which each request is an administrator's, with Airflow's own permissions."""
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.api_fastapi.core_api.security import get_user

    make_database()
    auth_manager(monkeypatch)
    app.dependency_overrides[get_user] = lambda: SimpleAuthManagerUser(username="someone", role="admin")
    return app


def headers_of(manager: Any, name: str, role: str) -> dict[str, str]:
    """Return the headers of a browser in which a user has logged in: the cookie with the token."""
    from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    token = manager.generate_jwt(SimpleAuthManagerUser(username=name, role=role))
    return {"Cookie": f"{COOKIE_NAME_JWT_TOKEN}={token}"}
