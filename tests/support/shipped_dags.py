"""The DAGs that we ship, in the database of the tests' Airflow: as its processes know them after a scan."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Barrier, Lock
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_2_PLUS
from tests.support import airflow_auth


DAGS = Path(__file__).parents[2] / "dags"
RESTORE, RECOVER = "disaster_recovery", "recover_jobs"


@contextmanager
def shipped(*dag_ids: str) -> Iterator[None]:
    """Let Airflow know these DAGs, unpaused, for the time of the block. Each has a file of its name."""
    from airflow.utils.db import synchronize_log_template
    from airflow.utils.session import create_session

    # Airflow 3.1 has both elsewhere, and its bag asks for no bundle.
    module: Any = import_module("airflow.dag_processing.dagbag" if AIRFLOW_V_3_2_PLUS else "airflow.models.dagbag")
    bundle = {"bundle_name": airflow_auth.BUNDLE} if AIRFLOW_V_3_2_PLUS else {}
    synchronize_log_template()  # each run refers to it
    with airflow_auth.dags(*dag_ids):
        for name in dag_ids:
            bag = module.DagBag(DAGS / f"{name}.py", bundle_path=DAGS, **bundle)
            assert bag.import_errors == {}
            with create_session() as session:
                module.sync_bag_to_db(bag, airflow_auth.BUNDLE, None, session=session)
        set_paused(dag_ids, paused=False)
        try:
            yield
        finally:
            _forget(dag_ids)


def set_paused(dag_ids: Sequence[str], *, paused: bool) -> None:
    """Pause DAGs, or let them run."""
    _change(dag_ids, is_paused=paused)


def set_stale(dag_ids: Sequence[str], *, stale: bool) -> None:
    """Take the files of DAGs away, or bring them back."""
    _change(dag_ids, is_stale=stale)


def runs_of(dag_id: str) -> list[Any]:
    """Return the runs of a DAG, oldest first."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = list(session.scalars(select(DagRun).where(DagRun.dag_id == dag_id).order_by(DagRun.id)))
        session.expunge_all()
    return found


def set_run_state(dag_id: str, run_id: str, state: str, *, failed_task: str = "") -> None:
    """Let a run have a state, as the scheduler would."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id).values(_state=state))
        session.execute(
            update(TaskInstance)
            .where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, TaskInstance.task_id == failed_task)
            .values(state="failed")
        )


def _change(dag_ids: Sequence[str], **values: Any) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id.in_(dag_ids)).values(**values))


def forget_runs(dag_ids: Sequence[str]) -> None:
    """Remove the runs of DAGs."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    with create_session() as session:
        for kind in (TaskInstance, DagRun):
            session.execute(delete(kind).where(kind.dag_id.in_(dag_ids)))


def _forget(dag_ids: Sequence[str]) -> None:
    from airflow.models.dag_version import DagVersion
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    forget_runs(dag_ids)
    with create_session() as session:
        for kind in (SerializedDagModel, DagVersion):
            session.execute(delete(kind).where(kind.dag_id.in_(dag_ids)))


def task_of(dag_id: str, task_id: str, conf: Mapping[str, Any], **xcoms: Any) -> Any:
    """Return a task of a DAG, with its templates rendered for a run with these parameters.

    :param xcoms: Task -> what it has returned.
    """
    spec = spec_from_file_location(f"shipped_{dag_id}", DAGS / f"{dag_id}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    params = {name: param.value for name, param in module.dag.params.items()} | dict(conf)
    told = SimpleNamespace(xcom_pull=lambda *, task_ids: xcoms[task_ids])
    task = module.dag.get_task(task_id)
    task.render_template_fields({"params": params, "ti": told})
    return task


def set_waiting(dag_id: str, run_id: str) -> None:
    """Have a run wait for a slot of its pool, as when there is no free one."""
    from airflow.models.dagrun import DagRun
    from airflow.models.pool import Pool
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import update

    Pool.create_or_update_pool("default_pool", slots=128, description="", include_deferred=False)
    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id).values(_state="running"))
        session.execute(
            update(TaskInstance)
            .where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
            .values(state="scheduled")
        )


def dag_of(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", DAGS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.dag


def take_away(trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the pages without the DAGs that bring a job back."""
    if trouble == "paused":
        set_paused([RESTORE, RECOVER], paused=True)
    elif trouble == "stale":
        set_stale([RESTORE, RECOVER], stale=True)
    elif trouble == "unknown":
        monkeypatch.setenv("AIRFLOW__SPARK_HA__RESTORE_DAG", "ours")
        monkeypatch.setenv("AIRFLOW__SPARK_HA__RECOVER_DAG", "ours")
    elif trouble == "another":
        monkeypatch.setenv("AIRFLOW__SPARK_HA__RESTORE_DAG", RECOVER)


def meet(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Have two requests wait for each other where neither has found the DAG run of the other one."""
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.models.dagrun import DagRun

    from airflow_provider_ha.airflow_side.page import recovery_pages

    both, one = Barrier(2), Lock()
    ask_airflow, look = trigger_dag, DagRun.find_duplicate

    def one_after_the_other(*args: Any, **kwargs: Any) -> Any:
        both.wait(timeout=30)
        with one:
            return ask_airflow(*args, **kwargs)

    def together(*args: Any, **kwargs: Any) -> Any:
        found = look(*args, **kwargs)
        both.wait(timeout=30)
        return found

    if where == "before either makes it":
        monkeypatch.setattr(DagRun, "find_duplicate", together)
    else:
        monkeypatch.setattr(recovery_pages, "trigger_dag", one_after_the_other)
