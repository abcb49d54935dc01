"""Airflow through its public REST API: the demo does nothing to a job that a user could not do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_exponential

from airflow_provider_ha.testing.waiting import wait_until


FINAL = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})

_POLL_SECONDS = 0.5
_PAGE = 100
_LAST_LOG_LINES = 30


class DagRunFailedError(Exception):
    """A DAG run, or a task of it, did not end as it should. Says which task and shows its last log lines."""


@dataclass(frozen=True, slots=True)
class DagRun:
    """One run of a DAG."""

    dag_id: str
    run_id: str

    @property
    def path(self) -> str:
        """Its place in the API."""
        return f"/api/v2/dags/{self.dag_id}/dagRuns/{self.run_id}"


class AirflowApi:
    """A client of one Airflow.

    :param url: ``http://127.0.0.1:8080``.
    """

    def __init__(self, url: str, user: str, password: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=60, trust_env=False)
        self._credentials = {"username": user, "password": password}

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def trigger(self, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> DagRun:
        """Start a run of a DAG by hand, with *conf* as its parameters."""
        body = {"logical_date": None, "dag_run_id": run_id, "conf": dict(conf)}
        run = DagRun(dag_id, run_id)
        try:
            self.request("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)
        except DagRunFailedError:
            # A request that was answered with an error, and asked again, may have made the run the first time.
            self.run_state(run)
        return run

    def unpause(self, dag_id: str) -> None:
        """Let a DAG run."""
        self.request("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False})

    def dags(self) -> set[str]:
        """Ids of the DAGs that Airflow knows."""
        return {dag["dag_id"] for dag in self.request("GET", "/api/v2/dags", params={"limit": _PAGE})["dags"]}

    def import_errors(self) -> list[str]:
        """What went wrong while DAG files were parsed."""
        found = self.request("GET", "/api/v2/importErrors")["import_errors"]
        return [f"{error['filename']}: {error['stack_trace']}" for error in found]

    def run_state(self, run: DagRun) -> str:
        """State of a run: queued, running, success or failed."""
        return str(self.request("GET", run.path)["state"])

    def task_states(self, run: DagRun) -> dict[str, str | None]:
        """Task id -> state; ``None`` before the scheduler looked at it."""
        found = self.request("GET", f"{run.path}/taskInstances", params={"limit": _PAGE})["task_instances"]
        return {task["task_id"]: task["state"] for task in found}

    def wait_for_run(self, run: DagRun, *, timeout: float) -> None:
        """Wait until a run succeeded.

        :raises DagRunFailedError: It failed; names the task.
        :raises TimeoutError: It did not end in time.
        """
        what = f"the DAG run {run.dag_id} {run.run_id}"
        wait_until(lambda: self.run_state(run) in FINAL, timeout=timeout, what=what, interval=_POLL_SECONDS)
        failed = [task for task, state in self.task_states(run).items() if state in {"failed", "upstream_failed"}]
        if failed or self.run_state(run) != "success":
            self._fail(run, failed)

    def wait_for_task(self, run: DagRun, task_id: str, state: str, *, timeout: float) -> None:
        """Wait until a task has *state*.

        :raises DagRunFailedError: It ended in another one, or another task of the run failed.
        :raises TimeoutError: It did not get there in time.
        """

        def reached() -> bool:
            states = self.task_states(run)
            failed = [task for task, current in states.items() if current == "failed"]
            if failed or (states.get(task_id) in FINAL and states.get(task_id) != state):
                self._fail(run, failed or [task_id])
            return states.get(task_id) == state

        what = f"task {task_id} of {run.dag_id} to be {state}"
        wait_until(reached, timeout=timeout, what=what, interval=_POLL_SECONDS)

    def xcom(self, run: DagRun, task_id: str, key: str = "return_value") -> Any:
        """Return what a task left for the others."""
        path = f"{run.path}/taskInstances/{task_id}/xcomEntries/{key}"
        value = self.request("GET", path, params={"deserialize": "true"})["value"]
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError:
            return value

    def log(self, run: DagRun, task_id: str) -> list[str]:
        """Return the log lines of a task's newest try."""
        task = self.request("GET", f"{run.path}/taskInstances/{task_id}")
        path = f"{run.path}/taskInstances/{task_id}/logs/{max(task['try_number'], 1)}"
        content = self.request("GET", path, params={"full_content": "true"})["content"]
        return [line for entry in content for line in _text(entry)]

    def request(self, method: str, path: str, **arguments: Any) -> Any:
        """Ask the API.

        :raises DagRunFailedError: It answered with an error.
        """
        answer = self._signed_in(method, path, **arguments)
        if answer.is_error:
            message = f"{method} {path}: {answer.status_code} {answer.text[:500]}"
            raise DagRunFailedError(message)
        return answer.json() if answer.content else None

    def page(self, path: str) -> httpx.Response:
        """Load a page, as the user."""
        return self._signed_in("GET", path)

    def _signed_in(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """Send a request; a token that is missing or has expired is fetched."""
        answer = self._patiently(method, path, **arguments)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            token = self._client.post("/auth/token", json=self._credentials).raise_for_status().json()
            self._client.headers["Authorization"] = f"Bearer {token['access_token']}"
            answer = self._patiently(method, path, **arguments)
        return answer

    def _patiently(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """Ask again when Airflow's SQLite was locked by another of its processes: that is a 500, and passes."""
        asking = Retrying(
            stop=stop_after_attempt(6),
            wait=wait_exponential(multiplier=0.5, max=5),
            retry=retry_if_result(lambda answer: answer.is_server_error),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        )
        answer: httpx.Response = asking(self._client.request, method, path, **arguments)
        return answer

    def _fail(self, run: DagRun, tasks: list[str]) -> None:
        lines = [f"{run.dag_id} {run.run_id} did not succeed: {self.task_states(run)}"]
        for task in tasks:
            lines += [f"--- {task}", *self.log(run, task)[-_LAST_LOG_LINES:]]
        raise DagRunFailedError("\n".join(lines))


def _text(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
        return
    yield " ".join(str(entry[key]) for key in ("timestamp", "level", "event") if entry.get(key))
    for detail in entry.get("error_detail") or ():
        yield f"{detail.get('exc_type')}: {detail.get('exc_value')}"
