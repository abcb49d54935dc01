"""In a pod of the KubernetesExecutor no local driver is submitted, and a task that only watches is not held up."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.engines.local import DEPLOY
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.submit.launch import claim, launch
from tests.support.clusters import submit_helpers as helpers


POD = "AIRFLOW_IS_K8S_EXECUTOR_POD"


def test_a_submission_from_a_pod_is_refused_and_leaves_no_trace(
    copy: JobContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(POD, "True")

    with pytest.raises(ConfigurationError, match="KubernetesExecutor"):
        helpers.submit(copy, helpers.script(tmp_path))

    assert copy.coordinator.find(copy.paths.base) is None


def test_a_pod_finds_the_run_of_its_task_again_and_makes_no_other_submission(
    copy: JobContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = helpers.submit(copy, helpers.script(tmp_path))
    monkeypatch.setenv(POD, "True")

    again = helpers.submit(copy, helpers.script(tmp_path))
    with pytest.raises(ConfigurationError, match="KubernetesExecutor"):
        claim(copy, copy.runs.get(made.run).run, 2, by="a recovery", engine="local")

    assert (again.run, again.attempt) == (made.run, 1)
    assert len(copy.runs.get(made.run).submissions) == 1


def test_what_may_kill_the_driver_is_told_once_for_a_run(
    copy: JobContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    made = helpers.submit(copy, helpers.script(tmp_path))

    again = claim(copy, copy.runs.get(made.run).run, 2, by="a recovery", engine="local")
    assert again is not None
    launch(copy, copy.runs.get(made.run).run, again)

    assert caplog.text.count("this is a container") == 1
    assert f"see {DEPLOY}" in caplog.text
    assert DEPLOY.startswith("https://")
