"""The files to copy of the page *Deploy* are what systemd, compose and ZooKeeper read, and its ports are the code's."""

from __future__ import annotations

import configparser
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from airflow_provider_ha.config import VARIABLES, HaConfig
from airflow_provider_ha.coordination import raw_socket
from airflow_provider_ha.hooks import _connection
from airflow_provider_ha.host.engines import standalone
from airflow_provider_ha.host.engines.local import _SPARES_DRIVERS
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.storage import hdfs_store
from airflow_provider_ha.timings import Timings
from tests.docs.blocks import blocks_of
from tests.docs.test_code_blocks import ROOT, assert_command_exists
from tests.docs.test_pictures import texts
from tests.support.clusters.record_samples import record_types


PAGE = ROOT / "docs" / "how-to" / "deploy.md"
TEXT = PAGE.read_text(encoding="utf-8")
FILES = {block.title: block.text for block in blocks_of(PAGE) if block.title}
UNITS = {Path(name).name: text for name, text in FILES.items() if name.startswith("/etc/systemd/system/")}
SERVICES = sorted(name for name in UNITS if name.endswith(".service"))
TIMERS = sorted(name for name in UNITS if name.endswith(".timer"))
COMPOSE = yaml.safe_load(FILES["compose.yaml"])["services"]
PORTS = {raw_socket._DEFAULT_PORT, _connection.DEFAULT_PORT, int(standalone.REST_PORT), hdfs_store.WEB_PORT}


def unit(name: str) -> configparser.ConfigParser:
    """Parse a unit; a key that is there twice is an error."""
    parsed = configparser.ConfigParser(interpolation=None, delimiters=["="])
    parsed.optionxform = str  # type: ignore[method-assign, assignment]  # keys of systemd have capitals
    parsed.read_string(UNITS[name])
    return parsed


def settings(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def section(title: str) -> str:
    return TEXT.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def test_the_ports_are_those_of_the_code() -> None:
    listed = {int(port) for port in re.findall(r"(?<![\w.])\d{3,5}(?!\w)", section("Hosts and ports"))}
    drawn = {int(port) for text in texts("hosts.svg") for port in re.findall(r"\b\d{3,5}\b", text)}

    assert PORTS <= drawn <= listed


def test_a_local_driver_opens_its_ports_on_the_loopback_as_the_page_says() -> None:
    """Those of Spark: ``tests/fault/test_supervisor.py``."""
    assert HaOptions().metrics_address == "127.0.0.1"
    assert HaOptions().metrics_port is None


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_runs_a_command_that_exists_with_the_variables_of_the_cluster(name: str) -> None:
    service = unit(name)["Service"]
    (command,) = re.findall(r"/opt/spark-ha/bin/(spark-ha [^>']*?)(?= > |$)", service["ExecStart"])

    assert_command_exists(command, where=name)
    assert service["EnvironmentFile"] in FILES
    assert service["User"] == "spark"


def test_the_variables_of_the_units_are_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    given = settings(FILES["/etc/spark-ha/cluster.env"])
    for name, value in given.items():
        monkeypatch.setenv(name, value)

    config = HaConfig.from_env()

    assert set(given) <= VARIABLES | {"JAVA_HOME"}
    assert unit("spark-ha-recover.service")["Unit"]["RequiresMountsFor"] == config.storage_root.removeprefix("file://")


def test_the_service_that_runs_drivers_spares_them_and_comes_back() -> None:
    service = unit("spark-ha-recover.service")["Service"]

    assert service["KillMode"] in _SPARES_DRIVERS
    assert service["Restart"] == "always"
    assert unit("spark-ha-recover.service")["Install"]["WantedBy"] == "multi-user.target"
    assert list(service)[-5:] == ["KillMode", "Delegate", "OOMPolicy", "TimeoutStopSec", "TasksMax"]
    assert "the same last five lines" in " ".join(section("systemd").split())


@pytest.mark.parametrize("name", TIMERS)
def test_a_timer_starts_a_service_of_the_page_that_ends(name: str) -> None:
    timer = unit(name)

    assert timer["Timer"]["OnCalendar"] in ("hourly", "minutely")
    assert timer["Install"]["WantedBy"] == "timers.target"
    assert unit(name.replace(".timer", ".service"))["Service"]["Type"] == "oneshot"


def test_the_list_of_metrics_is_where_prometheus_looks() -> None:
    words = shlex.split(unit("spark-ha-targets.service")["Service"]["ExecStart"])
    written = words[words.index("--output") + 1]

    assert f"- files: [{written}]" in (ROOT / "docs" / "how-to" / "metrics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", [0, 2])
def test_an_export_that_fails_leaves_that_of_the_last_day(code: int, tmp_path: Path) -> None:
    program = tmp_path / "spark-ha"
    program.write_text(f"#!/bin/sh\necho '{{}}'\nexit {code}\n", encoding="utf-8")
    program.chmod(0o755)
    given = unit("spark-ha-export.service")["Service"]["ExecStart"].replace("$$", "$").replace("%%", "%")
    words = shlex.split(given.replace("/opt/spark-ha/bin", str(tmp_path)))

    done = subprocess.run(words, cwd=tmp_path, check=False)

    assert done.returncode == code
    assert bool(list(tmp_path.glob("tree-[0-2][0-9].json"))) == (code == 0)


def test_the_containers_run_commands_that_exist_as_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    recover = COMPOSE["recover"]
    for name, value in recover["environment"].items():
        monkeypatch.setenv(name, value)

    config = HaConfig.from_env()

    assert_command_exists(shlex.join(recover["command"]), where="compose.yaml")
    assert set(recover["environment"]) <= VARIABLES
    assert config.zookeeper.split(":") == [next(iter(COMPOSE)), str(raw_socket._DEFAULT_PORT)]
    mounted = [volume.split(":")[1] for volume in recover["volumes"]]
    assert any(config.storage_root.startswith(f"file://{place}/") for place in mounted)
    assert recover["init"] is True


def test_zookeeper_purges_and_has_a_tick_that_leases_bear() -> None:
    server = settings(FILES["zoo.cfg"])
    given = COMPOSE["zookeeper"]["environment"]

    Timings().check_tick(int(server["tickTime"]) / 1000)
    assert int(server["autopurge.purgeInterval"]) > 0
    assert int(server["autopurge.snapRetainCount"]) >= 3  # ZooKeeper's least
    assert "conf" in server["4lw.commands.whitelist"]
    assert list(given.values()) == list(server.values())


def test_all_records_have_the_format_that_the_way_back_relies_on() -> None:
    (version,) = {record.format_version for record in record_types().values()}

    assert f"have the format {version}" in " ".join(section("Upgrade the package").split())
