"""A Python that travels in an archive: when there is one, and which one is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from airflow_provider_ha.driver import bootstrap
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.supervisor.spark_submit import (
    IMPORTS_VARIABLE,
    _modules_of,
    check_python,
    imports,
    packed_python,
)


NAMED = "./environment/bin/python"


@pytest.mark.parametrize(
    ("conf", "found"),
    [
        ({}, None),
        ({"spark.pyspark.python": "/usr/bin/python3"}, None),
        ({"spark.pyspark.python": "python3"}, None),
        ({"spark.pyspark.python": NAMED}, NAMED),
        ({"spark.pyspark.python": NAMED, "spark.pyspark.driver.python": "/usr/bin/python3"}, None),
    ],
)
def test_a_relative_path_names_a_packed_python(conf: dict[str, str], found: str | None) -> None:
    assert packed_python(conf) == found


def interpreter(root: Path, script: str) -> None:
    path = root / "environment" / "bin" / "python"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)


def test_one_of_the_same_release_is_taken(tmp_path: Path) -> None:
    interpreter(tmp_path, f'exec {sys.executable} "$@"')

    check_python(NAMED, tmp_path)


def test_one_of_another_release_is_refused(tmp_path: Path) -> None:
    interpreter(tmp_path, "echo 2.7")

    with pytest.raises(ConfigurationError, match=r"is 2\.7, and airflow-provider-ha has 3\."):
        check_python(NAMED, tmp_path)


@pytest.mark.parametrize("broken", [True, False])
def test_one_that_cannot_be_run_is_refused(tmp_path: Path, broken: bool) -> None:
    if broken:
        interpreter(tmp_path, "exit 3")

    with pytest.raises(ConfigurationError, match=r"cannot be run on this host.*each host needs that Python"):
        check_python(NAMED, tmp_path)


def test_a_driver_in_it_finds_this_package_and_what_it_needs_and_nothing_else_of_the_host(tmp_path: Path) -> None:
    """Executors, in the same environment, have nothing else either: with Arrow on one side only, UDFs fail."""
    program = f"""
import sys, os, types
sys.path[:] = [entry for entry in sys.path if "packages" not in entry]
sys.path.insert(0, {str(Path(bootstrap.__file__).parent)!r})
import bootstrap
def main():
    import airflow_provider_ha.jobs.model, boto3, kazoo.client, zstandard
    for name in ("pyarrow", "pytest"):
        try:
            __import__(name)
        except ImportError:
            print("no", name)
    print(os.environ.get({IMPORTS_VARIABLE!r}))
sys.modules["airflow_provider_ha.driver.main"] = types.SimpleNamespace(main=main)
bootstrap.enter()
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env=environment | {IMPORTS_VARIABLE: imports()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.stdout.splitlines() == ["no pyarrow", "no pytest", "None"], ran.stderr


def test_the_modules_of_a_distribution_that_declares_none_are_known_by_its_files(tmp_path: Path) -> None:
    """As each wheel of a newer build backend; Python 3.10 itself knows only what is declared."""
    info = tmp_path / "demo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
    files = (
        "one.py",
        "package/__init__.py",
        f"_native{sysconfig.get_config_var('EXT_SUFFIX')}",
        "demo.libs/libx.so",
        "../../../bin/demo",
        "demo-1.0.dist-info/METADATA",
    )
    for file in files[:4]:  # newer Pythons leave out what is not there
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))

    assert _modules_of(Distribution.at(info)) == {"one", "package", "_native"}
