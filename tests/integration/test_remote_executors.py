"""A master whose executors nothing can prove dead is refused before anything is made, unless it is allowed by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_graph import JobGraph, Target
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.restore.job_restore import restore_job
from airflow_provider_ha.jobs.submit.preparation import upload
from airflow_provider_ha.jobs.submit.submit_request import submit_job
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters import submit_helpers as helpers
from tests.support.specs import changed


REMOTE = "spark://host:7077"
ALLOWED = HaOptions(allow_remote_executors=True)


def graph_of(job: JobContext) -> JobGraph:
    return job.graphs.read_graph(job.runs.get(1).run.graph)


def test_a_remote_master_is_refused_and_leaves_no_trace(copy: JobContext, tmp_path: Path) -> None:
    request = helpers.request(helpers.script(tmp_path), master=REMOTE)

    with pytest.raises(ConfigurationError, match="the Spark master is 'spark://host:7077'") as refused:
        submit_job(copy, request)

    assert "allow_remote_executors=True" in str(refused.value)
    assert copy.coordinator.find(copy.paths.base) is None
    assert not (tmp_path / "storage").exists()  # nothing was uploaded


def test_what_is_allowed_by_name_stays_allowed_for_every_recovery(copy: JobContext, tmp_path: Path) -> None:
    request = changed(helpers.request(helpers.script(tmp_path), master=REMOTE), job_id="copy", ha=ALLOWED)

    submit_job(copy, request)

    assert graph_of(copy).target.master == REMOTE
    assert graph_of(copy).options.allow_remote_executors


@pytest.mark.usefixtures("source")
def test_a_restore_with_a_remote_master_is_refused_unless_allowed(copy: JobContext) -> None:
    request = RestoreRequest(job_id="copy", request_id="r", source_job="flights", master=REMOTE)

    with pytest.raises(ConfigurationError, match="the Spark master is 'spark://host:7077'"):
        restore_job(copy, request)
    assert copy.coordinator.find(copy.paths.base) is None
    restore_job(copy, replace(request, allow_remote_executors=True))

    assert graph_of(copy).options.allow_remote_executors


def test_the_command_allows_the_master_of_a_graph_without_that_permission(
    spark_ha: Any, source: Job, copy: JobContext, tmp_path: Path
) -> None:
    old = upload(copy, helpers.request(helpers.script(tmp_path))).model_copy(update={"target": Target(master=REMOTE)})
    checkpoint = source.checkpoints.load(source.checkpoints.pointer(1))
    graph = copy.graphs.write_graph(old).sha256
    source.checkpoints.add(source.leadership, checkpoint.model_copy(update={"number": 2, "graph": graph}))

    refused, _, error = spark_ha("job", "restore", "copy", "--source-job", "flights")
    done, _, _ = spark_ha("job", "restore", "copy", "--source-job", "flights", "--allow-remote-executors")

    assert (refused, done) == (64, 0)
    assert "--allow-remote-executors" in error
    assert graph_of(copy).options.allow_remote_executors


def test_a_restore_to_a_master_that_its_engine_cannot_use_is_refused_and_leaves_no_trace(
    source: Job, copy: JobContext, tmp_path: Path
) -> None:
    target = Target(engine="standalone", master=REMOTE)
    old = upload(copy, helpers.request(helpers.script(tmp_path))).model_copy(update={"target": target})
    checkpoint = source.checkpoints.load(source.checkpoints.pointer(1))
    graph = copy.graphs.write_graph(old).sha256
    source.checkpoints.add(source.leadership, checkpoint.model_copy(update={"number": 2, "graph": graph}))
    job = replace(copy, engines=Engines.of(copy.config))

    with pytest.raises(ConfigurationError, match=r"'local\[2\]' is not that of a standalone cluster"):
        restore_job(job, RestoreRequest(job_id="copy", request_id="r", source_job="flights", master="local[2]"))

    assert copy.coordinator.find(copy.paths.base) is None
