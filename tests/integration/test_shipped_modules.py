"""Modules beside the script are importable wherever Spark runs Python: driver, workers, other processes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.testing.waiting import wait_until
from tests.apps import parts
from tests.support.spark.driver_helpers import CONF, PATIENCE


APPLICATION = Path(__file__).parents[1] / "apps" / "shipped"
WAYS = ("udf", "udf_by_value", "map_in_pandas", "state_in_pandas", "transform_with_state")
EXPECTED = {"value": "one 42", "word": "module beside the script, wheel", "in_driver": "module beside the script"}

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def find_by_all_ways(config: HaConfig, scratch: Path, request: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Run the application as a job, after the directory that it was submitted from is gone."""
    script = Path(shutil.copytree(APPLICATION, scratch / "checkout")) / "app.py"
    built = parts.build(scratch / "parts")
    source, found = scratch / "in", scratch / "found"
    source.mkdir()
    found.mkdir()
    (source / "a.txt").write_text("one\n")
    with HaClient.open(config) as client:
        job = client.job("shipped")
        job.submit(
            JobSpec(
                job_id="shipped",
                request_id="test",
                application=str(script),
                py_files=[str(built.wheel)],
                arguments=["--input", str(source), "--found", str(found)],
                driver_memory="1g",
                **request,
            )
        )
        shutil.rmtree(script.parent)
        shutil.rmtree(scratch / "parts")
        files = [found / f"{way}.json" for way in WAYS]

        wait_until(
            lambda: _ended(job) or all(path.exists() for path in files), timeout=PATIENCE, what="what every way found"
        )

        reason = _ended(job)
        assert reason is None, reason
        job.request_cancel(operation_id="end", requested_by="test")
        wait_until(lambda: _ended(job), timeout=PATIENCE, what="the death of the driver to be proven")
    return {way: json.loads(path.read_text()) for way, path in zip(WAYS, files, strict=True)}


def _ended(job: JobClient) -> str | None:
    run = job.snapshot().run
    newest = run.newest if run is not None else None
    if newest is None or newest.exit is None:
        return None
    return f"{newest.exit.reason}: {Path(newest.exit.log or '/dev/null').read_text(errors='replace')[-4000:]}"


def without_place(found: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    return {way: {key: value for key, value in row.items() if key != "file"} for way, row in found.items()}


def conf(**also: str) -> dict[str, str]:
    kept = {key: value for key, value in CONF.items() if key not in ("spark.master", "spark.driver.memory")}
    return kept | {"spark.sql.shuffle.partitions": "1"} | also


@pytest.mark.hours
def test_every_way_finds_the_modules_in_threads_of_the_driver(config: HaConfig, tmp_path: Path) -> None:
    found = find_by_all_ways(config, tmp_path, {"master": "local[2]", "conf": conf()})

    assert without_place(found) == dict.fromkeys(WAYS, EXPECTED)


@pytest.mark.hours
def test_every_way_finds_the_modules_in_executors_of_their_own(config: HaConfig, tmp_path: Path) -> None:
    found = find_by_all_ways(
        config,
        tmp_path,
        {"master": "local-cluster[1,2,700]", "conf": conf(**{"spark.executor.memory": "700m"})},
    )

    assert without_place(found) == dict.fromkeys(WAYS, EXPECTED)


@pytest.mark.hours
def test_executors_of_other_hosts_import_from_what_spark_brings_them(config: HaConfig, tmp_path: Path) -> None:
    """No directory of the driver's host is there for them: imports have to come from the sent files."""
    found = find_by_all_ways(
        config,
        tmp_path,
        {
            "master": "local-cluster[1,2,700]",
            "conf": conf(**{"spark.executor.memory": "700m"}),
            "ha": HaOptions(allow_remote_executors=True),
        },
    )

    assert without_place(found) == dict.fromkeys(WAYS, EXPECTED)
    assert {Path(row["file"]).parents[1].name for row in found.values()} == {"spark-ha-modules"}
