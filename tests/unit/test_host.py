"""Host of a driver: its Spark, its Java and what may take the driver along."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.engines.local import lifetime_warnings, refuse_short_lived, service_of
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.host.java import find_jars, find_java, java_version
from airflow_provider_ha.jobs.drivers import spark_release
from airflow_provider_ha.jobs.drivers.spark_release import (
    NEWEST,
    OLDEST,
    RANGE,
    InstalledSpark,
    check_one_release,
    find_spark_home,
    installed_spark,
)
from airflow_provider_ha.jobs.job_graph import Target
from airflow_provider_ha.jobs.submit import preparation
from airflow_provider_ha.jobs.verification import spark_proof
from tests.engine_helpers import CONFIG


def check_spark(config: HaConfig, target: Target) -> Path | None:
    """Check the Spark of this host for the drivers of the target's engine."""
    return preparation.check_spark(config, Engines.of(config).get(target.engine), target)


def install(
    site: Path, *, package: str | None = None, client: str | None = None, files: str | None = None, jars: str = ""
) -> Path:
    """Write what pip leaves behind: metadata of the distributions, Python files and jars."""
    for name, version in (("pyspark", package), ("pyspark-client", client)):
        if version:
            info = site / f"{name.replace('-', '_')}-{version}.dist-info"
            info.mkdir(parents=True)
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    home = site / "pyspark"
    (home / "jars").mkdir(parents=True)
    (home / "__init__.py").touch()
    (home / "version.py").write_text(f"__version__: str = '{files or package or client}'\n")
    if jars:
        (home / "jars" / f"spark-core_2.13-{jars}.jar").touch()
    return site


def refused(site: Path) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as error:
        check_one_release(installed_spark([str(site)]))
    return error.value


def test_the_parts_of_an_installed_spark_are_read_without_importing_it(tmp_path: Path) -> None:
    site = install(tmp_path, package="4.3.0", client="4.2.0", files="4.2.0", jars="4.3.0")

    assert installed_spark([str(site)]) == InstalledSpark(
        home=site / "pyspark", package="4.3.0", client="4.2.0", files="4.2.0", jars="4.3.0"
    )


@pytest.mark.parametrize("files", ["4.2.0", "4.3.0"])
def test_two_distributions_of_two_releases_are_refused_whichever_was_installed_last(tmp_path: Path, files: str) -> None:
    error = refused(install(tmp_path, package="4.3.0", client="4.2.0", files=files, jars="4.3.0"))

    assert "pyspark 4.3.0 and pyspark-client 4.2.0" in error.message
    assert "pip install --force-reinstall --no-deps pyspark==4.2.0 pyspark-client==4.2.0" in (error.next_step or "")


def test_python_files_under_jars_of_another_release_are_refused(tmp_path: Path) -> None:
    error = refused(install(tmp_path, package="4.3.0", files="4.1.2", jars="4.3.0"))

    assert "of release 4.1.2" in error.message
    assert "jars of release 4.3.0" in error.message
    assert "pyspark==4.3.0" in (error.next_step or "")


def test_a_pyspark_that_lost_its_files_with_another_package_is_refused(tmp_path: Path) -> None:
    site = install(tmp_path, package="4.2.0", jars="4.2.0")
    (site / "pyspark" / "__init__.py").unlink()
    (site / "pyspark" / "version.py").unlink()

    error = refused(site)

    assert "pyspark 4.2.0 is installed, but its Python files are missing" in error.message
    assert "--force-reinstall --no-deps pyspark==4.2.0" in (error.next_step or "")


@pytest.mark.parametrize(
    "parts",
    [
        {"package": "4.2.0", "client": "4.2.0", "jars": "4.2.0"},
        {"package": "4.3.0", "jars": "4.3.0"},
        {"package": "4.3.0.dev0", "jars": "4.3.0-SNAPSHOT"},
        {"client": "4.2.0"},
    ],
)
def test_one_release_passes(tmp_path: Path, parts: dict[str, Any]) -> None:
    check_one_release(installed_spark([str(install(tmp_path, **parts))]))


def test_no_spark_at_all_is_not_this_checks_business(tmp_path: Path) -> None:
    found = installed_spark([str(tmp_path)])

    assert found == InstalledSpark()
    check_one_release(found)


