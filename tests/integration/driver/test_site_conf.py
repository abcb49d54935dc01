"""The site's ``spark-defaults.conf`` reaches a managed driver, below the job's own conf."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.options.conf import keys_of, site_defaults
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters import submit_helpers as helpers


MAIN = "org.apache.spark.deploy.SparkSubmit"
LAUNCHER = "org.apache.spark.launcher.Main"  # a JVM that only writes the command line of the other one
DEFAULTS = """
# of the site
spark.driver.defaultJavaOptions  -Dof.the.site=yes
spark.hadoop.fs.s3a.secret.key=site-secret
spark.master yarn
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the site's conf, as a host has it."""
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "spark-defaults.conf").write_text(DEFAULTS)
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder))
    return folder


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator) -> Iterator[JobContext]:
    context = helpers.context(config, coordinator)
    yield context
    helpers.kill_all(context)


def jvm_of(job: JobContext) -> list[str] | None:
    """Return the command line of the driver's JVM, once spark-submit has become it."""
    for process in helpers.processes_of(job.runs.get(1).submissions[0].submission):
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if words and Path(words[0]).name == "java" and MAIN in words and LAUNCHER not in words:
            return words
    return None


@pytest.mark.spark
def test_a_driver_reads_the_sites_defaults_below_its_own_conf(job: JobContext, site: Path, tmp_path: Path) -> None:
    assert site.is_dir()
    helpers.submit(job, helpers.script(tmp_path))

    words = wait_until(lambda: jvm_of(job), timeout=60, what="the JVM of the driver")

    assert "-Dof.the.site=yes" in words
    assert "spark.master=yarn" not in words


def test_the_keys_of_the_site_are_known_and_their_values_are_not(site: Path) -> None:
    path = site_defaults(None, {"SPARK_CONF_DIR": str(site)})

    assert path == site / "spark-defaults.conf"
    assert keys_of(path) == ["spark.driver.defaultJavaOptions", "spark.hadoop.fs.s3a.secret.key", "spark.master"]


def test_without_a_directory_of_its_own_the_conf_of_spark_home_counts(site: Path) -> None:
    home = site.parent / "spark"
    (home / "conf").mkdir(parents=True)
    assert site_defaults(home, {}) is None

    (home / "conf" / "spark-defaults.conf").write_text(DEFAULTS)

    assert site_defaults(home, {}) == home / "conf" / "spark-defaults.conf"
