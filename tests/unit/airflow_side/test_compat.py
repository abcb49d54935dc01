"""Which releases of Airflow are supported, and what is said of the others."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from airflow_provider_ha.airflow_side.compat import NEWEST, OLDEST, RANGE, require_supported
from airflow_provider_ha.airflow_side.compat.sdk import AirflowFailException
from airflow_provider_ha.cli.app import log_to_stderr
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.operators import _run
from airflow_provider_ha.operators.follow import SparkHaFollowOperator


@pytest.mark.parametrize(
    ("version", "release"),
    [("3.0.0", (3, 0, 0)), ("3.1.8", (3, 1, 8)), ("3.3.0rc1", (3, 3, 0)), ("3.3", (3, 3, 0)), ("3.3.12", (3, 3, 12))],
)
def test_a_release_within_the_range_is_taken(version: str, release: tuple[int, int, int]) -> None:
    assert require_supported(version) == release


@pytest.mark.parametrize("version", ["2.11.0", "3.4.0", "3.4.0.dev0", "4.0.0"])
def test_a_release_outside_the_range_is_refused_with_both(version: str) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"runs on Airflow {RANGE}; Airflow {version} is installed"
    ) as refused:
        require_supported(version)

    assert refused.value.next_step == "Install apache-airflow>=3.0,<3.4 in the same environment"


def test_the_range_is_what_it_is_called() -> None:
    assert f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}" == RANGE


MODULES = (
    "operators.submit",
    "operators.recover_jobs",
    "hooks.spark_ha",
    "sensors.leader",
    "triggers.cluster",
    "airflow_side.links",
)
ON_AIRFLOW_2 = """
import importlib, sys, airflow
airflow.__version__ = "2.11.0"
sys.modules["airflow.sdk"] = None
for module in {modules!r}:
    try:
        importlib.import_module(f"airflow_provider_ha.{{module}}")
    except Exception as error:
        print("said", type(error).__name__, error)
"""


@pytest.mark.slow
def test_a_dag_on_another_release_fails_with_the_sentence() -> None:
    """Nothing of ``airflow.sdk`` is there, as with Airflow 2. What failed to be imported is imported again."""
    done = subprocess.run(
        [sys.executable, "-c", ON_AIRFLOW_2.format(modules=MODULES)], capture_output=True, text=True, check=True
    )

    said = [line for line in done.stdout.splitlines() if line.startswith("said ")]
    assert len(said) == len(MODULES), done.stdout
    for line in said:
        assert line.startswith("said ConfigurationError airflow-provider-ha ")
        assert "runs on Airflow 3.0 to 3.3; Airflow 2.11.0 is installed" in line


ON_AIRFLOW_3_4 = """
import airflow
airflow.__version__ = "3.4.0"
from argparse import Namespace
from airflow_provider_ha.cli.app import run_words
run_words(Namespace(subcommand="job", words=["list"]))
"""


@pytest.mark.slow
def test_the_command_of_airflow_on_another_release_ends_with_the_sentence() -> None:
    done = subprocess.run([sys.executable, "-c", ON_AIRFLOW_3_4], capture_output=True, text=True, check=False)

    assert done.returncode == 64
    assert "runs on Airflow 3.0 to 3.3; Airflow 3.4.0 is installed" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("when_killed", ["cancel", "stop_with_checkpoint"])
def test_before_airflow_3_3_a_task_promises_nothing_for_the_case_that_it_is_killed(
    monkeypatch: pytest.MonkeyPatch, when_killed: str
) -> None:
    monkeypatch.setattr(_run, "AIRFLOW_V_3_3_PLUS", False)
    monkeypatch.setattr(_run, "AIRFLOW", (3, 1, 8))
    task = SparkHaFollowOperator(task_id="t", job_id="flights", when_killed=when_killed)

    with pytest.raises(AirflowFailException, match=rf"when_killed='{when_killed}' needs Airflow 3\.3, and 3\.1\.8"):
        task.execute({})

    _run.refuse_unheard("detach")


def test_what_airflow_logs_to_stdout_goes_to_stderr_with_its_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow 3.0 logs to stdout, where the document of ``--json`` is."""
    root = logging.getLogger("stands in for the root")
    handler = logging.StreamHandler(sys.stdout)
    masks = logging.Filter("what masks secrets")
    handler.addFilter(masks)
    handler.setLevel(logging.WARNING)
    root.addHandler(handler)
    monkeypatch.setattr(logging, "getLogger", lambda: root)

    log_to_stderr()

    (moved,) = root.handlers
    assert isinstance(moved, logging.StreamHandler)
    assert (moved.stream, moved.level, moved.filters) == (sys.stderr, logging.WARNING, [masks])
