"""No Java, wrong Java, no jars: one sentence each, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.java import find_jars, find_java, java_version


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
