"""Calls of a script that are replaced, and its packed Python."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from importlib.metadata import Distribution
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.driver import bootstrap
from airflow_provider_ha.driver.queries import patches, script_reads_and_writes
from airflow_provider_ha.driver.queries.patches import Patches, apply_keywords
from airflow_provider_ha.driver.queries.script_reads_and_writes import _Guard
from airflow_provider_ha.driver.queries.writer_notes import notes
from airflow_provider_ha.driver.script import Lifecycle, Script
from airflow_provider_ha.errors import ApplicationRefusedError, ConfigurationError
from airflow_provider_ha.host.supervisor.spark_submit import (
    IMPORTS_VARIABLE,
    _modules_of,
    check_python,
    imports,
    packed_python,
)
from airflow_provider_ha.testing.waiting import wait_until


class Calls:
    """Calls of the originals, in their order."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []

    def of(self, name: str) -> Callable[..., None]:
        return lambda *values, **named: self.made.append((name, *values, *named.items()))


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def lifecycle() -> Lifecycle:
    return Lifecycle()


def patched(lifecycle: Lifecycle, *, known: object = None) -> Patches:
    registry: Any = SimpleNamespace(find=lambda handle: known, script_waits=lambda: None)
    starter: Any = None
    return Patches(lifecycle, registry, starter)


