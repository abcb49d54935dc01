"""The wheel installs and works in a fresh environment, and no choice of extras mixes two releases of Spark."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from airflow_provider_ha.airflow_side.compat import NEWEST, OLDEST
from tests.support.wheel import wheel as built_wheel


ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")  # .ci/bootstrap puts it there
SPARK = ("pyspark", "pyspark-client", "pyspark-connect")  # all of them write into one directory

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The wheel of this tree, built once for all that install it."""
    return built_wheel()


@pytest.fixture(scope="module")
def driver_host(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of an environment that has the wheel without extras."""
    environment = tmp_path_factory.mktemp("host") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    constraints = str(ROOT / "constraints.txt")
    subprocess.run(
        [str(environment / "bin" / "pip"), "install", "--quiet", "--constraint", constraints, str(wheel)], check=True
    )
    return environment / "bin"


def said(*command: Path | str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def test_without_extras_there_is_no_airflow_and_the_command_works(driver_host: Path, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()

    imported = said(driver_host / "python", "-c", "import airflow_provider_ha.host.supervisor.main, airflow")
    verified = said(driver_host / "spark-ha", "checkpoint", "verify", tmp_path / "checkpoint", "--json")

    assert "No module named 'airflow'" in imported.stderr
    assert verified.returncode == 0
    assert '"EMPTY"' in verified.stdout


def test_the_wheel_requires_the_releases_of_airflow_that_the_package_takes(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        written = message_from_bytes(archive.read(name))
    wanted = [Requirement(line) for line in written.get_all("Requires-Dist", [])]
    (airflow,) = {one.specifier for one in wanted if one.name == "apache-airflow"}  # of two extras

    assert all(airflow.contains(f"{major}.{minor}.0") for major, minor in (OLDEST, NEWEST))
    assert not airflow.contains("2.11.0")
    assert not airflow.contains(f"{NEWEST[0]}.{NEWEST[1] + 1}.0")
    assert "wtforms" in {one.name for one in wanted}, "of which older releases make the connection form"


def test_the_wheel_brings_the_pages_along(wheel: Path) -> None:
    plugins = ROOT / "airflow_provider_ha" / "airflow_side" / "page"
    wanted = {
        str(path.relative_to(ROOT))
        for folder in ("templates", "static")
        for path in (plugins / folder).rglob("*")
        if path.is_file()
    }

    with zipfile.ZipFile(wheel) as archive:
        assert wanted
        assert wanted <= set(archive.namelist())


def test_the_wheel_brings_the_example_dags_along(driver_host: Path, tmp_path: Path) -> None:
    shipped = {path.relative_to(ROOT / "dags").as_posix(): path for path in (ROOT / "dags").rglob("*.py")}

    copied = said(driver_host / "spark-ha", "examples", tmp_path / "dags", "--json")

    assert json.loads(copied.stdout)["written"] == sorted(shipped)
    assert all((tmp_path / "dags" / name).read_bytes() == path.read_bytes() for name, path in shipped.items())


def test_a_host_without_spark_names_the_requirements_of_a_driver(driver_host: Path) -> None:
    program = "from airflow_provider_ha.jobs.drivers.spark_release import find_spark_home as f; f(None)"

    found = said(driver_host / "python", "-c", program)

    assert "no pyspark is installed" in found.stderr
    assert "Install airflow-provider-ha[spark] there" in found.stderr


@pytest.mark.hours
@pytest.mark.parametrize(
    ("extras", "expected"),
    [("airflow", set()), ("spark", {"pyspark"}), ("airflow,spark", {"pyspark"})],
    ids=["airflow", "spark", "airflow+spark"],
)
@pytest.mark.parametrize("constrained", [False, True], ids=["newest", "constraints"])
def test_extras_resolve_to_one_release_of_spark(
    extras: str, expected: set[str], *, constrained: bool, wheel: Path, tmp_path: Path
) -> None:
    """In a fresh environment; nothing is installed."""
    environment = tmp_path / "venv"
    subprocess.run([str(UV), "venv", "--quiet", "--python", sys.executable, str(environment)], check=True)
    options = ("--constraint", ROOT / "constraints.txt") if constrained else ()

    resolved = said(
        UV, "pip", "install", "--dry-run", "--python", environment / "bin" / "python", *options, f"{wheel}[{extras}]"
    )

    assert resolved.returncode == 0, resolved.stderr
    found = dict(re.findall(r"^ \+ ([a-z0-9-]+)==(\S+)$", resolved.stderr, re.MULTILINE))
    assert "airflow-provider-ha" in resolved.stderr
    assert set(SPARK) & set(found) == expected
    assert ("apache-airflow" in found) == ("airflow" in extras)
    assert len({found[name] for name in expected}) <= 1