MIXED = InstalledSpark(home=Path("/site/pyspark"), package="4.3.0", client="4.2.0", files="4.2.0", jars="4.3.0")


@pytest.fixture
def mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (spark_proof, spark_release):
        monkeypatch.setattr(module, "installed_spark", lambda: MIXED)
    monkeypatch.delenv("SPARK_HOME", raising=False)


@pytest.mark.usefixtures("mixed")
def test_a_submission_and_a_drivers_start_are_refused_with_both_releases() -> None:
    starts: tuple[Callable[[], object], ...]
    starts = (lambda: check_spark(CONFIG, Target()), lambda: find_spark_home(None))
    for start in starts:
        with pytest.raises(ConfigurationError, match=r"pyspark 4\.3\.0 and pyspark-client 4\.2\.0"):
            start()


@pytest.mark.usefixtures("mixed")
def test_a_proof_says_why_it_starts_no_spark(tmp_path: Path) -> None:
    child: Any = None  # it is refused before it is looked at

    why = spark_proof.run_child(child, 1.0, print)

    assert "pyspark 4.3.0 and pyspark-client 4.2.0" in why


@pytest.mark.usefixtures("mixed")
def test_a_spark_home_of_its_own_is_not_judged_by_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))

    check_spark(CONFIG, Target())

    assert find_spark_home(tmp_path) == tmp_path


def spark_of(home: Path, release: str) -> Path:
    """Return a directory of Spark, as far as its release and its way to be started are looked at."""
    for name in ("bin/spark-submit", f"jars/spark-core_2.13-{release}.jar"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    return home


@pytest.mark.parametrize("release", ["3.5.9", "4.0.5", "4.4.0", "5.0.0"])
def test_a_spark_of_another_release_is_refused_with_the_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    home = spark_of(tmp_path / "spark", release)
    monkeypatch.setenv("SPARK_HOME", str(home))

    starts: tuple[Callable[[], object], ...]
    starts = (lambda: check_spark(CONFIG, Target()), lambda: find_spark_home(home))
    for start in starts:
        with pytest.raises(ConfigurationError, match=rf"on Spark {RANGE}; in '{home}' is Spark {release}"):
            start()


@pytest.mark.parametrize("release", ["4.1.0", "4.2.0", "4.3.1-SNAPSHOT"])
def test_a_spark_within_the_range_is_taken(tmp_path: Path, release: str) -> None:
    home = spark_of(tmp_path / "spark", release)

    assert find_spark_home(home) == home


def test_the_named_range_of_spark_equals_the_range_of_the_package() -> None:
    (spark,) = (line for line in metadata.requires("airflow-provider-ha") or () if line.startswith("pyspark"))

    assert f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}" == RANGE
    assert f">={OLDEST[0]}.{OLDEST[1]}" in spark
    assert f"<{NEWEST[0]}.{NEWEST[1] + 1}" in spark


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize("of_the_job", [True, False])
def test_a_spark_home_among_the_options_is_not_judged_by_what_is_installed(tmp_path: Path, *, of_the_job: bool) -> None:
    options = {"spark_home": str(spark_of(tmp_path, "4.2.0"))}
    config = CONFIG if of_the_job else CONFIG.model_copy(update={"engines": {"local": options}})

    check_spark(config, Target(engine_options=options if of_the_job else {}))


@pytest.mark.usefixtures("mixed")
def test_a_cluster_s_drivers_do_not_use_the_spark_of_the_submitter() -> None:
    check_spark(CONFIG, Target(engine="standalone", master="spark://a:7077"))


def test_a_host_with_only_the_client_is_refused_with_the_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    client = InstalledSpark(home=Path("/site/pyspark"), client="4.2.0", files="4.2.0")
    monkeypatch.setattr(spark_release, "installed_spark", lambda: client)

    with pytest.raises(ConfigurationError, match="only pyspark-client") as error:
        find_spark_home(None)

    assert "airflow-provider-ha[spark] and pyspark==4.2.0" in (error.value.next_step or "")


def test_the_spark_of_this_environment_is_one() -> None:
    found = spark_release.installed_spark()

    assert found.package == found.files == found.jars
    check_one_release(found)


POD = {"AIRFLOW_IS_K8S_EXECUTOR_POD": "True"}


