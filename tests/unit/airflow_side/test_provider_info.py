"""Provider metadata and supported releases of Airflow."""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import os
import subprocess
import sys
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger

from airflow_provider_ha.airflow_side.compat import NEWEST, OLDEST, RANGE, require_supported
from airflow_provider_ha.airflow_side.compat.sdk import AirflowFailException
from airflow_provider_ha.cli.app import log_to_stderr
from airflow_provider_ha.config import HaConfig, HdfsOptions, S3Options, TlsOptions
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.hooks.spark_ha import SparkHaHook
from airflow_provider_ha.operators import _run
from airflow_provider_ha.operators.follow import SparkHaFollowOperator
from tests.support.clusters.airflow_helpers import AS_LIBRARY
from tests.support.public_classes import INFO, OPERATORS, public_classes


def test_the_metadata_is_valid() -> None:
    schema = json.loads((files("airflow") / "provider_info.schema.json").read_text())

    jsonschema.validate(INFO, schema)


def test_the_connection_form_is_drawn_from_new_style_metadata() -> None:
    connection = INFO["connection-types"][0]
    module, _, name = connection["hook-class-name"].rpartition(".")

    hook = getattr(importlib.import_module(module), name)

    assert hook.conn_type == connection["connection-type"]
    assert connection["conn-fields"]["s3_secret_key"]["schema"]["format"] == "password"
    assert set(connection["ui-field-behaviour"]) == {"hidden-fields", "relabeling", "placeholders"}


def test_before_airflow_3_2_the_hook_says_how_the_standard_fields_look() -> None:
    behaviour = SparkHaHook.get_ui_field_behaviour()

    assert behaviour["hidden_fields"] == ["port", "extra"]
    assert behaviour["relabeling"]["schema"] == "Storage root (required)"
    schema = json.loads((files("airflow") / "customized_form_field_behaviours.schema.json").read_text())
    jsonschema.validate(behaviour, schema)


def test_what_is_required_is_shown_at_once_and_says_so() -> None:
    """Airflow opens the standard fields only; the port is one of each host."""
    behaviour = INFO["connection-types"][0]["ui-field-behaviour"]

    required = {field for field, label in behaviour["relabeling"].items() if "(required)" in label}

    assert required == {"host", "schema"}
    assert set(behaviour["hidden-fields"]) == {"port", "extra"}
    assert set(behaviour["placeholders"]) <= {"host", "schema", "login", "password"}


def test_the_form_has_every_setting_of_a_cluster_once() -> None:
    fields = set(INFO["connection-types"][0]["conn-fields"])
    standard = {"zookeeper", "storage_root", "digest_auth", "sasl_auth"}  # host, schema, login and password
    own = set(HaConfig.model_fields) - standard - {"s3", "hdfs", "tls", "timings", "retention"}
    options = {
        "s3": S3Options.model_fields,
        "hdfs": HdfsOptions.model_fields,
        "tls": TlsOptions.model_fields,
    }
    groups = {f"{group}_{name}" for group, names in options.items() for name in names}

    timings, retention = {"session_timeout", "tolerate_suspended"}, {"retained_runs", "retained_days"}
    assert fields == own | groups | {"tls", "auth_scheme"} | timings | retention


def test_the_form_is_grouped_and_begins_with_the_cluster() -> None:
    fields = INFO["connection-types"][0]["conn-fields"].values()

    sections = list(dict.fromkeys(field["schema"]["section"] for field in fields))

    assert sections == ["Cluster", "S3", "HDFS", "ZooKeeper", "TLS to ZooKeeper"]


def test_every_kind_has_its_public_classes() -> None:
    assert {cls.__name__ for cls in OPERATORS} >= {
        "SparkHaSubmitOperator",
        "SparkHaRestoreOperator",
        "SparkHaSavepointOperator",
        "SparkHaStopOperator",
        "SparkHaCancelOperator",
        "SparkHaCheckpointOperator",
        "SparkHaDeleteJobOperator",
        "SparkHaMoveOperator",
        "SparkHaSelectCheckpointOperator",
        "SparkHaRecoverJobsOperator",
        "SparkHaLeaderSensor",
        "SparkHaJobStatusSensor",
        "SparkHaCheckpointSensor",
    }
    assert all(issubclass(cls, BaseTrigger) for cls in public_classes("triggers"))


def own_parameters(cls: type) -> set[str]:
    """Return the parameters of the classes of this package; those of Airflow are documented by Airflow."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("airflow_provider_ha")]
    signatures = [inspect.signature(base.__dict__["__init__"]) for base in ours if "__init__" in base.__dict__]
    ignored = {"self", "args", "kwargs"}
    return {name for signature in signatures for name in signature.parameters if name not in ignored}


@pytest.mark.parametrize("cls", OPERATORS, ids=lambda cls: cls.__name__)
def test_every_parameter_is_documented_and_keyword_only(cls: type) -> None:
    documented = cls.__doc__ or ""
    if cls.__name__ == "SparkHaPlanRestoreOperator":
        documented += cls.__mro__[1].__doc__ or ""

    held = {name for name in ("when_killed", "force") if f"``{name}``" in documented}
    missing = {name for name in own_parameters(cls) - held if f":param {name}:" not in documented}

    assert not missing
    for name, parameter in inspect.signature(cls).parameters.items():
        assert parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD), name


@pytest.mark.parametrize("cls", OPERATORS, ids=lambda cls: cls.__name__)
def test_every_template_field_is_a_parameter(cls: type[BaseOperator]) -> None:
    assert set(cls.template_fields) <= own_parameters(cls)


@pytest.mark.parametrize("cls", public_classes("triggers"), ids=lambda cls: cls.__name__)
def test_a_stored_trigger_is_made_again_whatever_release_stored_it(cls: Any) -> None:
    path, kwargs = cls(job_id="flights").serialize()
    module, _, name = path.rpartition(".")

    again = getattr(importlib.import_module(module), name)

    assert again(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)
    assert again().serialize()[0] == path
    assert again(**kwargs, of_a_later_release=1).serialize() == (path, kwargs)


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
    command = [sys.executable, "-c", ON_AIRFLOW_2.format(modules=MODULES)]

    done = subprocess.run(command, env=os.environ | AS_LIBRARY, capture_output=True, text=True, check=True)

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
    command = [sys.executable, "-c", ON_AIRFLOW_3_4]

    done = subprocess.run(command, env=os.environ | AS_LIBRARY, capture_output=True, text=True, check=False)

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