@pytest.mark.parametrize("ended", [True, False])
def test_a_stop_of_the_script_ends_its_query_at_a_boundary_and_by_force_only_when_that_fails(
    lifecycle: Lifecycle, calls: Calls, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    graceful = SimpleNamespace(run=lambda seconds: SimpleNamespace(ended=ended))
    monkeypatch.setattr(patches, "GracefulStop", lambda query: graceful)

    patched(lifecycle, known="q")._stop_query(calls.of("stop"))("handle")

    assert calls.made == ([] if ended else [("stop", "handle")])


def test_a_query_that_is_none_of_ours_is_stopped_as_the_script_says(lifecycle: Lifecycle, calls: Calls) -> None:
    patched(lifecycle)._stop_query(calls.of("stop"))("handle")

    assert calls.made == [("stop", "handle")]


def test_a_stop_of_the_script_during_a_stop_of_the_job_waits_for_that(lifecycle: Lifecycle, calls: Calls) -> None:
    lifecycle.begin_stop()
    script = threading.Thread(target=patched(lifecycle, known="q")._stop_query(calls.of("stop")), args=("handle",))
    script.start()
    assert script.is_alive()

    lifecycle.ended.set()

    wait_until(lambda: not script.is_alive(), timeout=5, what="the end of the script's stop()")
    assert calls.made == []


def test_a_location_of_the_script_is_noted_and_not_handed_on(calls: Calls) -> None:
    writer = SimpleNamespace()

    patches._note_option(calls.of("option"))(writer, "checkpointLocation", "/own")
    patches._note_option(calls.of("option"))(writer, "path", "/out")
    patches._note_options(calls.of("options"))(writer, CheckpointLocation="/other", header=True)

    assert notes(writer).options == {"checkpointlocation": "/other", "path": "/out", "header": "True"}
    assert calls.made == [("option", writer, "path", "/out"), ("options", writer, ("header", True))]


@pytest.mark.parametrize("timeout", [0, -1, True])
def test_a_wait_that_pyspark_refuses_is_refused_by_it(lifecycle: Lifecycle, timeout: Any) -> None:
    def ended_within(seconds: float) -> bool:
        raise ValueError(f"timeout must be a positive integer. Got {seconds}")

    with pytest.raises(ValueError, match=f"Got {timeout}"):
        patched(lifecycle)._wait(ended_within, timeout)


def test_a_wait_that_is_over_before_the_query_says_so(lifecycle: Lifecycle) -> None:
    asked: list[float] = []

    def ended_within(seconds: float) -> bool:
        asked.append(seconds)
        return False

    assert patched(lifecycle)._wait(ended_within, 0.001) is False

    assert max(asked) <= 0.001


def test_keywords_of_start_are_noted_like_calls_of_the_writer(calls: Calls) -> None:
    names = ("options", "outputMode", "partitionBy", "format", "queryName")
    writer = SimpleNamespace(**{name: calls.of(name) for name in names})

    apply_keywords(writer, {"a": 1}, source="json", output_mode="append", partition_by=["day"], name="q")
    apply_keywords(writer, {}, source=None, output_mode=None, partition_by=None, name=None)

    assert calls.made == [
        ("options", ("a", 1)),
        ("outputMode", "append"),
        ("partitionBy", ["day"]),
        ("format", "json"),
        ("queryName", "q"),
        ("options",),
    ]


def test_a_script_that_says_that_it_is_done_has_not_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "app.py"
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setitem(
        sys.modules, "__main__", sys.modules["__main__"]
    )  # a helper process of a test would run it again

    ends = {}
    for code in ("None", "0", "3"):
        script.write_text(f"import sys\nsys.exit({code})\n")
        ends[code] = Script(script, []).run()

    assert ends == {"None": None, "0": None, "3": "app.py ended with sys.exit(3)"}


class BatchWriter:
    """A writer of a batch, in a session whose default format is Parquet and whose tables lie in one directory."""

    def __init__(self, tables: Path) -> None:
        self._spark = SimpleNamespace(conf=SimpleNamespace(get=lambda name: "parquet"))
        self.tables = tables


@pytest.fixture
def guard(lifecycle: Lifecycle, monkeypatch: pytest.MonkeyPatch) -> _Guard:
    monkeypatch.setattr(script_reads_and_writes, "_table_location", lambda session, name: Path.cwd() / name)
    return _Guard(lifecycle)


@pytest.mark.parametrize(
    "write",
    [
        lambda guard, made, writer: guard.save(made)(writer, "out"),
        lambda guard, made, writer: guard.save(made)(writer, path="out"),
        lambda guard, made, writer: guard.of_format("json")(made)(writer, "out"),
        lambda guard, made, writer: guard.save_as_table(made)(writer, "rows", path="out"),
        lambda guard, made, writer: guard.save_as_table(made)(writer, "rows"),
        lambda guard, made, writer: guard.insert_into(made)(writer, "rows"),
    ],
    ids=["save", "save(path=)", "json", "saveAsTable(path=)", "saveAsTable", "insertInto"],
)
def test_a_write_into_the_working_directory_is_refused_however_it_is_written(
    guard: _Guard, lifecycle: Lifecycle, calls: Calls, tmp_path: Path, write: Callable[..., None]
) -> None:
    with pytest.raises(ApplicationRefusedError):
        write(guard, calls.of("write"), BatchWriter(tmp_path))

    assert calls.made == []
    assert isinstance(lifecycle.refusal, ApplicationRefusedError), "also when the script swallows the error"


@pytest.mark.parametrize(
    ("write", "made"),
    [
        (lambda guard, made, writer: guard.save(made)(writer, "/out", "json", "append"), ("/out", "json", "append")),
        (
            lambda guard, made, writer: guard.of_format("json")(made)(writer, "/out", mode="append"),
            ("/out", ("mode", "append")),
        ),
        (
            lambda guard, made, writer: guard.save_as_table(made)(writer, "rows", path="/out"),
            ("rows", None, ("path", "/out")),
        ),
    ],
    ids=["save", "json", "saveAsTable(path=)"],
)
def test_a_write_to_an_absolute_path_is_handed_on_as_it_is(
    guard: _Guard, calls: Calls, tmp_path: Path, write: Callable[..., None], made: tuple[Any, ...]
) -> None:
    writer = BatchWriter(tmp_path)

    write(guard, calls.of("write"), writer)

    assert calls.made == [("write", writer, *made)]


def test_a_path_that_was_an_option_is_the_path_of_the_write(guard: _Guard, calls: Calls, tmp_path: Path) -> None:
    noted: tuple[Callable[[BatchWriter], object], ...] = (
        lambda writer: script_reads_and_writes._note_option(calls.of("option"))(writer, "PATH", "out"),
        lambda writer: script_reads_and_writes._note_options(calls.of("options"))(writer, Path="out"),
    )
    for note in noted:
        writer = BatchWriter(tmp_path)
        script_reads_and_writes._note_format(calls.of("format"))(writer, "json")
        note(writer)

        with pytest.raises(ApplicationRefusedError):
            guard.save(calls.of("save"))(writer)

    assert [name for name, *_ in calls.made] == ["format", "option", "format", "options"]


def test_a_table_whose_place_cannot_be_asked_for_is_left_to_spark() -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("py4j: the JVM is gone")

    session = SimpleNamespace(conf=SimpleNamespace(get=fail))

    assert script_reads_and_writes._table_location(session, "rows") is None


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


def test_a_packed_driver_finds_only_this_package_and_its_requirements_on_the_host(tmp_path: Path) -> None:
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
