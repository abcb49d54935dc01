"""From the words of ``spark-ha job submit`` to the spec of a job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.cli.adopted import adopted, start_words
from airflow_provider_ha.cli.conf_options import driver_environment, spark_conf
from airflow_provider_ha.cli.requests import operation_id
from airflow_provider_ha.cli.restore_options import by_query, split_lists
from airflow_provider_ha.cli.savepoint_target import assigned
from airflow_provider_ha.cli.session import Target
from airflow_provider_ha.control.job.spec import JobSpec
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.declared import read


def spec_of(
    words: Mapping[str, Any],
    target: Target,
    *,
    request_id: str | None = None,
    properties_file: Path | None = None,
    spark_conn_id: str | None = None,
) -> JobSpec:
    """Return the spec of a job.

    :param words: Option of the spec -> its words; ``None`` for one that is left out.
    :param target: Knows the connections of Airflow, when there are any.
    :raises ConfigurationError: A word cannot be read, or words do not fit one another.
    """
    where = target.driver_place(spark_conn_id)
    engine_options = assigned(words["engine_options"] or [], "--engine-option")
    start_from, sinks = _start(words["start_from"], words["sinks"])
    given = {
        **words,
        **split_lists(words),
        "conf": spark_conf(words["conf"] or [], properties_file),
        "env": driver_environment(words["env"] or []),
        **where.options(words["master"], words["engine"], engine_options),
        "kafka_bootstrap": by_query("--kafka-bootstrap", words["kafka_bootstrap"]),
        "start_from": start_from,
        "sinks": sinks,
        "accept_verdicts": {Verdict.SAFE, *(words["accept_verdicts"] or ())},
    }
    subject = f"the submission of job {words['job_id']!r}"
    return read(JobSpec, given, subject=subject, request_id=request_id or operation_id("submit"))


def _start(start_from: list[str] | None, sinks: list[str] | None) -> tuple[str | Mapping[str, str], Mapping[str, str]]:
    words = start_words(start_from)
    if words.directories:
        found = adopted(words.directories, sinks or [])
        return found.directories, found.sinks
    if sinks:
        raise ConfigurationError(
            f"--start-from {words.word} names no directories",
            next_step="Remove --sink: it applies only to directories",
        )
    return words.word, {}