def test_a_pod_of_the_kubernetes_executor_gets_no_local_driver() -> None:
    with pytest.raises(ConfigurationError, match="kills a local driver") as refused:
        refuse_short_lived(POD)

    assert "SPARK_HA_ALLOW_DRIVER_IN=kubernetes-executor" in refused.value.next_step
    assert "docs/how-to/deploy.md" in refused.value.next_step


@pytest.mark.parametrize(
    "env", [{}, POD | {"SPARK_HA_ALLOW_DRIVER_IN": "kubernetes-executor"}, {"AIRFLOW_IS_K8S_EXECUTOR_POD": ""}]
)
def test_what_stays_or_is_allowed_by_name_gets_one(env: dict[str, str]) -> None:
    refuse_short_lived(env)


def test_another_word_allows_nothing() -> None:
    with pytest.raises(ConfigurationError):
        refuse_short_lived(POD | {"SPARK_HA_ALLOW_DRIVER_IN": "true"})


def cgroup(directory: Path, text: str) -> Path:
    path = directory / "cgroup"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("0::/system.slice/airflow-worker.service\n", "airflow-worker.service"),
        ("0::/system.slice/airflow-worker.service/drivers\n", "airflow-worker.service"),
        ("4:memory:/x\n1:name=systemd:/system.slice/airflow@worker.service\n0::/\n", "airflow@worker.service"),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", ""),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n", ""),
        ("4:memory:/system.slice/other.service\n0::/\n", ""),
        ("", ""),
    ],
)
def test_the_service_of_a_process_is_read_from_its_control_group(tmp_path: Path, text: str, unit: str) -> None:
    assert service_of(cgroup(tmp_path, text)) == unit


def test_a_process_without_a_control_group_belongs_to_no_service(tmp_path: Path) -> None:
    assert service_of(tmp_path / "absent") == ""


@pytest.mark.parametrize(
    ("mode", "warned"),
    [("control-group", True), ("mixed", True), ("process", False), ("none", False), ("", False)],
)
def test_a_service_that_kills_its_control_group_is_warned_about(tmp_path: Path, mode: str, warned: bool) -> None:
    found = lifetime_warnings(
        {}, cgroup=cgroup(tmp_path, "0::/system.slice/w.service"), container_signs=(), ask=lambda _: mode
    )

    assert bool(found) is warned
    if warned:
        assert f"systemd stops w.service with KillMode={mode}" in found[0]


@pytest.mark.parametrize("by", ["file", "environment"])
def test_a_container_is_warned_about(tmp_path: Path, by: str) -> None:
    sign = cgroup(tmp_path, "")
    env = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"} if by == "environment" else {}

    (found,) = lifetime_warnings(env, cgroup=sign, container_signs=(sign,) if by == "file" else ())

    assert "this is a container" in found


def test_a_host_without_either_is_silent(tmp_path: Path) -> None:
    assert lifetime_warnings({}, cgroup=cgroup(tmp_path, "0::/init.scope"), container_signs=(tmp_path / "no",)) == ()


LOGIN = "0::/user.slice/user-1000.slice/session-3.scope\n"


@pytest.mark.parametrize(
    ("group", "kills", "warned"),
    [
        (LOGIN, True, True),
        (LOGIN, False, False),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n", True, False),
    ],
)
def test_a_login_whose_end_kills_its_processes_is_warned_about(
    tmp_path: Path, group: str, kills: bool, warned: bool
) -> None:
    found = lifetime_warnings({}, cgroup=cgroup(tmp_path, group), container_signs=(), logout_kills=lambda: kills)

    assert bool(found) is warned
    if warned:
        assert "systemd-run --user --scope" in found[0]


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("command not found", None),
    ],
)
def test_the_major_version_of_java_is_read(answer: str, version: int | None) -> None:
    assert java_version(answer) == version


def test_a_missing_java_is_named_with_the_place_that_was_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(ConfigurationError, match=rf"JAVA_HOME={tmp_path}.*Install Java 17"):
        find_java()


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(ConfigurationError, match="is Java 11, at least 17 is needed"):
        find_java()


def test_the_java_of_a_job_s_environment_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=rf"JAVA_HOME={tmp_path}"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_missing_jars_are_named_with_the_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        find_jars(tmp_path)
