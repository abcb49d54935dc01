"""Spark conf and environment of a job on the command line. A command line is readable by every user of the host."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from airflow_provider_ha.cli.savepoint_target import assigned
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.redaction import secret_values


_LINE = re.compile(r"\s*(?P<key>[^\s:=]+)(?:\s*[:=]\s*|\s+)(?P<value>.*?)\s*")


def read_spark_properties(path: Path | None) -> dict[str, str]:
    """Return the properties in a file in the form of ``spark-defaults.conf``; empty without a file.

    Java's escapes and continued lines are refused, because this command would read their values differently from Spark.

    :raises ConfigurationError: It cannot be read, or a line is not ``key value``; the message has no values.
    """
    if path is None:
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigurationError(
            f"the properties file {str(path)!r} cannot be read: {reason}", next_step="Name another file"
        ) from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        match = _LINE.fullmatch(line)
        if match is None or "\\" in line:
            raise ConfigurationError(
                f"line {number} of the properties file {str(path)!r} is not 'key value' or 'key=value' on one line",
                next_step="Correct it; a backslash is not read",
            )
        found[match["key"]] = match["value"]
    return found


def spark_conf(conf: Sequence[str], path: Path | None) -> dict[str, str]:
    """Return the conf of a job: ``--conf`` overrides the file, as for spark-submit.

    :raises ConfigurationError: A word or a line cannot be read.
    """
    return {**read_spark_properties(path), **assigned(conf, "--conf")}


def driver_environment(values: Iterable[str], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a driver: ``NAME=VALUE``, or ``NAME`` for the command's own value.

    :raises ConfigurationError: The command has no such variable, or a name is repeated.
    """
    environment = os.environ if environment is None else environment
    values = list(values)
    for name in (value for value in values if "=" not in value):
        if name not in environment:
            raise ConfigurationError(
                f"--env {name}: this command has no such variable", next_step=f"Export it, or write {name}=VALUE"
            )
    return assigned([value if "=" in value else f"{value}={environment[value]}" for value in values], "--env")


def visible_secrets(conf: Sequence[str], env: Sequence[str]) -> list[str]:
    """Return the names on a command line whose values look like secrets, for a warning."""
    pairs = [value.partition("=") for value in (*conf, *env) if "=" in value]
    return [name for name, _, value in pairs if secret_values({name: value})]
